//! A device that works right for a while and then does one of the things that devices, drivers
//! and harnesses have been seen to do wrong.

use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use overside_device::{
    Applied, Capabilities, Closed, Completion, Context, ContextConfig, CpuTime, Device, DeviceInfo,
    Foreign, Job, JobError, Lifecycle, Lost, MemoryError, OpenError, Outcome, Output, Region,
    Slice, Source, SubmitError,
};

use crate::Worker;

/// What it does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// A byte in the middle of the output is wrong.
    WrongByte,
    /// The completion comes before the output.
    EarlyCompletion,
    /// The output is said to be shorter than it is.
    FewerBytes,
    /// The answer is one too high.
    WrongValue,
    /// The job fails.
    Failure,
    /// The job failed, and is said to be done without having written anything.
    FailureAsDone,
    /// More bytes are said to be written than there is room for.
    BeyondDestination,
    /// A completion comes twice.
    Twice,
    /// A completion for a job that nobody submitted.
    Stranger,
    /// The completion never comes.
    Never,
    /// Another device ran it.
    Fallback,
    /// The CPU runs everything, under the device's name; from the beginning.
    Software,
    /// The work is done once, for the first job, and its result given for all.
    Hoisted,
    /// The bytes went from the destination to the source.
    SwappedDirection,
    /// Another job's source is processed: the first one's.
    FirstSource,
    /// The destination does not come back.
    KeepsDestination,
    /// The output is called incompressible.
    Incompressible,
    /// The device goes away.
    Unplugged,
    /// The completion is late.
    Late,
    /// The thread panics.
    Panic,
}

/// How often a device does wrong once it has begun to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// For one job.
    Once,
    /// For all jobs from then on.
    Always,
}

/// A worker whose devices do `fault` when `after` jobs of a context have completed.
pub fn worker(fault: Fault, after: usize, times: Times) -> Worker {
    worker_with(fault, after, times, |_| true)
}

/// The same of every device but the CPU.
pub fn faulty_device(fault: Fault, after: usize, times: Times) -> Worker {
    worker_with(fault, after, times, |name| name != "cpu")
}

fn worker_with(fault: Fault, after: usize, times: Times, which: fn(&str) -> bool) -> Worker {
    Worker::with_devices(Box::new(move |name, options| {
        let inner = overside_backends::open(name, options)?;
        if !which(name) {
            return Ok(inner);
        }
        Ok(Arc::new(Faulty {
            inner,
            fault,
            after,
            times,
        }))
    }))
}

struct Faulty {
    inner: Arc<dyn Device>,
    fault: Fault,
    after: usize,
    times: Times,
}

impl Device for Faulty {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        self.inner.alloc(len, align)
    }

    fn register(&self, foreign: Foreign) -> Result<Slice, MemoryError> {
        self.inner.register(foreign)
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let (fault, after, times) = (self.fault, self.after, self.times);
        let inner = if fault == Fault::Software {
            let cpu = overside_backends::open("cpu", &overside_backends::Options::default());
            let cpu = cpu.map_err(|error| OpenError::Failed {
                device: self.inner.info().name.clone(),
                reason: error.to_string(),
            })?;
            cpu.open(config)?
        } else {
            self.inner.open(config)?
        };
        Ok(Box::new(FaultyContext {
            inner,
            fault,
            after,
            times,
            before: HashMap::new(),
            first: None,
            first_source: None,
        }))
    }
}

struct FaultyContext {
    inner: Box<dyn Context>,
    fault: Fault,
    /// Completions that are still right.
    after: usize,
    times: Times,
    /// What destinations held when their jobs were submitted.
    before: HashMap<u64, Vec<u8>>,
    /// What the first job came to.
    first: Option<(Outcome, Vec<u8>)>,
    first_source: Option<Source>,
}

impl FaultyContext {
    fn spoil(&mut self, mut completion: Completion, out: &mut Vec<Completion>) {
        if self.first.is_none()
            && let (Ok(outcome), Some(written)) = (&completion.result, &completion.destination)
        {
            self.first = Some((*outcome, written.to_vec()));
        }
        if self.after > 0 {
            self.after -= 1;
            out.push(completion);
            return;
        }
        let fault = self.fault;
        // What is gone does not come back with the next of several completions.
        if self.times == Times::Once && fault != Fault::Unplugged {
            self.fault = Fault::None;
        }
        let before = self.before.get(&completion.tag);
        let restore = |completion: &mut Completion| {
            if let (Some(destination), Some(before)) = (&mut completion.destination, before) {
                destination.copy_from_slice(before);
            }
        };
        let done = match completion.result {
            Ok(Outcome::Done(output)) => output,
            _ => Output::default(),
        };
        let said = |output: Output| Ok(Outcome::Done(output));
        match fault {
            // These two are done when jobs are taken, and when the device is opened.
            Fault::None | Fault::FirstSource | Fault::Software => {}
            Fault::Hoisted => {
                if let (Some(destination), Some((outcome, written))) =
                    (&mut completion.destination, &self.first)
                {
                    let len = destination.len().min(written.len());
                    destination[..len].copy_from_slice(&written[..len]);
                    completion.result = Ok(*outcome);
                }
            }
            Fault::SwappedDirection => {
                restore(&mut completion);
                completion.result = said(Output {
                    written: completion.source.len(),
                    ..done
                });
            }
            Fault::WrongByte => {
                if let Some(destination) = &mut completion.destination {
                    destination[done.written / 2] ^= 1;
                }
            }
            Fault::EarlyCompletion => restore(&mut completion),
            Fault::FewerBytes => {
                completion.result = said(Output {
                    written: done.written - 1,
                    ..done
                });
            }
            Fault::WrongValue => {
                completion.result = said(Output {
                    value: done.value.map(|value| value + 1),
                    ..done
                });
            }
            Fault::Failure => completion.result = Err(JobError::Failed("a spark".into())),
            Fault::FailureAsDone => {
                restore(&mut completion);
                completion.result = said(Output::default());
            }
            Fault::BeyondDestination => {
                completion.result = said(Output {
                    written: usize::MAX,
                    ..done
                });
            }
            Fault::Twice => out.push(Completion {
                tag: completion.tag,
                result: completion.result.clone(),
                source: completion.source.clone(),
                destination: Region::allocate(1 << 20, 1, None).ok(),
                stages: completion.stages,
                applied: Arc::clone(&completion.applied),
            }),
            Fault::Stranger => completion.tag = u64::MAX,
            Fault::Never => return,
            Fault::Fallback => {
                let applied = Applied {
                    device: "elsewhere".into(),
                    ..(*completion.applied).clone()
                };
                completion.applied = Arc::new(applied);
            }
            Fault::KeepsDestination => completion.destination = None,
            Fault::Incompressible => completion.result = Ok(Outcome::Incompressible),
            Fault::Late => completion.stages.late = true,
            Fault::Panic => panic!("a bug"),
            Fault::Unplugged => {}
        }
        out.push(completion);
    }
}

impl Context for FaultyContext {
    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        for job in jobs.iter_mut() {
            self.before.insert(job.tag, job.destination.to_vec());
            let first = self.first_source.get_or_insert_with(|| job.source.clone());
            if self.fault == Fault::FirstSource && self.after == 0 {
                job.source = first.clone();
            }
        }
        self.inner.submit(jobs)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        if self.fault == Fault::Unplugged && self.after == 0 {
            return Err(Lost {
                device: "cpu".into(),
                reason: "no answer".into(),
                tags: vec![],
            });
        }
        let mut inner = Vec::new();
        self.inner.poll(&mut inner, max)?;
        let before = out.len();
        for completion in inner {
            self.spoil(completion, out);
        }
        Ok(out.len() - before)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.event_fd()
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        self.inner.arm()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn quarantined(&self) -> usize {
        self.inner.quarantined()
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        self.inner.reconfigure(config)
    }

    fn lifecycle(&self) -> Lifecycle {
        self.inner.lifecycle()
    }

    fn cpu_time(&self) -> CpuTime {
        self.inner.cpu_time()
    }

    fn close(self: Box<Self>, deadline: Instant) -> Closed {
        self.inner.close(deadline)
    }
}
