//! DPDK's environment: started once a process, on a thread of its own.
//!
//! Starting pins the thread that does it to a core and makes it DPDK's first, so it is neither the
//! caller's nor a worker's. Afterwards that thread has one task: it waits for the jobs of contexts
//! that were dropped before their jobs were done, and then frees their memory.

use std::collections::HashMap;
use std::ffi::CString;
use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_shim::PrivateDirectory;

use crate::DpdkError;
use crate::engine::Engine;
use crate::orphan::Orphan;
use crate::runtime::Runtime;
use crate::shim::{FoundDevice, Kind, Shim, Table};
use crate::{capabilities, probe};

/// Environment variable with arguments for DPDK, which hardware needs.
pub const ARGUMENTS: &str = "OVERSIDE_DPDK_ARGS";
/// Arguments that DPDK is started with if [`ARGUMENTS`] is not set: no hardware, no huge pages,
/// nothing shared with other processes, nothing that requires privileges.
const SOFTWARE: [&str; 7] =
    ["--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "--iova-mode=va", "-m", "64"];
/// Virtual devices that exist if their drivers are installed.
pub const SOFTWARE_DEVICES: [&str; 3] = ["compress_isal", "compress_zlib", "dma_skeleton"];
/// Highest number that may follow the name of a software device to name another instance of it, as
/// in `compress_isal1`.
const INSTANCES_MAX: u8 = 8;
/// Interval at which the environment's thread checks orphaned jobs, whose context was dropped
/// before they completed.
const LOOK: Duration = Duration::from_millis(1);

/// A device that was set up, or why it could not be.
type SetUp = Result<Arc<Engine>, String>;

/// DPDK in this process.
pub struct Environment {
    pub(crate) runtime: Arc<Runtime>,
    /// Devices that are set up, or why they cannot be: that is tried once.
    engines: Mutex<HashMap<(Kind, i32), SetUp>>,
    orphans: Mutex<Sender<Orphan>>,
}

impl Environment {
    /// The process's own environment, started at the first call. Later calls return the same
    /// environment or error.
    ///
    /// # Errors
    /// [`DpdkError`]: no shim, no DPDK, or DPDK does not start.
    pub fn shared() -> Result<Arc<Self>, DpdkError> {
        static SHARED: OnceLock<(u32, Result<Arc<Environment>, DpdkError>)> = OnceLock::new();
        let start = || Self::start(Shim::load()?, arguments());
        let (process, shared) = SHARED.get_or_init(|| (process::id(), start()));
        match *process == process::id() {
            true => shared.clone(),
            false => Err(DpdkError::Start(
                "the process was forked after DPDK was started; start processes by `spawn`".into(),
            )),
        }
    }

    /// An environment on other functions than the shim's, for tests that no software driver allows.
    ///
    /// # Safety
    /// The functions do what `shim.h` says.
    #[allow(unsafe_code)]
    pub unsafe fn with_table(table: &'static Table) -> Result<Arc<Self>, DpdkError> {
        Self::start(Shim(table), Arguments::software())
    }

    /// An environment on a shim from another library than this crate's, for tests.
    ///
    /// # Errors
    /// As [`Environment::shared`].
    pub fn with_library(path: &std::path::Path) -> Result<Arc<Self>, DpdkError> {
        Self::start(Shim::load_from(path)?, Arguments::software())
    }

    fn start(shim: Shim, arguments: Arguments) -> Result<Arc<Self>, DpdkError> {
        let (orphans, inbox) = channel();
        let (report, started) = channel();
        let thread = std::thread::Builder::new().name("dpdk".into());
        let body = move || {
            let begin = Instant::now();
            let result = arguments.start(shim).map(|()| begin.elapsed());
            let failed = result.is_err();
            if report.send(result).is_err() || failed {
                return;
            }
            look_after(&inbox);
        };
        let lost = |reason: String| DpdkError::Start(reason);
        thread.spawn(body).map_err(|error| lost(error.to_string()))?;
        let start = (started.recv()).map_err(|_| lost("its thread ended".into()))??;
        Ok(Arc::new(Self {
            runtime: Arc::new(Runtime::new(shim, start)),
            engines: Mutex::default(),
            orphans: Mutex::new(orphans),
        }))
    }

    /// DPDK's version, as in `DPDK 22.11.11`.
    pub fn version(&self) -> String {
        self.runtime.shim.version()
    }

    /// Returns `true` if the environment variable [`ARGUMENTS`] is set, which determines the devices that
    /// DPDK probes.
    pub fn has_arguments() -> bool {
        !arguments().software
    }

    /// Names of the devices that DPDK has found.
    pub fn found(&self) -> Vec<String> {
        let _control = self.runtime.control();
        let all = instances(&self.runtime.shim.devices());
        all.into_iter().map(|(name, _)| name).collect()
    }

    /// The devices there are, by the names that they are opened by: those that DPDK has found, and
    /// the software ones that can be made.
    pub fn names(&self) -> Vec<String> {
        let _control = self.runtime.control();
        let mut names = instances(&self.runtime.shim.devices());
        for name in SOFTWARE_DEVICES {
            if !names.iter().any(|(known, _)| known == name) {
                names.push((name.into(), None));
            }
        }
        names.sort_by_key(|(name, _)| !SOFTWARE_DEVICES.contains(&name.as_str()));
        names.into_iter().map(|(name, _)| name).collect()
    }

    /// Returns the device of that name; creates a software one, and sets it up at the first call.
    pub(crate) fn engine(self: &Arc<Self>, name: &str) -> Result<Arc<Engine>, DpdkError> {
        self.runtime.enter_thread();
        let mut engines = lock(&self.engines);
        let find = || {
            let _control = self.runtime.control();
            let all = instances(&self.runtime.shim.devices());
            all.into_iter().find(|(known, _)| known == name)
        };
        let mut found = find();
        if found.is_none() && is_software(name) {
            let control = self.runtime.control();
            let made = self.runtime.shim.create(name);
            drop(control);
            made.map_err(|reason| DpdkError::Unusable {
                name: name.into(),
                reason: format!("{reason} (is its driver installed?)"),
            })?;
            found = find();
        }
        let Some((_, Some(found))) = found else {
            return Err(DpdkError::Unknown {
                name: name.into(),
                found: known(&instances(&self.runtime.shim.devices())),
            });
        };
        let engine =
            (engines.entry((found.kind, found.id))).or_insert_with(|| set_up(&self.runtime, found));
        engine.clone().map_err(|reason| DpdkError::Unusable { name: name.into(), reason })
    }

    /// Makes the environment's own thread wait for jobs that were abandoned.
    pub(crate) fn adopt(&self, orphan: Orphan) {
        let orphans = lock(&self.orphans);
        // The thread runs for as long as there is a sender.
        if let Err(error) = orphans.send(orphan) {
            std::mem::forget(error.0);
        }
    }
}

/// Sets up a device and tries its operations.
fn set_up(runtime: &Arc<Runtime>, found: FoundDevice) -> SetUp {
    let begin = Instant::now();
    let mut engine = Engine::new(runtime, found)?;
    engine.behaviors = probe::behaviors(runtime, &engine)?;
    engine.capabilities = capabilities::of(&engine);
    engine.discovery = begin.elapsed();
    Ok(Arc::new(engine))
}

/// Returns `true` if a software device of this name can be created: a name in [`SOFTWARE_DEVICES`],
/// optionally followed by a number from 1 to [`INSTANCES_MAX`].
fn is_software(name: &str) -> bool {
    SOFTWARE_DEVICES.iter().any(|device| {
        (name.strip_prefix(device)).is_some_and(|number| {
            let is_number = |number: u8| (1..=INSTANCES_MAX).contains(&number);
            number.is_empty() || number.parse().is_ok_and(is_number)
        })
    })
}

/// Main loop of the environment's thread after DPDK has started: checks orphaned jobs and frees
/// those that the device has finished. Returns when the environment is dropped and no orphans are
/// left.
fn look_after(inbox: &Receiver<Orphan>) {
    let mut orphans: Vec<Orphan> = Vec::new();
    loop {
        let next = if orphans.is_empty() {
            inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            inbox.recv_timeout(LOOK)
        };
        match next {
            Ok(orphan) => orphans.push(orphan),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if orphans.is_empty() => return,
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
        }
        orphans.retain_mut(|orphan| !orphan.is_over());
    }
}

/// Arguments that DPDK is started with.
struct Arguments {
    given: Vec<String>,
    software: bool,
}

fn arguments() -> Arguments {
    match std::env::var(ARGUMENTS) {
        Ok(text) if !text.trim().is_empty() => Arguments {
            given: text.split_whitespace().map(str::to_owned).collect(),
            software: false,
        },
        _ => Arguments::software(),
    }
}

impl Arguments {
    fn software() -> Self {
        Self { given: SOFTWARE.map(str::to_owned).to_vec(), software: true }
    }

    /// Starts DPDK on this thread.
    fn start(&self, shim: Shim) -> Result<(), DpdkError> {
        let mut all = vec!["overside".to_owned(), "--log-level=error".into()];
        all.extend(self.given.iter().cloned());
        let cores = ["-l", "-c", "--lcores", "-S"];
        let says_cores = |one: &String| cores.iter().any(|option| one.starts_with(option));
        if !self.given.iter().any(says_cores)
            && let Some(usable) = usable_cores()
        {
            all.push(format!("--lcores=0@({usable})"));
        }
        let all: Vec<CString> = (all.into_iter().map(CString::new))
            .collect::<Result<_, _>>()
            .map_err(|_| DpdkError::Start("an argument has a NUL in it".into()))?;
        if !self.software {
            return shim.start(&all, None);
        }
        // DPDK insists on a directory, which stays empty. A private one works for every user, and
        // whatever others have left behind in a common one. It goes right after.
        let failed = |error: std::io::Error| DpdkError::Start(error.to_string());
        let directory = PrivateDirectory::new("overside-dpdk").map_err(failed)?;
        let path = std::os::unix::ffi::OsStrExt::as_bytes(directory.path().as_os_str());
        let path = CString::new(path).map_err(|error| DpdkError::Start(error.to_string()))?;
        shim.start(&all, Some(&path))
    }
}

/// The cores that this process may run on, so that DPDK does not insist on core 0.
fn usable_cores() -> Option<String> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    let usable = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    Some(usable.map(|core| core.to_string()).collect::<Vec<_>>().join(","))
}

/// Devices by the names that they are opened by. A card can be in several classes under one name;
/// then the class comes first.
fn instances(devices: &[FoundDevice]) -> Vec<(String, Option<FoundDevice>)> {
    let name = |device: &FoundDevice| {
        let twins = devices.iter().filter(|other| other.name == device.name);
        match (twins.count(), device.kind) {
            (1, _) => device.name.clone(),
            (_, Kind::Compress) => format!("compress-{}", device.name),
            (_, Kind::Copy) => format!("dma-{}", device.name),
            (_, Kind::Match) => format!("regex-{}", device.name),
        }
    };
    let named = |device: &FoundDevice| (name(device), Some(device.clone()));
    devices.iter().map(named).collect()
}

/// Names the known devices, as the end of a sentence.
fn known(devices: &[(String, Option<FoundDevice>)]) -> String {
    let mut names: Vec<&str> = devices.iter().map(|(name, _)| name.as_str()).collect();
    names.extend(
        SOFTWARE_DEVICES.iter().filter(|name| !names.contains(*name)).copied().collect::<Vec<_>>(),
    );
    format!("; there are: {}", names.join(", "))
}
