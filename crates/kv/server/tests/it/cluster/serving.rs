//! Tests of clusters: which server stores which keys, and what clients see when a server is gone.

use std::sync::Arc;
use std::time::Duration;

use overside_kv::client::{Cluster, ClusterError, ClusterOptions, Reply, Ring, ServerTls};
use overside_kv::directory::{Etcd, Membership};
use overside_kv::server::Settings;

use super::{Member, connect, create, fixed};
use crate::directory::{endpoint, location, register, registered, wait_until};
use crate::peers;
use crate::server::running::settings;
use crate::server::tls;

#[test]
fn keys_are_with_the_servers_that_the_ring_says() {
    let Some(etcd) = peers::etcd() else { return };
    let location = location(&etcd);
    let names = ["a", "b", "c"];
    let error = Cluster::connect(location.clone(), ClusterOptions::default()).unwrap_err();
    assert!(matches!(error, ClusterError::NoCluster { .. }), "{error}");
    create(&location, &fixed(&names));
    let members = names.map(|name| Member::start(&location, name, false));
    wait_until(|| registered_servers(&Etcd::new(location.clone())) == 3);
    let mut cluster = connect(&location);
    assert_eq!(cluster.servers(), Ok(&names.map(String::from)[..]));

    let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..2000)
        .map(|number| (format!("key:{number}").into(), vec![b'v'; number * 7 % 900]))
        .collect();
    let borrowed: Vec<(&[u8], &[u8])> = pairs.iter().map(|(k, v)| (&**k, &**v)).collect();
    cluster.set_many(&borrowed, None).unwrap();
    let ring = Ring::new(names);
    for (name, member) in names.iter().zip(&members) {
        let own = pairs.iter().filter(|(key, _)| ring.owner(key) == Some(name));
        assert_eq!(member.keys(), own.count());
    }
    let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| &**key).collect();
    let values = cluster.get_many(&keys).unwrap();
    assert!(values.into_iter().eq(pairs.iter().map(|(_, v)| Some(v.clone()))));
    assert_eq!(cluster.get(b"none"), Ok(None));
    assert_eq!(cluster.delete_many(&keys[..1500]), Ok(1500));
    assert_eq!(cluster.delete(keys[0]), Ok(false));
    assert_eq!(members.iter().map(Member::keys).sum::<usize>(), 500);

    let counted = cluster.execute(b"count", &[b"INCRBY", b"count", b"7"]);
    assert_eq!(counted, Ok(Reply::Integer(7)));
    let refused = cluster.execute(b"count", &[b"HSET", b"count", b"a", b"b"]).unwrap_err();
    assert!(refused.to_string().contains("WRONGTYPE"), "{refused}");
    assert_eq!(cluster.get(b"count"), Ok(Some(b"7".into())));
    let minute = Some(Duration::from_secs(60));
    cluster.set(b"short", b"x", minute).unwrap();
    let left = cluster.execute(b"short", &[b"TTL", b"short"]);
    assert!(matches!(left, Ok(Reply::Integer(1..=60))), "{left:?}");
}

fn registered_servers(etcd: &Etcd) -> usize {
    let location = etcd.location();
    let found = etcd.range(&format!("{}/endpoints/", location.prefix()));
    found.unwrap().entries.len()
}

/// A client that only writes while servers only answer would wait for ever.
#[test]
fn many_large_values_are_moved_both_ways() {
    let Some(etcd) = peers::etcd() else { return };
    let location = location(&etcd);
    create(&location, &fixed(&["a"]));
    let _a = Member::start(&location, "a", false);
    wait_until(|| registered_servers(&Etcd::new(location.clone())) == 1);
    let mut cluster = connect(&location);
    let value = vec![7; 2 << 20];
    let keys: Vec<Vec<u8>> = (0..16).map(|n| vec![n; 30_000]).collect();
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&**key, &*value)).collect();
    cluster.set_many(&pairs, None).unwrap();
    // Keys are long, so that requests fill buffers as well.
    let asked: Vec<&[u8]> = keys.iter().cycle().take(100).map(|key| &**key).collect();
    let values = cluster.get_many(&asked).unwrap();
    assert!(values.iter().all(|found| found.as_ref() == Some(&value)));
}

#[test]
fn a_server_that_is_gone_fails_its_keys_until_it_is_back() {
    let Some(etcd) = peers::etcd() else { return };
    let location = location(&etcd);
    create(&location, &fixed(&["a", "b"]));
    let a = Member::start(&location, "a", false);
    let _b = Member::start(&location, "b", false);
    wait_until(|| registered_servers(&Etcd::new(location.clone())) == 2);
    let mut cluster = connect(&location);
    let ring = Ring::new(["a", "b"]);
    let keys: Vec<Vec<u8>> = (0..100).map(|n| format!("key:{n}").into()).collect();
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&**key, &**key)).collect();
    cluster.set_many(&pairs, None).unwrap();

    drop(a);
    let of_a = keys.iter().filter(|key| ring.owner(key) == Some("a")).count();
    let all: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
    let error = cluster.get_many(&all).unwrap_err();
    let ClusterError::Unreachable { servers } = &error else {
        panic!("{error}");
    };
    assert_eq!((servers.len(), &*servers[0].server), (1, "a"));
    assert_eq!((servers[0].requests, servers[0].may_be_executed), (of_a, false));
    // Its keys are not assigned to other servers, even when all know that it is gone.
    wait_until(|| cluster.get_many(&all).unwrap_err().to_string().contains("not registered"));
    for key in &keys {
        match ring.owner(key) {
            Some("a") => {
                assert!(cluster.get(key).is_err() && cluster.set(key, b"x", None).is_err())
            }
            _ => assert_eq!(cluster.get(key), Ok(Some(key.clone()))),
        }
    }
    // What belongs to others is stored.
    let new: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&**key, &b"new"[..])).collect();
    cluster.set_many(&new, None).unwrap_err();
    let of_b = keys.iter().find(|key| ring.owner(key) == Some("b")).unwrap();
    assert_eq!(cluster.get(of_b), Ok(Some(b"new".into())));

    // It comes back elsewhere, here without its keys.
    let _a = Member::start(&location, "a", false);
    wait_until(|| cluster.set_many(&new, None).is_ok());
    assert!(cluster.get_many(&all).unwrap().iter().all(|value| value.as_deref() == Some(b"new")));
}

#[test]
fn registered_caches_stand_in_for_each_other() {
    let Some(etcd) = peers::etcd() else { return };
    let location = location(&etcd);
    create(&location, &Membership::Registered { expiry_s: 60 });
    let mut cluster = connect(&location);
    assert_eq!(cluster.get(b"x"), Err(ClusterError::Empty));
    let a = Member::start(&location, "a", true);
    let b = Member::start(&location, "b", true);
    wait_until(|| cluster.servers().is_ok_and(|names| names.len() == 2));
    let keys: Vec<Vec<u8>> = (0..100).map(|n| format!("key:{n}").into()).collect();
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&**key, &b"1"[..])).collect();
    cluster.set_many(&pairs, None).unwrap();
    cluster.set_many(&pairs, Some(Duration::from_secs(3600))).unwrap();
    assert!(a.keys() > 20 && b.keys() > 20);
    let mut direct = a.server.connect();
    let of_a = keys.iter().find(|key| Ring::new(["a", "b"]).owner(key) == Some("a")).unwrap();
    let key = String::from_utf8_lossy(of_a);
    direct.say(format!("TTL {key}\r\n").as_bytes());
    let left = [direct.hear_byte(), direct.hear_byte(), direct.hear_byte(), direct.hear_byte()];
    assert!(&left == b":60\r" || (left.starts_with(b":5") && left.ends_with(b"\r")), "{left:?}");
    assert_eq!(cluster.execute(b"x", &[b"INCR", b"x"]), Err(ClusterError::Unsupported));

    drop(a);
    // One that has not heard of it yet is refused, and then b has all keys.
    let all: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
    wait_until(|| cluster.get_many(&all).is_ok());
    let found = cluster.get_many(&all).unwrap();
    assert_eq!(found.iter().filter(|value| value.is_some()).count(), b.keys());
    cluster.set_many(&pairs, None).unwrap();
    assert_eq!(b.keys(), 100);

    let _store = Member::start(&location, "c", false);
    wait_until(|| matches!(cluster.servers(), Err(ClusterError::NotCache { .. })));
    assert!(cluster.get(b"x").is_err());
}

#[test]
fn servers_are_reached_by_tls_alone_where_the_client_trusts_some() {
    let Some(etcd) = peers::etcd() else { return };
    let location = location(&etcd);
    create(&location, &fixed(&["a"]));
    let keys = tls::keys();
    let name = Some("a".into());
    let server = tls::start(&keys, Settings { name, ..settings() });
    let addresses = &server.settings.addresses.tls;
    let entry = endpoint("a", "1", "rediss", addresses[0].port());
    let _registration = register(&location, &[entry]);
    wait_until(|| registered_servers(&Etcd::new(location.clone())) == 1);
    let by_tls = |name| ClusterOptions {
        tls: Some(ServerTls::new(Arc::clone(&keys.client), name).unwrap()),
        ..ClusterOptions::default()
    };
    let mut cluster = Cluster::connect(location.clone(), by_tls("localhost")).unwrap();
    let value = vec![7; 1 << 20];
    let names: Vec<Vec<u8>> = (0..8).map(|n| vec![n; 30_000]).collect();
    let pairs: Vec<(&[u8], &[u8])> = names.iter().map(|key| (&**key, &*value)).collect();
    cluster.set_many(&pairs, None).unwrap();
    let all: Vec<&[u8]> = names.iter().map(|key| &**key).collect();
    let found = cluster.get_many(&all).unwrap();
    assert!(found.iter().all(|one| one.as_deref() == Some(&*value)));

    let mut others = Cluster::connect(location.clone(), by_tls("other.example")).unwrap();
    let refused = others.get(b"x").unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");
    let refused = connect(&location).get(b"x").unwrap_err().to_string();
    assert!(refused.contains("only of rediss"), "{refused}");
}

#[test]
fn clients_go_on_without_the_directory() {
    let Some(mut etcd) = peers::etcd() else {
        return;
    };
    let location = location(&etcd);
    create(&location, &fixed(&["a"]));
    let _a = Member::start(&location, "a", false);
    let plain = Etcd::new(location.clone());
    wait_until(|| registered_servers(&plain) == 1);
    let mut cluster = connect(&location);
    etcd.kill();
    wait_until(|| cluster.directory_error().is_some());
    cluster.set(b"key", b"value", None).unwrap();
    let error = Cluster::connect(location.clone(), ClusterOptions::default()).unwrap_err();
    assert!(matches!(error, ClusterError::Directory(_)), "{error}");
    etcd.restart();
    wait_until(|| cluster.directory_error().is_none());
    assert_eq!(cluster.get(b"key"), Ok(Some(b"value".into())));
    // Clients follow every change of the membership.
    assert_eq!(plain.delete(&Membership::key(&location)), Ok(true));
    wait_until(|| matches!(cluster.get(b"key"), Err(ClusterError::NoCluster { .. })));
    assert!(!registered(&plain).is_empty());
}
