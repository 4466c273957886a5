//! Cost of the connection to an agent on this machine: copies on `cpu` directly, over an
//! unencrypted connection, and over an encrypted one, in turns.

#[path = "../tests/it"]
mod it {
    pub(crate) mod common;
}
#[path = "../../../../../benches/jobs.rs"]
mod jobs;
#[path = "../../../../../benches/turns.rs"]
mod turns;

use it::common::jobs::{LONGEST, copying, job};
use it::common::{agent, cpu, remote};
use jobs::seconds_a_job;
use overside_device::Device;
use turns::{take_turns, told};

fn main() {
    let (filter, is_bench) = turns::arguments();
    for secure in [false, true] {
        let agent = agent(cpu(1), secure);
        let (near, far) = (cpu(1), remote(agent.address(), secure, "cpu"));
        for (depth, len) in [(1, 64), (32, 64), (32, 4096), (32, 64 << 10), (8, LONGEST)] {
            let way = if secure { "encrypted" } else { "in the clear" };
            let name = format!("copy {len} B at depth {depth}, {way}");
            if filter.as_ref().is_some_and(|filter| !name.contains(filter.as_str())) {
                continue;
            }
            let sides: [&dyn Device; 2] = [&*near, &far];
            let mut lanes = sides.map(|device| {
                let context = device.open(copying(depth)).expect("a context");
                let jobs = (0..depth as u64).map(|tag| job(device, tag, len));
                (context, jobs.collect())
            });
            let turned = take_turns(is_bench, |side| {
                let (context, jobs) = &mut lanes[side as usize];
                seconds_a_job(&mut **context, jobs, 1, true)
            });
            println!("{name}: {}", told(&turned));
        }
    }
}
