//! Claims of slots, and a directory that is away, has lost entries, or has wrong ones.

use overside_kv::client::Reply;
use overside_kv::cluster::JoinError;
use overside_kv::directory::{Etcd, SlotTable};

use super::{Node, part, read, text};
use crate::directory::{location, wait_until};
use crate::peers;

#[test]
fn a_slot_has_one_owner() {
    let Some(etcd) = peers::etcd() else { return };
    let location = location(&etcd);
    let a = Node::start(&location, "a", &part(0, 2)).unwrap();
    wait_until(|| a.ask("SET b 1") == Reply::Simple("OK".into()));
    assert_eq!(text(a.ask("SET a 1")), "CLUSTERDOWN Hash slot not served");
    let refused = Node::start(&location, "c", &[8000, 9000]).map(|_| ()).unwrap_err();
    assert!(
        matches!(&refused, JoinError::Claimed { slot: 8000, owner } if owner == "a"),
        "{refused}"
    );
    let b = Node::start(&location, "b", &part(1, 2)).unwrap();
    [&a, &b].iter().for_each(|node| node.wait_until_ok());
    wait_until(|| text(a.ask("SET a 1")) == format!("MOVED 15495 {}", b.address()));
    // A server that starts again has what it had, whatever it claims.
    drop(b);
    let b = Node::start(&location, "b", &[1]).unwrap();
    b.wait_until_ok();
    assert_eq!(b.ask("SET a 1"), Reply::Simple("OK".into()));
    wait_until(|| text(a.ask("SET a 1")) == format!("MOVED 15495 {}", b.address()));
}

#[test]
fn without_the_directory_slots_stay_where_they_are() {
    let Some(mut server) = peers::etcd() else { return };
    let location = location(&server);
    let etcd = Etcd::new(location.clone());
    let nodes =
        [0, 1].map(|n| Node::start(&location, ["a", "b"][n as usize], &part(n, 2)).unwrap());
    nodes.iter().for_each(Node::wait_until_ok);
    let (table, revision) = read(&etcd);
    let error = || {
        let info = text(nodes[0].ask("INFO cluster"));
        info.lines().find_map(|line| line.strip_prefix("cluster_error:")).unwrap().to_owned()
    };
    let serve = || {
        assert_eq!(nodes[0].ask("SET b 1"), Reply::Simple("OK".into()));
        assert_eq!(nodes[1].ask("SET a 1"), Reply::Simple("OK".into()));
        let moved = format!("MOVED 15495 {}", nodes[1].address());
        assert_eq!(text(nodes[0].ask("SET a 1")), moved);
    };
    serve();
    server.kill();
    wait_until(|| error().contains("cannot be reached"));
    serve();
    server.restart();
    wait_until(|| error().is_empty());
    serve();
    assert_eq!(read(&etcd), (table.clone(), revision));

    // Somebody wrote something else.
    assert_eq!(etcd.put_if("/test/slots", b"{}", revision), Ok(true));
    wait_until(|| error().contains("/test/slots"));
    serve();
    // Somebody removed it: the servers write again what they own.
    assert_eq!(etcd.delete("/test/slots"), Ok(true));
    wait_until(|| SlotTable::read(&etcd).is_ok_and(|(found, _)| found == table));
    wait_until(|| error().is_empty());
    serve();
    nodes.iter().for_each(Node::wait_until_ok);
}

#[test]
fn a_server_whose_name_another_one_has_serves_nothing() {
    let Some(server) = peers::etcd() else { return };
    let location = location(&server);
    let a = Node::start(&location, "a", &part(0, 1)).unwrap();
    a.wait_until_ok();
    let twin = Node::start(&location, "a", &[]).unwrap();
    wait_until(|| text(twin.ask("GET b")) == "CLUSTERDOWN Hash slot not served");
    assert_eq!(a.ask("GET b"), Reply::Nil);
}
