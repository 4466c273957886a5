//! A host on an Ethernet, without one.

use std::net::Ipv4Addr;

use overside_kv::ethernet::{
    Checked, Datagram, FrameKind, HEADERS_MAX_BYTES, Host, HostRequest, Ignored, Path,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::requests::corpus;

const SERVER: Host = Host { mac: [2, 0, 0, 0, 0, 2], address: Ipv4Addr::new(10, 0, 0, 2) };
const CLIENT: Host = Host { mac: [2, 0, 0, 0, 0, 1], address: Ipv4Addr::new(10, 0, 0, 1) };

fn path(vlan: Option<u16>) -> Path {
    Path { mac: SERVER.mac, vlan, address: SERVER.address, port: 6379, local_port: 20_000 }
}

fn datagram(vlan: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; HEADERS_MAX_BYTES + payload.len()];
    let len = CLIENT.write_datagram(&path(vlan), payload, false, &mut frame);
    frame.truncate(len.unwrap());
    frame
}

fn received(frame: &[u8]) -> FrameKind<'_> {
    SERVER.receive(frame, Checked::No)
}

fn is_ignored(frame: &[u8], reason: Ignored) -> bool {
    received(frame) == FrameKind::Ignored(reason)
}

/// Another checksum of an IPv4 header of 20 bytes, after it was changed.
fn mend_ipv4(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let words = frame[14..34].chunks(2);
    let mut sum: u32 = words.map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[24..26].copy_from_slice(&(!sum as u16).to_be_bytes());
}

proptest! {
    #[test]
    fn datagrams_arrive_and_replies_go_back_the_way_they_came(
        payload in vec(any::<u8>(), 0..1500),
        vlan in proptest::option::of(any::<u16>()),
        padding in 0_usize..40,
    ) {
        let mut frame = datagram(vlan, &payload);
        // Short frames are filled up.
        frame.resize(frame.len() + padding, 7);
        let expected = Path {
            mac: CLIENT.mac,
            vlan,
            address: CLIENT.address,
            port: 20_000,
            local_port: 6379,
        };
        let FrameKind::Datagram(Datagram { path, payload: found }) = received(&frame) else {
            panic!("{frame:?}");
        };
        prop_assert_eq!(path, expected);
        prop_assert_eq!(found, &payload[..]);
        let mut back = vec![0; HEADERS_MAX_BYTES + payload.len()];
        let len = SERVER.write_datagram(&path, &payload, false, &mut back).unwrap();
        match CLIENT.receive(&back[..len], Checked::No) {
            FrameKind::Datagram(datagram) => prop_assert_eq!(datagram.payload, &payload[..]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_bit_that_was_flipped_is_found(
        payload in vec(any::<u8>(), 1..200),
        bit in any::<prop::sample::Index>(),
    ) {
        let mut frame = datagram(None, &payload);
        // The checksums are those of what is behind the header of Ethernet.
        let bit = 14 * 8 + bit.index((frame.len() - 14) * 8);
        frame[bit / 8] ^= 1 << (bit % 8);
        // Another checksum of UDP may say that there is none, or that a device will make it.
        prop_assume!(!(40..42).contains(&(bit / 8)));
        prop_assert!(matches!(received(&frame), FrameKind::Ignored(_)));
    }

    #[test]
    fn what_is_cut_off_is_malformed(payload in vec(any::<u8>(), 0..100), left in any::<prop::sample::Index>()) {
        let frame = datagram(Some(5), &payload);
        let left = left.index(frame.len());
        prop_assert!(is_ignored(&frame[..left], Ignored::Malformed));
        let mut room = vec![0; left];
        prop_assert_eq!(CLIENT.write_datagram(&path(Some(5)), &payload, false, &mut room), None);
    }

    #[test]
    fn nothing_that_comes_does_harm(frame in vec(any::<u8>(), 0..200), header in 0_usize..60) {
        let mut frame = frame;
        let good = datagram(None, b"12345678901234567890");
        let header = header.min(frame.len());
        frame[..header].copy_from_slice(&good[..header]);
        if let FrameKind::HostRequest(question) = received(&frame) {
            let mut reply = vec![0; frame.len().max(64)];
            prop_assert!(SERVER.write_reply(&question, &mut reply).is_some());
        }
    }
}

#[test]
fn the_corpus_of_the_fuzz_target_is_what_its_names_say() {
    for (name, frame) in corpus("kv_ethernet", 10) {
        let found = received(&frame);
        let fits = match name.split('_').next().unwrap() {
            "datagram" => matches!(found, FrameKind::Datagram(_)),
            "fragment" => is_ignored(&frame, Ignored::Fragment),
            "wrong" => is_ignored(&frame, Ignored::Checksum),
            "short" => is_ignored(&frame, Ignored::Malformed),
            _ if name == "echo_reply" || name == "ipv6" => is_ignored(&frame, Ignored::NotForUs),
            _ if name == "arp_reply" => matches!(found, FrameKind::Neighbor(..)),
            "arp" | "echo" => matches!(found, FrameKind::HostRequest(_)),
            _ => true,
        };
        assert!(fits, "{name}: {found:?}");
    }
}

#[test]
fn frames_for_others_and_other_protocols_are_left_alone() {
    let good = datagram(None, b"get");
    let changed = |at: usize, bytes: &[u8]| {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        mend_ipv4(&mut frame);
        frame
    };
    let others = [
        changed(0, &[2, 0, 0, 0, 0, 3]), // somebody else's hardware address
        changed(0, &[0xff; 6]),          // everybody's
        changed(6, &[1, 0, 0, 0, 0, 1]), // from a group
        changed(12, &[0x86, 0xdd]),      // IPv6
        changed(14, &[0x65]),            // another version
        changed(23, &[6]),               // TCP
        changed(30, &[10, 0, 0, 9]),     // another host's address
        changed(26, &[10, 0, 0, 2]),     // from our own address
        changed(26, &[224, 0, 0, 1]),    // from a group
        changed(26, &[255, 255, 255, 255]),
        changed(26, &[0, 0, 0, 0]),
        changed(26, &[127, 0, 0, 1]),
    ];
    for frame in others {
        // The pseudo header has changed too: the device says that sums are right.
        let found = SERVER.receive(&frame, Checked::Good);
        assert_eq!(found, FrameKind::Ignored(Ignored::NotForUs), "{frame:02x?}");
    }
    for fragment in [[0x20, 0], [0, 1], [0x3f, 0xff]] {
        assert!(is_ignored(&changed(20, &fragment), Ignored::Fragment));
    }
    // "Don't fragment" is none.
    assert!(matches!(received(&changed(20, &[0x40, 0])), FrameKind::Datagram(_)));
    for malformed in
        [(14, &[0x44][..]), (14, &[0x4f]), (16, &[0xff, 0xff]), (38, &[0, 7]), (38, &[0xff, 0xff])]
    {
        let frame = changed(malformed.0, malformed.1);
        let found = SERVER.receive(&frame, Checked::Good);
        assert_eq!(found, FrameKind::Ignored(Ignored::Malformed), "{malformed:?}");
    }
    assert_eq!(SERVER.receive(&good, Checked::Bad), FrameKind::Ignored(Ignored::Checksum));
}

#[test]
fn options_of_ipv4_are_passed_over() {
    let mut frame = datagram(None, b"get");
    frame.splice(34..34, [1, 1, 1, 0]);
    frame[14] = 0x46;
    let total = frame.len() as u16 - 14;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    let FrameKind::Datagram(found) = SERVER.receive(&frame, Checked::Good) else {
        panic!("{frame:?}");
    };
    assert_eq!(found.payload, b"get");
}

#[test]
fn checksums_that_a_kernel_or_a_sender_leaves_out_are_no_errors() {
    let mut none = datagram(None, b"get");
    none[40..42].fill(0);
    assert!(matches!(received(&none), FrameKind::Datagram(_)));
    // With offloads there is the sum of the pseudo header, as a kernel leaves it to a device.
    let mut frame = vec![0; 200];
    let len = CLIENT.write_datagram(&path(None), b"get", true, &mut frame).unwrap();
    frame.truncate(len);
    assert_eq!(frame[24..26], [0, 0]);
    assert!(is_ignored(&frame, Ignored::Checksum));
    mend_ipv4(&mut frame);
    assert!(matches!(received(&frame), FrameKind::Datagram(_)));
}

#[test]
fn who_has_the_address_is_answered_to_those_who_ask_for_it() {
    let mut frame = [0; 64];
    let len = CLIENT.write_arp_request(SERVER.address, &mut frame).unwrap();
    let FrameKind::HostRequest(question) = received(&frame[..len]) else {
        panic!("{frame:?}");
    };
    let mut reply = [0; 64];
    let len = SERVER.write_reply(&question, &mut reply).unwrap();
    let found = CLIENT.receive(&reply[..len], Checked::No);
    assert_eq!(found, FrameKind::Neighbor(SERVER.address, SERVER.mac));
    // A host that probes if the address is free has none yet (RFC 5227).
    let probe = Host { address: Ipv4Addr::UNSPECIFIED, ..CLIENT };
    let len = probe.write_arp_request(SERVER.address, &mut frame).unwrap();
    assert!(matches!(received(&frame[..len]), FrameKind::HostRequest(HostRequest::Arp { .. })));
    let len = CLIENT.write_arp_request(Ipv4Addr::new(10, 0, 0, 9), &mut frame).unwrap();
    assert!(is_ignored(&frame[..len], Ignored::NotForUs));
    // Another host that says it has the address itself.
    let twin = Host { address: SERVER.address, ..CLIENT };
    let len = twin.write_arp_request(SERVER.address, &mut frame).unwrap();
    assert!(is_ignored(&frame[..len], Ignored::NotForUs));
}

#[test]
fn an_echo_comes_back_as_it_was() {
    let mut frame = datagram(None, b"0123456789abcdefghijklmnopqrstuvw");
    // As ICMP: type 8, code 0, checksum, identifier and sequence, and an odd number of bytes.
    let end = frame.len();
    frame[23] = 1;
    frame[34..38].copy_from_slice(&[8, 0, 0, 0]);
    let mut sum: u32 = (frame[34..end].chunks(2))
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[36..38].copy_from_slice(&(!sum as u16).to_be_bytes());
    mend_ipv4(&mut frame);
    let FrameKind::HostRequest(question) = received(&frame) else {
        panic!("{:?}", received(&frame));
    };
    let mut reply = vec![0; 200];
    let len = SERVER.write_reply(&question, &mut reply).unwrap();
    assert_eq!(len, end);
    assert_eq!(reply[..6], CLIENT.mac);
    assert_eq!(reply[34..36], [0, 0]);
    assert_eq!(reply[38..len], frame[38..]);
    // The client sends no echo requests, so it ignores the answer.
    assert_eq!(CLIENT.receive(&reply[..len], Checked::No), FrameKind::Ignored(Ignored::NotForUs));
    frame[40] ^= 1;
    assert!(is_ignored(&frame, Ignored::Checksum));
}
