//! The server's counters, as `INFO` has them.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use overside_kv::client;
use overside_kv::stages::Stage;
use overside_kv_bench::{Address, Settings};

/// Longest time to connect to the server, and longest time to wait for a part of its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Counts since the server's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counters {
    /// Times of the stages in nanoseconds, in the order of [`Stage::ALL`].
    pub stages_ns: [u64; Stage::COUNT],
    pub batches: u64,
    pub commands: u64,
    pub turns: u64,
    /// CPU time of the thread that serves.
    pub cpu_ns: u64,
}

/// Counts of a server: of the threads with clients, and of the one with the keys where that is another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServerCounters {
    pub clients: Counters,
    /// `None`: threads with clients have the keys.
    pub keys: Option<Counters>,
}

impl ServerCounters {
    /// Reads `INFO` of the server.
    pub(super) fn read(settings: &Settings) -> Result<Self, String> {
        let address = &settings.address;
        let info = info(settings).map_err(|error| format!("{address}: {error}"))?;
        Self::parse(&info).ok_or_else(|| {
            format!("{address} does not count stages; `overside kv serve` of this version does")
        })
    }

    fn parse(info: &str) -> Option<Self> {
        let text = |name: &str| {
            let mut fields = info.lines().filter_map(|line| line.split_once(':'));
            fields.find(|(field, _)| *field == name)
        };
        let number = |name: &str| text(name)?.1.trim().parse::<u64>().ok();
        let stages_ns = |prefix: &str| {
            let mut stages_ns = [0; Stage::COUNT];
            for stage in Stage::ALL {
                stages_ns[stage as usize] = number(&format!("{prefix}stage_{}_ns", stage.name()))?;
            }
            Some(stages_ns)
        };
        let cpu_s: f64 = text("used_cpu_main_thread")?.1.trim().parse().ok()?;
        let keys = || {
            Some(Counters {
                stages_ns: stages_ns("processing_")?,
                batches: number("processing_batches")?,
                commands: number("processing_requests")?,
                turns: number("processing_turns")?,
                cpu_ns: number("processing_cpu_ns")?,
            })
        };
        Some(Self {
            clients: Counters {
                stages_ns: stages_ns("")?,
                batches: number("batches")?,
                commands: number("total_commands_processed")?,
                turns: number("turns")?,
                cpu_ns: (cpu_s * 1e9) as u64,
            },
            keys: keys(),
        })
    }
}

fn info(settings: &Settings) -> std::io::Result<String> {
    let password = settings.password.as_deref();
    match &settings.address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            client::info(stream, password)
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            client::info(stream, password)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ServerCounters;

    #[test]
    fn counters_are_found_by_name_and_must_all_be_there() {
        let info = "$999\r\n# Stats\r\ntotal_commands_processed:7\r\nused_cpu_main_thread:0.5\r\n\
                    stage_wait_ns:1\r\nstage_poll_ns:2\r\nstage_receive_ns:3\r\nstage_parse_ns:4\r\n\
                    stage_process_ns:5\r\nstage_persist_ns:6\r\nstage_respond_ns:7\r\n\
                    stage_other_ns:8\r\nbatches:9\r\nturns:10\r\n+OK\r\n";
        let ServerCounters { clients: counters, keys } = ServerCounters::parse(info).unwrap();
        assert_eq!(keys, None);
        assert_eq!(counters.stages_ns, [1, 2, 3, 4, 5, 6, 7, 8]);
        let others = (counters.batches, counters.commands, counters.turns);
        assert_eq!(others, (9, 7, 10));
        assert_eq!(counters.cpu_ns, 500_000_000);
        assert_eq!(ServerCounters::parse(&info.replace("stage_parse_ns", "x")), None);
        let others = "processing_batches:1\r\nprocessing_requests:2\r\nprocessing_turns:3\r\n\
                      processing_cpu_ns:4\r\n";
        let stages = ["wait", "poll", "receive", "parse", "process", "persist", "respond", "other"];
        let stages = stages.map(|stage| format!("processing_stage_{stage}_ns:7\r\n")).concat();
        let both = ServerCounters::parse(&[info, others, &stages].concat());
        let keys = both.unwrap().keys.unwrap();
        assert_eq!((keys.stages_ns, keys.batches, keys.commands), ([7; 8], 1, 2));
        assert_eq!((keys.turns, keys.cpu_ns), (3, 4));
        assert_eq!(ServerCounters::parse("# Server\r\nredis_version:7.0.15\r\n"), None);
    }
}
