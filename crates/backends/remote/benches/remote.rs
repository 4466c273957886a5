//! What the way to an agent on this machine costs: copies on `cpu` directly, over a connection in
//! the clear, and over an encrypted one, in turns.

#[path = "../tests/it/common/mod.rs"]
mod common;
#[path = "../../../../benches/turns.rs"]
mod turns;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use common::jobs::{LONGEST, copying, job};
use common::{agent, cpu, remote};
use overside_device::{Context, Device, Job, wait};
use turns::{Side, take_turns, told};

/// Bytes that one side moves in a turn, and the most jobs.
const BYTES: usize = 64 << 20;
const JOBS: usize = 20_000;

fn main() {
    let (filter, is_bench) = turns::arguments();
    for secure in [false, true] {
        let agent = agent(cpu(1), secure);
        let (near, far) = (cpu(1), remote(agent.address(), secure, "cpu"));
        for (depth, len) in [(1, 64), (32, 64), (32, 4096), (32, 64 << 10), (8, LONGEST)] {
            let way = if secure { "encrypted" } else { "in the clear" };
            let name = format!("copy {len} B at depth {depth}, {way}");
            if filter
                .as_ref()
                .is_some_and(|filter| !name.contains(filter.as_str()))
            {
                continue;
            }
            let mut near = Lane::new(&*near, depth, len);
            let mut far = Lane::new(&far, depth, len);
            let jobs = if is_bench {
                JOBS.min(BYTES / len)
            } else {
                depth
            };
            let turned = take_turns(is_bench, |side| match side {
                Side::First => near.seconds_a_job(jobs),
                Side::Second => far.seconds_a_job(jobs),
            });
            println!("{name}: {}", told(&turned));
        }
    }
}

/// A context and its jobs, which go round.
struct Lane {
    context: Box<dyn Context>,
    jobs: VecDeque<Job>,
}

impl Lane {
    fn new(device: &dyn Device, depth: usize, len: usize) -> Self {
        let context = device.open(copying(depth)).expect("a context");
        let jobs = (0..depth as u64).map(|tag| job(device, tag, len)).collect();
        Self { context, jobs }
    }

    fn seconds_a_job(&mut self, count: usize) -> f64 {
        let (mut taken, mut done, mut out) = (0, 0, Vec::new());
        let waiting = self.jobs.len();
        let begin = Instant::now();
        while done < count {
            if taken < count {
                taken += self
                    .context
                    .submit(&mut self.jobs)
                    .expect("submitting works");
            }
            wait(&mut *self.context, Duration::from_secs(10)).expect("waiting works");
            done += self
                .context
                .poll(&mut out, waiting)
                .expect("the device is there");
            self.jobs.extend(out.drain(..).map(|completion| Job {
                tag: completion.tag,
                source: completion.source,
                destination: completion.destination.expect("a destination"),
                deadline: None,
            }));
        }
        let seconds = begin.elapsed().as_secs_f64();
        // The rest, so that the next turn begins with all jobs.
        while self.jobs.len() < waiting {
            wait(&mut *self.context, Duration::from_secs(10)).expect("waiting works");
            self.context
                .poll(&mut out, waiting)
                .expect("the device is there");
            self.jobs.extend(out.drain(..).map(|completion| Job {
                tag: completion.tag,
                source: completion.source,
                destination: completion.destination.expect("a destination"),
                deadline: None,
            }));
        }
        seconds / done as f64
    }
}
