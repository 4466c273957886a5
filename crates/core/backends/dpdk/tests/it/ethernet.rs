//! Ethernet ports: by DPDK's loopback driver, and by a card with rules.

use std::net::Ipv4Addr;

use overside_backend_dpdk::ethernet::{BURST, EthernetPort, EthernetQueue, virtual_drivers};
use overside_backend_dpdk::{DpdkBackend, DpdkError};
use overside_device::backend::Backend;
use overside_testkit::assert_contains;

use crate::common::environment;
use crate::common::ethernet::{RULES_MAX, network_card};

const CARD: &str = "0000:03:00.0";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn send(queue: &mut EthernetQueue, bytes: &[u8], ip_at: Option<usize>) -> (usize, usize) {
    queue.send(|frame| {
        frame.bytes[..bytes.len()].copy_from_slice(bytes);
        Some((bytes.len(), ip_at))
    })
}

fn sum(all: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
    all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// A frame to a UDP port.
fn frame(port: u16) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame
}

/// One test, because there is one card.
#[test]
fn a_card_with_rules_brings_datagrams_to_the_queues_of_their_ports() {
    let environment = environment();
    let open = |queues| EthernetPort::open_in(&environment, CARD, queues, 256);
    let error = open(5).unwrap_err();
    assert_contains(error.to_string(), "it has 4 queues, and 5 cores need one each");
    let error = EthernetPort::open_in(&environment, "net_none0", 1, 256).unwrap_err();
    assert!(matches!(error, DpdkError::Unusable { .. }));
    assert_contains(error.to_string(), "is its driver installed?");

    let (port, mut queues) = open(3).unwrap();
    assert_eq!((port.info().mtu, port.info().driver.as_str()), (1500, "net_rules"));
    assert_eq!(port.statistics().missed, 7);
    // All rules, or none.
    let too_many = (0..=RULES_MAX as u16).map(|number| (7000 + number, 0));
    assert_contains(port.steer(ADDRESS, too_many).unwrap_err(), "No space left");
    assert_eq!(network_card().rules, []);
    let rules = (0..3).map(|number| (7001 + number, number));
    port.steer(ADDRESS, rules).unwrap();
    for port in [7003, 7001, 7002, 7003, 7000] {
        assert_eq!(send(&mut queues[0], &frame(port), Some(14)), (0, 0));
    }
    assert_eq!(queues[0].flush(), (5, 0));
    assert_eq!(network_card().offloads, [14; 5]);
    let mut found = Vec::new();
    let counts: Vec<_> = queues.iter().map(|queue| queue.waiting().unwrap()).collect();
    assert_eq!(counts, [2, 1, 2]);
    assert_eq!(queues[2].receive(&mut found), 2);
    assert_eq!(&found[1][..], &frame(7003));

    // What the card does not take at once is tried again; what it never takes is given up, and its buffers are free.
    network_card().takes = [3, 0, 1].into();
    let sent = (0..BURST).map(|_| send(&mut queues[1], &frame(1), None));
    assert_eq!(sum(sent), (BURST, 0));
    network_card().takes = std::iter::once(5).chain(std::iter::repeat_n(0, 1000)).collect();
    let sent = (0..BURST).map(|_| send(&mut queues[1], &frame(1), None));
    assert_eq!(sum(sent), (5, BURST - 5));
    network_card().takes.clear();

    // Frames outlive their queues and port.
    while queues[1].receive(&mut found) > 0 {}
    while queues[0].receive(&mut found) > 0 {}
    drop((queues, port));
    assert!(!network_card().is_started);
    assert_eq!(found.len(), 2 + 3 + BURST + 5);
    assert!(found.iter().all(|frame| frame.len() == 60));
    drop(found);
    assert!(network_card().buffers.is_empty());
}

#[test]
fn frames_that_are_sent_to_a_loopback_port_come_back() {
    let open = || match EthernetPort::open("net_ring0", 2, 256) {
        Ok(opened) => Some(opened),
        Err(DpdkError::Unavailable(_)) => None,
        Err(error) => panic!("{error}"),
    };
    // A port can be opened again when it is gone.
    for _ in 0..3 {
        let Some((port, mut queues)) = open() else {
            return println!("skipped: there is no DPDK");
        };
        assert!(port.is_up());
        let again = EthernetPort::open("net_ring0", 1, 256).unwrap_err();
        assert_contains(again.to_string(), "busy");
        let mut found = Vec::new();
        for round in 0..50_u8 {
            for number in 0..100_u8 {
                let bytes = vec![number; 60 + usize::from(round) * 20];
                send(&mut queues[1], &bytes, None);
            }
            queues[1].flush();
            found.clear();
            while queues[1].receive(&mut found) > 0 {}
            assert_eq!(found.len(), 100);
            for (number, frame) in found.iter().enumerate() {
                assert_eq!(frame.len(), 60 + usize::from(round) * 20);
                assert!(frame.iter().all(|byte| usize::from(*byte) == number));
            }
        }
        assert_eq!(queues[0].receive(&mut found), 0);
        // The ring is full at some time: what finds no room is said.
        let sent = (0..4 * 1024).map(|_| send(&mut queues[0], &[1; 60], None));
        let (mut sent, mut failed) = sum(sent);
        let rest = queues[0].flush();
        (sent, failed) = (sent + rest.0, failed + rest.1);
        assert_eq!(sent + failed, 4096);
        assert!(failed > 0 && sent > 0);
        while queues[0].receive(&mut found) > 0 {}
        assert_eq!(found.len(), 100 + sent);
        // Frames outlive their queues.
        drop(queues);
        assert!(found[99].iter().all(|byte| *byte == 99));
    }
    // `overside doctor` lists the possible ports.
    let drivers = virtual_drivers().unwrap();
    let said: Vec<_> = DpdkBackend.doctor().into_iter().map(|one| one.message).collect();
    let said = said.join("\n");
    assert!(drivers.iter().all(|driver| said.contains(driver.as_str())), "{said}");
    assert_contains(said, "network ports");
}
