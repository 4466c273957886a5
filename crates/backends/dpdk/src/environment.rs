//! DPDK's environment: started once a process, on a thread of its own.
//!
//! Starting pins the thread that does it to a core and makes it DPDK's first, so it is neither the
//! caller's nor a worker's. Afterwards that thread has one task: it waits for the jobs of contexts
//! that went before their jobs were done, and then frees what those held.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_shim::PrivateDirectory;

use crate::DpdkError;
use crate::engine::Engine;
use crate::memory::Areas;
use crate::orphan::Orphan;
use crate::shim::{Found, Kind, Shim, Table};

/// The variable with arguments for DPDK, where hardware is to be used.
pub const ARGUMENTS: &str = "OVERSIDE_DPDK_ARGS";
/// What DPDK is started with otherwise: no hardware, no huge pages, nothing shared with other
/// processes, nothing that needs rights.
const SOFTWARE: [&str; 7] = [
    "--no-huge",
    "--no-pci",
    "--no-shconf",
    "--no-telemetry",
    "--iova-mode=va",
    "-m",
    "64",
];
/// Virtual devices that there are where their drivers are installed.
pub const SOFTWARE_DEVICES: [&str; 3] = ["compress_isal", "compress_zlib", "dma_skeleton"];
/// Of each of them there may be so many more, with a number behind the name: `compress_isal1`.
const INSTANCES_MAX: u8 = 8;
/// How often jobs that nobody waits for are looked after.
const LOOK: Duration = Duration::from_millis(1);

/// A device that was set up, or why it could not be.
type SetUp = Result<Arc<Engine>, String>;

/// DPDK in this process.
pub struct Environment {
    pub(crate) shim: Shim,
    /// How long starting took.
    pub(crate) start: Duration,
    /// Devices that are set up, or why they cannot be: that is tried once.
    engines: Mutex<HashMap<(Kind, i32), SetUp>>,
    /// Held for each call that sets something up: DPDK wants that done by one thread at a time.
    control: Mutex<()>,
    pub(crate) areas: Mutex<Areas>,
    orphans: Mutex<Sender<Orphan>>,
}

impl Environment {
    /// The process's own, started at the first call. Whoever comes second gets the same, or the
    /// same error.
    ///
    /// # Errors
    /// [`DpdkError`]: no shim, no DPDK, or DPDK does not start.
    pub fn shared() -> Result<Arc<Self>, DpdkError> {
        static SHARED: OnceLock<Result<Arc<Environment>, DpdkError>> = OnceLock::new();
        SHARED
            .get_or_init(|| Self::start(Shim::load()?, arguments()))
            .clone()
    }

    /// One that runs on other functions than the shim's: for tests of what no software driver
    /// does.
    ///
    /// # Safety
    /// The functions do what `shim.h` says.
    #[allow(unsafe_code)]
    pub unsafe fn with_table(table: &'static Table) -> Result<Arc<Self>, DpdkError> {
        Self::start(Shim(table), Arguments::software())
    }

    /// One that runs on a shim out of another library than the one in this crate: for tests.
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
        thread
            .spawn(body)
            .map_err(|error| lost(error.to_string()))?;
        let start = (started.recv()).map_err(|_| lost("its thread ended".into()))??;
        Ok(Arc::new(Self {
            shim,
            start,
            engines: Mutex::default(),
            control: Mutex::default(),
            areas: Mutex::default(),
            orphans: Mutex::new(orphans),
        }))
    }

    /// DPDK's version, as in `DPDK 22.11.11`.
    pub fn version(&self) -> String {
        self.shim.version()
    }

    /// Whether the variable with DPDK's arguments says what to look for.
    pub fn has_arguments() -> bool {
        !arguments().software
    }

    /// Names of the devices that DPDK has found.
    pub fn found(&self) -> Vec<String> {
        let _control = self.control();
        let all = instances(&self.shim.devices());
        all.into_iter().map(|(name, _)| name).collect()
    }

    /// The devices there are, by the names that they are opened by: those that DPDK has found, and
    /// the software ones that can be made.
    pub fn names(&self) -> Vec<String> {
        let _control = self.control();
        let mut names = instances(&self.shim.devices());
        for name in SOFTWARE_DEVICES {
            if !names.iter().any(|(known, _)| known == name) {
                names.push((name.into(), None));
            }
        }
        names.sort_by_key(|(name, _)| !SOFTWARE_DEVICES.contains(&name.as_str()));
        names.into_iter().map(|(name, _)| name).collect()
    }

    /// The device of that name, made if it is a software one, set up if it is not yet.
    pub(crate) fn engine(self: &Arc<Self>, name: &str) -> Result<Arc<Engine>, DpdkError> {
        self.enter_thread();
        let mut engines = lock(&self.engines);
        let find = || {
            let _control = self.control();
            let all = instances(&self.shim.devices());
            all.into_iter().find(|(known, _)| known == name)
        };
        let mut found = find();
        if found.is_none() && is_software(name) {
            let control = self.control();
            let made = self.shim.create(name);
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
                found: known(&instances(&self.shim.devices())),
            });
        };
        let engine = (engines.entry((found.kind, found.id)))
            .or_insert_with(|| Engine::set_up(self, found).map(Arc::new));
        engine.clone().map_err(|reason| DpdkError::Unusable {
            name: name.into(),
            reason,
        })
    }

    /// Held for a call that sets something up.
    pub(crate) fn control(&self) -> MutexGuard<'_, ()> {
        lock(&self.control)
    }

    /// Leaves jobs to be waited for by the environment's own thread.
    pub(crate) fn adopt(&self, orphan: Orphan) {
        let orphans = lock(&self.orphans);
        // The thread runs for as long as there is a sender.
        if let Err(error) = orphans.send(orphan) {
            std::mem::forget(error.0);
        }
    }

    /// Makes the calling thread known to DPDK, until the thread ends. Where DPDK has no place for
    /// more threads it works without: what is used here needs none.
    pub(crate) fn enter_thread(&self) {
        thread_local! {
            static ENTERED: RefCell<Option<Entered>> = const { RefCell::new(None) };
        }
        let table: *const Table = self.shim.0;
        // A thread that is ending goes without.
        let _ = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            if !entered
                .as_ref()
                .is_some_and(|one| std::ptr::eq(one.shim.0, table))
            {
                *entered = None;
                let leaves = self.shim.thread_enter();
                *entered = Some(Entered {
                    shim: self.shim,
                    leaves,
                });
            }
        });
    }
}

/// Whether a device can be made of that name.
fn is_software(name: &str) -> bool {
    SOFTWARE_DEVICES.iter().any(|device| {
        (name.strip_prefix(device)).is_some_and(|number| {
            let is_number = |number: u8| (1..=INSTANCES_MAX).contains(&number);
            number.is_empty() || number.parse().is_ok_and(is_number)
        })
    })
}

/// A thread that DPDK knows.
struct Entered {
    shim: Shim,
    leaves: bool,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.leaves {
            self.shim.thread_leave();
        }
    }
}

/// What the environment's thread does after starting.
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

/// What DPDK is started with.
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
        Self {
            given: SOFTWARE.map(str::to_owned).to_vec(),
            software: true,
        }
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
    Some(
        usable
            .map(|core| core.to_string())
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// Devices by the names that they are opened by. A card can be in several classes under one name;
/// then the class comes first.
fn instances(devices: &[Found]) -> Vec<(String, Option<Found>)> {
    let name = |device: &Found| {
        let twins = devices.iter().filter(|other| other.name == device.name);
        match (twins.count(), device.kind) {
            (1, _) => device.name.clone(),
            (_, Kind::Compress) => format!("compress-{}", device.name),
            (_, Kind::Copy) => format!("dma-{}", device.name),
            (_, Kind::Match) => format!("regex-{}", device.name),
        }
    };
    let named = |device: &Found| (name(device), Some(device.clone()));
    devices.iter().map(named).collect()
}

/// The end of a sentence: what there is.
fn known(devices: &[(String, Option<Found>)]) -> String {
    let mut names: Vec<&str> = devices.iter().map(|(name, _)| name.as_str()).collect();
    names.extend(
        SOFTWARE_DEVICES
            .iter()
            .filter(|name| !names.contains(*name))
            .copied()
            .collect::<Vec<_>>(),
    );
    format!("; there are: {}", names.join(", "))
}
