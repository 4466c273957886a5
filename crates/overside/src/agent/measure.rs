//! Tests on an agent: it plays the remote end of a host's tests, and measures whole tests in worker
//! processes.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use overside_command::{complain, exit, options::size_within};
use overside_link::agent::Probe;
pub(crate) use overside_measure::node::WORKER_VERB;
use overside_measure::node::{self, DataCache, MeasureProbe, WorkerCommand};
use overside_probe::network::Role;
use overside_probe::{dma, network, perftest};

/// Options for measuring tests on this machine.
#[derive(clap::Args)]
pub(crate) struct MeasureArguments {
    /// Owner of these cores: CPU time of tests played here counts for that side
    #[arg(long, value_enum, default_value_t = CoreOwner::Dpu)]
    role: CoreOwner,
    /// Maximum number of tests measured here at a time; others wait, because simultaneous tests
    /// disturb each other's timings
    #[arg(long, value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    tests: u16,
    /// Directory for the data of tests measured here; one for each agent [default: $CACHE_DIRECTORY,
    /// or overside/agent of the user's cache]
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    data_dir: Option<PathBuf>,
    /// Maximum size of that data; the oldest is removed first
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size_within(DATA))]
    data_size: usize,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum CoreOwner {
    Dpu,
    Host,
}

/// Allowed values of `--data-size` in bytes: from a test of a few buffers to a disk.
const DATA: RangeInclusive<usize> = 1 << 20..=1 << 46;

impl MeasureArguments {
    /// Returns the tests whose remote end the agent plays, and those that it measures.
    pub(crate) fn probes(&self) -> Vec<Arc<dyn Probe>> {
        let (role, owner) = match self.role {
            CoreOwner::Dpu => (Role::Dpu, node::CoreOwner::Dpu),
            CoreOwner::Host => (Role::Host, node::CoreOwner::Host),
        };
        let mut probes: Vec<Arc<dyn Probe>> = vec![
            Arc::new(network::remote::NetworkProbe { role }),
            Arc::new(dma::remote::DmaProbe),
            Arc::new(perftest::PerftestProbe),
        ];
        match std::env::current_exe() {
            Ok(program) => {
                let worker = worker_command(program);
                let directory = self.data_dir.clone().unwrap_or_else(data_directory);
                let cache = DataCache::new(directory, self.data_size as u64);
                let tests = usize::from(self.tests);
                probes.push(Arc::new(MeasureProbe::new(worker, cache, tests, owner)));
            }
            Err(error) => complain!("overside agent: no tests are measured here: {error}"),
        }
        probes
    }
}

/// Measures the tests that arrive on standard input. An agent or a host starts this process.
pub(crate) fn serve_tests() -> ExitCode {
    match node::serve_tests() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain!("overside {WORKER_VERB}: {error}");
            ExitCode::from(exit::INTERNAL)
        }
    }
}

/// Returns the default directory for test data: the one that systemd gives a service
/// (`CacheDirectory=`), or `overside/agent` in the user's cache.
fn data_directory() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(directory) = named("CACHE_DIRECTORY") {
        return directory.into();
    }
    let cache = named("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || named("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = cache.or_else(home).unwrap_or_else(|| "/var/cache".into());
    cache.join("overside/agent")
}

/// Environment variable with a prefix for the command line of worker processes, for programs that
/// the kernel cannot start itself: `qemu-aarch64-static -L ROOT`.
const RUNNER_ENV: &str = "OVERSIDE_RUNNER";

/// Returns the command that starts a worker process of this program.
fn worker_command(program: PathBuf) -> WorkerCommand {
    let runner = std::env::var(RUNNER_ENV).unwrap_or_default();
    let mut words =
        (runner.split_whitespace().map(OsString::from)).chain([program.into(), WORKER_VERB.into()]);
    WorkerCommand { program: words.next().unwrap_or_default().into(), arguments: words.collect() }
}
