//! Any frames: what is taken for a datagram says so in its lengths and checksums, and replies fit and are understood.

#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use overside_kv::ethernet::{Checked, FrameKind, HEADERS_MAX_BYTES, Host, HostRequest};

const SERVER: Host = Host { mac: [2, 0, 0, 0, 0, 2], address: Ipv4Addr::new(10, 0, 0, 2) };

/// Longest frame.
const FRAME_MAX_BYTES: usize = 9_018;

fuzz_target!(|frame: &[u8]| {
    if frame.len() > FRAME_MAX_BYTES {
        return;
    }
    for checked in [Checked::No, Checked::Good, Checked::Bad] {
        look(frame, checked);
    }
});

fn look(frame: &[u8], checked: Checked) {
    let mut reply = vec![0; FRAME_MAX_BYTES];
    match SERVER.receive(frame, checked) {
        FrameKind::Datagram(datagram) => {
            assert_ne!(checked, Checked::Bad);
            let path = datagram.path;
            assert_ne!(path.port, 0);
            assert!(datagram.payload.len() + HEADERS_MAX_BYTES - 4 <= frame.len());
            // The reply goes back the way the datagram came, and nowhere else.
            let client = Host { mac: path.mac, address: path.address };
            let len = SERVER.write_datagram(&path, datagram.payload, false, &mut reply);
            let len = len.expect("as long as what came");
            let FrameKind::Datagram(back) = client.receive(&reply[..len], Checked::No) else {
                panic!("{path:?}: {:02x?}", &reply[..len]);
            };
            assert_eq!(back.payload, datagram.payload);
            let (here, there) = (back.path, path);
            assert_eq!((here.port, here.local_port), (there.local_port, there.port));
            assert_eq!((here.mac, here.address), (SERVER.mac, SERVER.address));
            assert_eq!(here.vlan, there.vlan);
        }
        FrameKind::HostRequest(question) => {
            let len = SERVER.write_reply(&question, &mut reply);
            let len = len.expect("as long as what came");
            // No more is delivered than was sent, except for the padding of short frames.
            assert!(len <= frame.len().max(60));
            if let HostRequest::Arp { mac, .. } = question {
                assert_eq!(reply[..6], mac);
            }
        }
        FrameKind::Neighbor(address, mac) => {
            assert!(!address.is_multicast() && mac[0] & 1 == 0);
        }
        FrameKind::Ignored(_) => {}
    }
}
