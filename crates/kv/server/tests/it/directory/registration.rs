//! Tests of the entries that servers write into etcd, keep alive there, and remove.

use std::time::Duration;

use overside_kv::directory::Etcd;

use super::{endpoint, location, register, registered, wait_until};
use crate::peers;

#[test]
fn each_server_removes_its_own_entries_and_no_others() {
    let Some(server) = peers::etcd() else { return };
    let location = location(&server);
    let etcd = Etcd::new(location.clone());
    let of_a = [endpoint("a", "1", "memcached", 2), endpoint("a", "1", "redis", 1)];
    let of_b = [endpoint("b", "2", "redis", 3)];
    let (a, status) = register(&location, &of_a);
    let (_b, _) = register(&location, &of_b);
    wait_until(|| registered(&etcd).len() == 3);
    let found = registered(&etcd);
    let expected = of_a.iter().chain(&of_b);
    assert!(found.iter().map(|(one, _)| one).eq(expected));
    let leases: Vec<_> = found.iter().map(|(_, lease)| *lease).collect();
    assert!(leases.iter().all(|lease| *lease != 0));
    assert!(leases[0] != leases[1] && leases[1] != leases[2]);
    assert!(etcd.remaining_s(leases[0]).unwrap().unwrap() <= 10);
    wait_until(|| status.registered() == 2);
    assert_eq!((status.endpoints(), status.error()), (2, None));
    drop(a);
    let left = registered(&etcd);
    assert!(left.iter().map(|(one, _)| one).eq(&of_b));
    assert_eq!(etcd.remaining_s(leases[0]), Ok(None));
}

#[test]
fn what_is_lost_is_registered_again() {
    let Some(mut server) = peers::etcd() else {
        return;
    };
    let location = location(&server);
    let etcd = Etcd::new(location.clone());
    let own = [endpoint("a", "1", "redis", 1)];
    let (_a, status) = register(&location, &own);
    wait_until(|| status.registered() == 1);
    let (found, lease) = registered(&etcd).remove(0);
    // The lease has ended, as for a server that could not reach etcd for long.
    etcd.revoke(lease).unwrap();
    wait_until(|| registered(&etcd).iter().any(|(_, new)| *new != lease));
    assert_eq!(status.lost_leases(), 1);
    // The operator has removed the entry.
    let key = found.key(&location);
    assert_eq!(etcd.delete(&key), Ok(true));
    assert_eq!(etcd.delete(&key), Ok(false));
    wait_until(|| registered(&etcd).len() == 1);
    // etcd is gone, and comes back.
    server.kill();
    wait_until(|| status.error().is_some());
    let failures = status.failures();
    wait_until(|| status.failures() > failures);
    server.restart();
    wait_until(|| status.error().is_none());
    assert_eq!(registered(&etcd)[0].0, own[0]);
}

#[test]
fn names_and_addresses_belong_to_one_server() {
    let Some(server) = peers::etcd() else { return };
    let location = location(&server);
    let etcd = Etcd::new(location.clone());
    let first = endpoint("a", "1", "redis", 1);
    let second = endpoint("a", "2", "redis", 2);
    let (running, status) = register(&location, std::slice::from_ref(&first));
    wait_until(|| status.registered() == 1);
    // Another address: it is another server, as long as the first one is there.
    let (_second, of_second) = register(&location, std::slice::from_ref(&second));
    wait_until(|| of_second.error().is_some());
    assert!(of_second.error().unwrap().contains("127.0.0.1:1"));
    assert_eq!(registered(&etcd)[0].0, first);
    drop(running);
    wait_until(|| of_second.registered() == 1);
    assert_eq!(registered(&etcd)[0].0, second);
    // The same address: the one before is dead. If it is not, it does not fight.
    let third = endpoint("a", "3", "redis", 2);
    let (_third, of_third) = register(&location, std::slice::from_ref(&third));
    wait_until(|| of_third.registered() == 1 && of_second.error().is_some());
    assert_eq!(registered(&etcd)[0].0, third);
    assert_eq!((of_third.error(), of_second.registered()), (None, 0));
}

#[test]
fn changes_wake_those_who_wait() {
    let Some(server) = peers::etcd() else { return };
    let etcd = Etcd::new(location(&server));
    assert_eq!(etcd.put_if("/test/x", b"1", 0), Ok(true));
    assert_eq!(etcd.put_if("/test/x", b"2", 0), Ok(false));
    let found = etcd.range("/test").unwrap();
    assert_eq!(found.entries[0].value, b"1");
    let [revision, later] = [found.entries[0].revision, found.entries[0].revision + 1];
    assert_eq!(etcd.put_if("/test/x", b"3", later), Ok(false));
    assert_eq!(etcd.put_if("/test/x", b"3", revision), Ok(true));
    assert_eq!(etcd.put_if("/test/x", b"4", revision), Ok(false));
    let found = etcd.range("/test").unwrap();
    assert_eq!(found.entries[0].value, b"3");
    let soon = Duration::from_millis(300);
    let wait = |revision| etcd.wait_for_change("/test", revision, soon);
    assert_eq!(wait(found.revision), Ok(false));
    // A change that came before the request.
    assert_eq!(etcd.delete("/test/x"), Ok(true));
    assert_eq!(wait(found.revision), Ok(true));
    assert_eq!(etcd.put_if("/other", b"", 0), Ok(true));
    let revision = etcd.range("/test").unwrap().revision;
    assert_eq!(wait(revision), Ok(false));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| etcd.wait_for_change("/test", revision, super::PATIENCE));
        std::thread::sleep(soon);
        assert_eq!(etcd.put_if("/test/y", b"", 0), Ok(true));
        assert_eq!(waits.join().unwrap(), Ok(true));
    });
}
