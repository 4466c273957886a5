//! Frames that are sent.

use std::net::Ipv4Addr;

use super::checksum::{Sum, pseudo_header};
use super::frame::{
    ARP_BYTES, ARP_KIND, BROADCAST, ETHER_ARP, ETHER_IPV4, ETHER_VLAN, Mac, PROTOCOL_ICMP,
    PROTOCOL_UDP,
};
use super::host::{Host, HostRequest, Path};
use super::{IPV4_BYTES, UDP_BYTES};

const TIME_TO_LIVE: u8 = 64;
const DONT_FRAGMENT: u16 = 0x4000;
const ARP_REQUEST: u16 = 1;
const ARP_REPLY: u16 = 2;

/// Writer of bytes into a frame. If they do not fit, they are dropped and no frame is sent.
struct Writer<'b> {
    bytes: &'b mut [u8],
    len: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    fn put_u16(&mut self, number: u16) {
        self.put(&number.to_be_bytes());
    }

    fn ethernet(&mut self, from: Mac, to: Mac, vlan: Option<u16>, ether_type: u16) {
        self.put(&to);
        self.put(&from);
        if let Some(tag) = vlan {
            self.put_u16(ETHER_VLAN);
            self.put_u16(tag);
        }
        self.put_u16(ether_type);
    }

    /// Writes a header without options. Computes its checksum if `checksum` is `true`.
    fn ipv4(&mut self, ends: (Ipv4Addr, Ipv4Addr), protocol: u8, len: u16, checksum: bool) {
        let mut header = [0; IPV4_BYTES];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&(IPV4_BYTES as u16 + len).to_be_bytes());
        header[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
        header[8] = TIME_TO_LIVE;
        header[9] = protocol;
        header[12..16].copy_from_slice(&ends.0.octets());
        header[16..].copy_from_slice(&ends.1.octets());
        if checksum {
            let sum = Sum::default().add(&header).checksum();
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        self.put(&header);
    }

    /// The length of the frame, if it has found room.
    fn end(self) -> Option<usize> {
        (self.len <= self.bytes.len()).then_some(self.len)
    }
}

impl Host {
    /// Writes a datagram. `offloads`: the device fills in the checksums. The length of the frame; `None`: it does not
    /// fit.
    pub fn write_datagram(
        &self,
        path: &Path,
        payload: &[u8],
        offloads: bool,
        frame: &mut [u8],
    ) -> Option<usize> {
        let len = u16::try_from(UDP_BYTES + payload.len()).ok()?;
        len.checked_add(IPV4_BYTES as u16)?;
        let mut writer = Writer { bytes: frame, len: 0 };
        writer.ethernet(self.mac, path.mac, path.vlan, ETHER_IPV4);
        let ends = (self.address, path.address);
        writer.ipv4(ends, PROTOCOL_UDP, len, !offloads);
        let mut header = [0; UDP_BYTES];
        header[..2].copy_from_slice(&path.local_port.to_be_bytes());
        header[2..4].copy_from_slice(&path.port.to_be_bytes());
        header[4..6].copy_from_slice(&len.to_be_bytes());
        let pseudo = pseudo_header(ends.0.octets(), ends.1.octets(), len);
        let checksum = match offloads {
            true => pseudo.folded(),
            // 0 would say that there is none.
            false => match pseudo.add(&header).add(payload).checksum() {
                0 => 0xffff,
                sum => sum,
            },
        };
        header[6..].copy_from_slice(&checksum.to_be_bytes());
        writer.put(&header);
        writer.put(payload);
        writer.end()
    }

    /// Answers a request. Returns the length of the frame; `None` if it does not fit.
    pub fn write_reply(&self, question: &HostRequest<'_>, frame: &mut [u8]) -> Option<usize> {
        let mut writer = Writer { bytes: frame, len: 0 };
        match question {
            HostRequest::Arp { mac, address, vlan } => {
                writer.ethernet(self.mac, *mac, *vlan, ETHER_ARP);
                self.put_arp(&mut writer, ARP_REPLY, (*mac, *address));
            }
            HostRequest::Echo { path, message } => {
                // Type and code of a reply are 0.
                let checksum = Sum::default().add(message).checksum();
                let len = u16::try_from(4 + message.len()).ok()?;
                len.checked_add(IPV4_BYTES as u16)?;
                writer.ethernet(self.mac, path.mac, path.vlan, ETHER_IPV4);
                writer.ipv4((self.address, path.address), PROTOCOL_ICMP, len, true);
                writer.put_u16(0);
                writer.put_u16(checksum);
                writer.put(message);
            }
        }
        writer.end()
    }

    /// Writes an ARP request for an address; for its own address, an announcement (RFC 5227).
    pub fn write_arp_request(&self, address: Ipv4Addr, frame: &mut [u8]) -> Option<usize> {
        let mut writer = Writer { bytes: frame, len: 0 };
        writer.ethernet(self.mac, BROADCAST, None, ETHER_ARP);
        self.put_arp(&mut writer, ARP_REQUEST, ([0; 6], address));
        writer.end()
    }

    fn put_arp(&self, writer: &mut Writer<'_>, operation: u16, target: (Mac, Ipv4Addr)) {
        let begin = writer.len;
        writer.put(&ARP_KIND);
        writer.put_u16(operation);
        writer.put(&self.mac);
        writer.put(&self.address.octets());
        writer.put(&target.0);
        writer.put(&target.1.octets());
        debug_assert_eq!(writer.len - begin, ARP_BYTES);
    }
}
