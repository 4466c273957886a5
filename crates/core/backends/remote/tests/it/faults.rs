//! Tests with network faults: whichever fault a connection has, a job is completed correctly or reported as
//! lost.

use crate::common;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::jobs::{End, assert_copied, copying, is_late, job, reap, run};
use common::proxy::{Fault, Proxy, Way};
use common::{PATIENT, SHORT, SOON, agent, cpu, entry, keys};
use overside_backend_remote::{Entry, RemoteDevice, RemoteError, Timeouts};
use overside_device::Device;
use overside_testkit::assert_contains;

const LENGTHS: [usize; 12] = [0, 1, 100, 4096, 70_000, 3, 300_000, 9, 64, 20_000, 1 << 20, 5];
/// Places in a connection: its greeting, its first frames, small jobs, large ones.
const PLACES: [usize; 10] = [0, 5, 17, 300, 2_000, 6_000, 12_000, 80_000, 400_000, 1_300_000];

/// Runs jobs over a connection with that fault. `None`: not even a context could be opened.
fn under(way: Way, fault: Fault, secure: bool, timeouts: Timeouts) -> Option<End> {
    let agent = agent(cpu(2), secure);
    let proxy = Proxy::new(agent.address(), move |_| (way, fault));
    let address = entry(proxy.address(), secure);
    let device = RemoteDevice::connect("dpu0", &address, "cpu", timeouts).ok()?;
    let mut context = device.open(copying(4)).ok()?;
    Some(run(&mut *context, &device, &LENGTHS))
}

#[test]
fn pieces_and_delays_change_nothing() {
    for way in [Way::ToAgent, Way::ToHost] {
        for secure in [false, true] {
            let slow = Fault::Delay(Duration::from_micros(200), 1400);
            let end = under(way, slow, secure, PATIENT);
            assert_eq!(end, Some(End::All), "{way:?} {secure}");
        }
    }
}

#[test]
fn a_connection_that_is_cut_loses_what_was_not_done() {
    for way in [Way::ToAgent, Way::ToHost] {
        for secure in [false, true] {
            for place in PLACES {
                let end = under(way, Fault::Cut(place), secure, PATIENT);
                let lost = matches!(&end, None | Some(End::Lost(..)));
                assert!(lost, "{way:?} {secure} {place}: {end:?}");
            }
        }
    }
}

#[test]
fn a_half_open_connection_is_noticed() {
    for way in [Way::ToAgent, Way::ToHost] {
        let begin = Instant::now();
        // A busy machine may be silent before there is a context.
        let end = (0..5).find_map(|_| under(way, Fault::Silence(100_000), true, SHORT));
        let Some(End::Lost(reason, _)) = end else {
            panic!("{way:?}: {end:?}");
        };
        assert!(reason.contains("does not answer"), "{reason}");
        assert!(begin.elapsed() >= SHORT.silence);
    }
}

#[test]
fn bytes_that_come_twice_or_in_another_order_or_changed_are_never_believed() {
    let faults: [fn(usize) -> Fault; 3] = [Fault::Twice, Fault::Swapped, Fault::Changed];
    for way in [Way::ToAgent, Way::ToHost] {
        for fault in faults {
            for place in PLACES {
                let end = under(way, fault(place), true, SHORT);
                let lost = matches!(&end, None | Some(End::Lost(..)));
                assert!(lost, "{way:?} {:?}: {end:?}", fault(place));
            }
        }
    }
}

#[test]
fn the_next_context_has_a_connection_of_its_own() {
    let agent = agent(cpu(1), true);
    // The first connection gets as far as some jobs, all others all the way.
    let proxy = Proxy::new(agent.address(), |number| match number {
        0 => (Way::ToAgent, Fault::Cut(200_000)),
        _ => (Way::ToAgent, Fault::None),
    });
    let device =
        RemoteDevice::connect("dpu0", &entry(proxy.address(), true), "cpu", PATIENT).unwrap();
    let mut context = device.open(copying(4)).unwrap();
    let end = run(&mut *context, &device, &LENGTHS);
    assert!(matches!(end, End::Lost(..)), "{end:?}");
    // A context that is lost stays lost.
    assert!(context.arm().is_err());
    assert!(context.poll(&mut Vec::new(), 1).is_err());
    drop(context);
    let mut context = device.open(copying(4)).unwrap();
    assert_eq!(run(&mut *context, &device, &LENGTHS), End::All);
    assert_eq!(proxy.connections(), 2);
}

#[test]
fn contexts_that_were_closed_leave_their_connection_to_the_next() {
    let agent = agent(cpu(1), true);
    let proxy = Proxy::new(agent.address(), |_| (Way::ToAgent, Fault::None));
    let device =
        RemoteDevice::connect("dpu0", &entry(proxy.address(), true), "cpu", PATIENT).unwrap();
    for _ in 0..5 {
        let mut context = device.open(copying(4)).unwrap();
        assert_eq!(run(&mut *context, &device, &[10, 20]), End::All);
        let closed = context.close(Instant::now() + SOON);
        assert_eq!(closed.abandoned, [0; 0]);
        assert!(closed.cpu_time.dpu_ns > 0 && closed.cpu_time.host_ns == 0);
    }
    assert_eq!(proxy.connections(), 1);
}

#[test]
fn a_job_that_is_given_up_has_its_destination_back_and_the_next_one_is_right() {
    static ARE_HELD: AtomicBool = AtomicBool::new(false);
    let agent = agent(cpu(1), true);
    let proxy = Proxy::new(agent.address(), |_| (Way::ToHost, Fault::Held(&ARE_HELD)));
    let device =
        RemoteDevice::connect("dpu0", &entry(proxy.address(), true), "cpu", PATIENT).unwrap();
    let mut context = device.open(copying(2)).unwrap();
    let mut jobs =
        VecDeque::from([(1, 200_000), (2, 50_000)].map(|(tag, len)| job(&device, tag, len)));
    ARE_HELD.store(true, Ordering::Release);
    jobs[0].deadline = Some(Instant::now() + Duration::from_millis(500));
    assert_eq!(context.submit(&mut jobs), Ok(2));
    let first = reap(&mut *context, 1);
    assert!(is_late(&first[0]), "{first:?}");
    assert_eq!(first[0].destination.as_ref().map(|region| region.len()), Some(200_000));
    assert_eq!(context.quarantined(), 0);
    // Its slot stays occupied until the abandoned answer has arrived.
    let mut next = [job(&device, 3, 10), job(&device, 4, 10)].into();
    assert_eq!(context.submit(&mut next), Ok(0));
    ARE_HELD.store(false, Ordering::Release);
    assert_copied(&reap(&mut *context, 1)[0]);
    while !next.is_empty() {
        context.submit(&mut next).unwrap();
        context.poll(&mut Vec::new(), 0).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        if next.len() < 2 {
            reap(&mut *context, 1).iter().for_each(assert_copied);
        }
    }
}

#[test]
fn an_agent_that_is_away_is_tried_again_after_a_pause_and_not_before() {
    // An address of its own: other tests must not take the port while it is free.
    let start = |address: SocketAddr| {
        let settings = overside_agent::Settings::new(address, None);
        let open = |_: &str| Ok::<_, String>(cpu(1));
        overside_agent::Agent::start(settings, &["cpu".into()], open)
    };
    let there = start("127.0.0.77:0".parse().unwrap()).expect("an agent");
    let address = there.address();
    let device = RemoteDevice::connect("dpu0", &entry(address, false), "cpu", PATIENT).unwrap();
    drop(there);
    // The connection that was kept goes with the agent, and no new one can be made.
    let begin = Instant::now();
    let first = loop {
        match device.open(copying(1)) {
            Err(error) => break error.to_string(),
            Ok(_) => assert!(begin.elapsed() < SOON, "nobody is there"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(first.contains("is `overside agent` running?"), "{first}");
    // On a busy machine a pause may be over before the next attempt; but they grow.
    let refused = |_| device.open(copying(1)).err().expect("still nobody");
    let mut later = (0..8).map(refused).map(|error| error.to_string());
    assert!(later.any(|error| error.contains("tried again in")));

    let _back = start(address).expect("the address is free again");
    let begin = Instant::now();
    let mut context = loop {
        match device.open(copying(1)) {
            Ok(context) => break context,
            Err(error) => assert!(begin.elapsed() < SOON, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(run(&mut *context, &device, &[100]), End::All);
}

#[test]
fn errors_say_what_to_do() {
    let secure = agent(cpu(1), true);
    let open = agent(cpu(1), false);
    let error = |entry: Entry, device: &str| {
        let connected = RemoteDevice::connect("dpu0", &entry, device, PATIENT);
        connected.err().expect("an error").to_string()
    };
    let without = error(entry(secure.address(), false), "cpu");
    assert!(without.contains("--keys DIR"), "{without}");
    let needless = error(entry(open.address(), true), "cpu");
    assert!(needless.contains("without keys"), "{needless}");
    let unknown = error(entry(open.address(), false), "gpu");
    assert_contains(&unknown, "does not offer \"gpu\"; it offers cpu");
    let foreign = tempfile::tempdir().unwrap();
    overside_agent::keys::make(foreign.path()).unwrap();
    let others = Entry { keys: Some(foreign.path().into()), ..entry(secure.address(), true) };
    let others = error(others, "cpu");
    assert!(others.contains("the keys do not fit"), "{others}");
    let far = Entry { address: "192.0.2.1:7433".into(), keys: None };
    let far = RemoteDevice::connect("dpu0", &far, "cpu", PATIENT).err().unwrap();
    assert!(matches!(far, RemoteError::Insecure { .. }), "{far}");
    assert!(far.to_string().contains("overside agent keys"), "{far}");
    assert!(keys().join("host.key").exists());
}
