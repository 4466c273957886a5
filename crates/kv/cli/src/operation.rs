//! Operation of a server: its cores, its handling of datagrams, and its end.

use std::time::Duration;

use clap::value_parser;
use overside_device::threads::pin;
use overside_kv::server::{Settings, Steering};
use overside_kv::udp::RX_QUEUE_DEFAULT;
use overside_kv_offload::design::Layout;

use super::cores::{self, Cores};
use super::limits::{SECONDS_MAX, one_of};
use overside_command::options::time_within;

#[derive(clap::Args)]
#[command(next_help_heading = "Operation")]
pub(super) struct OperationArguments {
    /// Stay on this core
    #[arg(long, value_name = "N", conflicts_with = "cores")]
    core: Option<usize>,
    /// Serve with so many cores, or with these (`0,2,3`): each has a part of the keys, memory divided by
    /// their number
    #[arg(long, value_name = "N|LIST", default_value = "1", value_parser = cores::parse)]
    pub cores: Cores,
    /// Never sleep: keeps a core busy, and answers sooner
    #[arg(long)]
    busy_poll: bool,
    /// Receive descriptors of each socket for datagrams, and of each queue of --dpdk-port: about so many datagrams
    /// wait before more are dropped. Of a UDP socket this is its receive buffer (SO_RCVBUF), 2 KiB a descriptor
    #[arg(long, value_name = "N", default_value_t = RX_QUEUE_DEFAULT as u32,
          value_parser = value_parser!(u32).range(8..=1 << 16),)]
    rx_queue: u32,
    /// With several cores, how datagrams arrive at the core that has their keys: `bpf` by a program in the kernel
    /// where it can, and by ports; `ports` by ports alone. At --dpdk-port by rules of the card where it has some
    /// (rte_flow), else the core that receives one hands it over
    #[arg(long, default_value = "bpf",
          value_parser = one_of([("bpf", Steering::Bpf), ("ports", Steering::Ports)]))]
    steering: Steering,
    /// On shutdown, wait this long for clients to take their replies
    #[arg(long, value_name = "TIME", default_value = "10s",
          value_parser = time_within(0.0..=SECONDS_MAX))]
    drain: Duration,
    /// Print what it would take and where it would listen, and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Print addresses as JSON
    #[arg(long)]
    pub json: bool,
}

impl OperationArguments {
    /// Receive descriptors of a queue.
    pub(super) fn rx_queue(&self) -> usize {
        self.rx_queue as usize
    }

    /// The cores that threads stay on.
    pub(super) fn pinned(&self) -> Vec<usize> {
        match &self.cores {
            Cores::Count(_) => self.core.into_iter().collect(),
            Cores::List(cores) => cores.clone(),
        }
    }

    /// Refuses cores that threads could not stay on.
    pub(super) fn check_cores(&self) -> Result<(), String> {
        self.pinned().into_iter().try_for_each(|core| {
            // A thread that ends at once: this one stays where it is.
            let tried = std::thread::spawn(move || pin(core)).join();
            tried.unwrap_or(Ok(())).map_err(|error| {
                format!("{error}; --core and --cores take those that nproc counts")
            })
        })
    }

    /// Returns the settings of a server with these threads; the rest is taken from `others`.
    pub(super) fn settings(&self, layout: &Layout, others: Settings) -> Settings {
        let pinned = self.pinned();
        Settings {
            busy_poll: self.busy_poll,
            rx_queue: self.rx_queue(),
            steering: self.steering,
            workers: layout.host.serving(),
            // The first one is that of the thread with the store alone, if there is such a thread.
            cores: (pinned.iter().skip(layout.host.processing)).copied().collect(),
            drain: self.drain,
            ..others
        }
    }
}
