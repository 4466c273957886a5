//! A small device to try the suite on: every operation, registered memory, tight limits. It can
//! be broken in one way at a time; what goes wrong with single jobs is injected around it.

use std::any::Any;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::threads::{CpuAccounting, Limits, Next, Runner, Threads, WorkerMain};
use overside_device::*;
use overside_ops::{prepare, variants};

/// What is wrong with the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nothing,
    CutsShort,
    StoresIncompressible,
    AcceptsCorrupt,
    DropsEmpty,
    TakesTooLong,
    TakesTooManySegments,
    TakesAnyMemory,
    TakesTooManyJobs,
    OpensAnything,
    OpensAnyDepth,
    OpensAnyVariant,
    MissesDeadlines,
    KeepsQuarantine,
    NeverWakes,
    AlwaysWakes,
    ForgetsAtClose,
    ReconfiguresInFlight,
    ReconfiguresNothing,
    BreaksAtReconfigure,
    LeaksMemory,
}

pub struct Toy {
    id: DeviceId,
    info: DeviceInfo,
    capabilities: Capabilities,
    fault: Fault,
}

pub fn toy(fault: Fault) -> Arc<dyn Device> {
    let info = DeviceInfo {
        name: "toy".into(),
        driver: "toy 1".into(),
        location: "this test".into(),
        description: "a small device".into(),
        provenance: Provenance::Measured,
        timing: Timing::Real,
    };
    let only = |operation: &Operation| {
        // One that is not there, for the suite to ask for.
        operation.to_string() != "copy"
    };
    let capabilities = (Operation::all().into_iter().filter(only))
        .map(|operation| Capability {
            operation,
            variants: variants(operation)
                .iter()
                .map(|variant| variant.name.into())
                .collect(),
            max_source_bytes: 50_000,
            max_destination_bytes: 100_000,
            max_segments: if matches!(operation, Operation::Hash(_)) {
                3
            } else {
                1
            },
            max_depth: 20,
            event: true,
            memory: MemoryKind::Registered,
            missing: Vec::new(),
        })
        .collect();
    let capabilities = Capabilities::new(capabilities);
    Arc::new(Toy {
        id: DeviceId::unique(),
        info,
        capabilities,
        fault,
    })
}

impl Toy {
    fn registration(&self) -> Option<Registration> {
        Some(Registration {
            device: self.id,
            handle: Arc::new(()) as Arc<dyn Any + Send + Sync>,
        })
    }

    fn start(&self, config: &ContextConfig) -> Result<Threads, OpenError> {
        let mut config = config.clone();
        let known = match self.capabilities.get(config.operation.operation) {
            None if self.fault == Fault::OpensAnything => {
                config.operation = OperationConfig::new(Operation::all()[0]);
                self.capabilities.iter().next().unwrap()
            }
            _ if self.fault == Fault::OpensAnyDepth => {
                config.depth = config.depth.clamp(1, 20);
                self.capabilities.get(config.operation.operation).unwrap()
            }
            _ => self.capabilities.check("toy", &config)?,
        };
        if self.fault == Fault::OpensAnyVariant && prepare(&config.operation).is_err() {
            config.operation.variant = "auto".into();
            config.operation.patterns = vec!["a".into()];
        }
        let prepared = prepare(&config.operation)?;
        let variant = prepared.variant();
        let applied = Applied {
            device: "toy".into(),
            driver: "toy 1".into(),
            variant: variant.name.into(),
            library: variant.library.into(),
            provenance: Provenance::Measured,
        };
        let long = self.fault == Fault::TakesTooLong;
        let limits = Limits {
            device: self.id,
            memory: match self.fault {
                Fault::TakesAnyMemory => MemoryKind::Any,
                _ => known.memory,
            },
            depth: match self.fault {
                Fault::TakesTooManyJobs => config.depth + 1,
                _ => config.depth,
            },
            max_source_bytes: if long {
                u64::MAX
            } else {
                config.max_source_bytes
            },
            max_destination_bytes: if long {
                u64::MAX
            } else {
                config.max_destination_bytes
            },
            max_segments: match self.fault {
                Fault::TakesTooManySegments => usize::MAX,
                _ => known.max_segments,
            },
            gather: true,
        };
        let mut runner = Runner::new(config.operation.operation, prepared)?;
        let fault = self.fault;
        let main = WorkerMain::new("toy", move |mut queue| {
            while let Next::Job(mut job) = queue.next(None) {
                if fault == Fault::MissesDeadlines && job.source().len() > 1_000 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let result = runner.run(&mut job);
                let result = break_result(fault, &mut job, result);
                if fault == Fault::LeaksMemory {
                    std::mem::forget(job.source().clone());
                }
                queue.finish_timed(job, result);
            }
        });
        Threads::spawn(limits, Arc::new(applied), CpuAccounting::Host, vec![main]).map_err(
            |error| OpenError::Failed {
                device: "toy".into(),
                reason: error.to_string(),
            },
        )
    }
}

fn break_result(
    fault: Fault,
    job: &mut threads::RunningJob,
    result: Result<Outcome, JobError>,
) -> Result<Outcome, JobError> {
    let done = |written, value| Ok(Outcome::Done(Output { written, value }));
    match (fault, result) {
        (Fault::CutsShort, Err(JobError::OutputTooSmall { capacity })) => done(capacity, None),
        (Fault::StoresIncompressible, Ok(Outcome::Incompressible)) => done(0, None),
        (Fault::AcceptsCorrupt, Err(JobError::Corrupt(_))) => done(0, None),
        (Fault::DropsEmpty, _) if job.source().is_empty() => done(0, None),
        (_, result) => result,
    }
}

impl Device for Toy {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        Region::allocate(len, align, self.registration())
    }

    fn register(&self, foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        Ok(Slice::from_external(foreign, self.registration()))
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let threads = self.start(&config)?;
        let toy = Toy {
            id: self.id,
            info: self.info.clone(),
            capabilities: self.capabilities.clone(),
            fault: self.fault,
        };
        Ok(Box::new(ToyContext {
            toy,
            threads,
            stuck: None,
        }))
    }
}

struct ToyContext {
    toy: Toy,
    threads: Threads,
    stuck: Option<OpenError>,
}

impl Context for ToyContext {
    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        if self.toy.fault == Fault::MissesDeadlines {
            jobs.iter_mut().for_each(|job| job.deadline = None);
        }
        if let Some(error) = &self.stuck {
            let (device, reason) = ("toy".into(), error.to_string());
            return Err(Lost {
                device,
                reason,
                tags: Vec::new(),
            }
            .into());
        }
        self.threads.submit(jobs)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        self.threads.poll(out, max)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.threads.event_fd())
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        match self.toy.fault {
            Fault::NeverWakes => Ok(false),
            Fault::AlwaysWakes => Ok(true),
            _ => self.threads.arm(),
        }
    }

    fn in_flight(&self) -> usize {
        self.threads.in_flight()
    }

    fn quarantined(&self) -> usize {
        self.threads.quarantined() + usize::from(self.toy.fault == Fault::KeepsQuarantine)
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        if self.threads.in_flight() > 0 && self.toy.fault != Fault::ReconfiguresInFlight {
            return Err(OpenError::InFlight(self.threads.in_flight()));
        }
        if self.toy.fault == Fault::ReconfiguresNothing {
            return Ok(());
        }
        match self.toy.start(&config) {
            Ok(threads) => {
                self.threads.replace(threads);
                Ok(())
            }
            Err(error) => {
                if self.toy.fault == Fault::BreaksAtReconfigure {
                    self.stuck = Some(error.clone());
                }
                Err(error)
            }
        }
    }

    fn lifecycle(&self) -> Lifecycle {
        Lifecycle::default()
    }

    fn cpu_time(&self) -> CpuTime {
        self.threads.cpu_time()
    }

    fn close(self: Box<Self>, deadline: Instant) -> Closed {
        let mut closed = self.threads.close(Lifecycle::default(), deadline);
        if self.toy.fault == Fault::ForgetsAtClose {
            closed.completions.pop();
            closed.abandoned.pop();
        }
        closed
    }
}
