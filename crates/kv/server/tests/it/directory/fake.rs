//! Tests against false etcd servers: answers that etcd never gives, answers without end, members
//! that fail.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::Duration;

use overside_kv::directory::{DirectoryError, Etcd, Location};

/// Starts a server that answers every request with these bytes, followed by `more` as long as they are read.
fn fake(answer: &'static [u8], more: &'static [u8]) -> Location {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let mut goes_on = stream.write_all(answer).is_ok() && !more.is_empty();
                while goes_on {
                    goes_on = stream.write_all(more).is_ok();
                }
            });
        }
    });
    format!("etcd://{address}").parse().unwrap()
}

#[test]
fn what_etcd_does_not_say_is_refused() {
    let answers: [&[u8]; 10] = [
        b"HTTP/1.1 200 OK\r\n\r\n{\"header\":{\"revision\":\"1\"},\"more\":true}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull",
        b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n{\"header\":{\"revision\":\"0x1000\"}}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"header\":{\"revision\":\"1\"},\"kvs\":[{}]}   ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 52\r\n\r\n{\"header\":{\"revision\":\"1\"},\"kvs\":[{\"key\":\"?\"}]}      ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
    ];
    for answer in answers {
        let etcd = Etcd::new(fake(answer, b""));
        let text = String::from_utf8_lossy(answer);
        assert!(etcd.range("/x").is_err(), "{text}");
        assert!(etcd.grant(Duration::from_secs(1)).is_err(), "{text}");
        // When a watch ends, it is started again after a check.
        let changed = etcd.wait_for_change("/x", 1, Duration::from_millis(50));
        assert_ne!(changed, Ok(false), "{text}");
    }
}

#[test]
fn answers_without_end_are_bounded() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"kvs\":[";
    let etcd = Etcd::new(fake(head, &[b' '; 1 << 16]));
    let error = etcd.range("/x").unwrap_err();
    assert!(matches!(error, DirectoryError::Answer { .. }), "{error}");
    let error = etcd.wait_for_change("/x", 1, super::PATIENCE).unwrap_err();
    assert!(matches!(error, DirectoryError::Answer { .. }), "{error}");
    let nested = Etcd::new(fake(b"HTTP/1.1 200 OK\r\n\r\n", &[b'['; 1 << 16]));
    assert!(nested.range("/x").is_err());
}

#[test]
fn another_member_answers_if_one_does_not() {
    let good = fake(
        b"HTTP/1.1 200 OK\r\nContent-Length: 28\r\n\r\n{\"header\":{\"revision\":\"7\"}} ",
        b"",
    );
    let busy = fake(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 23\r\n\r\n{\"error\":\"no leader\"}   ",
        b"",
    );
    let (gone, good, busy) = ("127.0.0.1:1", &good.members()[0], &busy.members()[0]);
    for members in [[gone, busy, good], [good, gone, busy]] {
        let location = format!("etcd://{}", members.join(","));
        let etcd = Etcd::new(location.parse().unwrap());
        for _ in 0..2 {
            assert_eq!(etcd.range("/x").unwrap().revision, 7);
        }
    }
    let etcd = Etcd::new(format!("etcd://{gone},{busy}").parse().unwrap());
    let error = etcd.range("/x").unwrap_err();
    assert!(error.to_string().contains("no leader"), "{error}");
}
