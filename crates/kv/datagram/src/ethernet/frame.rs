//! Frames of Ethernet and their contents, as far as they are of use here.

use std::net::Ipv4Addr;

use super::checksum::{Sum, pseudo_header};
use super::{IPV4_BYTES, UDP_BYTES};

/// A hardware address.
pub type Mac = [u8; 6];

pub(super) const BROADCAST: Mac = [0xff; 6];
pub(super) const ETHER_IPV4: u16 = 0x0800;
pub(super) const ETHER_ARP: u16 = 0x0806;
pub(super) const ETHER_VLAN: u16 = 0x8100;
pub(super) const PROTOCOL_ICMP: u8 = 1;
pub(super) const PROTOCOL_UDP: u8 = 17;
pub(super) const ARP_BYTES: usize = 28;
pub(super) const ICMP_BYTES: usize = 8;
pub(super) const ICMP_ECHO: u8 = 8;

/// Result of checking the checksums of a frame before it is parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checked {
    /// The checksums were not checked.
    #[default]
    No,
    /// The device: those of IPv4 and UDP are right.
    Good,
    /// The device reports that one is wrong.
    Bad,
}

/// Reason why a frame is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// The frame is for another host, or of a protocol that is not spoken here.
    NotForUs,
    /// A part of an IPv4 packet.
    Fragment,
    /// A checksum is wrong.
    Checksum,
    /// Lengths contradict each other.
    Malformed,
}

/// The outermost header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ethernet<'f> {
    pub destination: Mac,
    pub source: Mac,
    /// Priority and number of the VLAN, if it has a tag.
    pub vlan: Option<u16>,
    pub ether_type: u16,
    pub payload: &'f [u8],
}

impl<'f> Ethernet<'f> {
    pub(super) fn parse(frame: &'f [u8]) -> Result<Self, Ignored> {
        let (destination, rest) = split::<6>(frame)?;
        let (source, rest) = split::<6>(rest)?;
        let (ether_type, payload) = split_u16(rest)?;
        let (vlan, ether_type, payload) = match ether_type {
            ETHER_VLAN => {
                let (tag, rest) = split_u16(payload)?;
                let (ether_type, payload) = split_u16(rest)?;
                (Some(tag), ether_type, payload)
            }
            ether_type => (None, ether_type, payload),
        };
        Ok(Self { destination: *destination, source: *source, vlan, ether_type, payload })
    }
}

/// ARP message of Ethernet and IPv4: `sender` requests the hardware address of `target`, or reports its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arp {
    pub is_request: bool,
    pub sender_mac: Mac,
    pub sender: Ipv4Addr,
    pub target: Ipv4Addr,
}

/// Ethernet, IPv4, and lengths of their addresses.
pub(super) const ARP_KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];

impl Arp {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, Ignored> {
        let (bytes, _) = split::<ARP_BYTES>(payload)?;
        let operation = u16::from_be_bytes([bytes[6], bytes[7]]);
        if bytes[..6] != ARP_KIND || !(1..=2).contains(&operation) {
            return Err(Ignored::NotForUs);
        }
        let address =
            |at: usize| Ipv4Addr::from([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Ok(Self {
            is_request: operation == 1,
            sender_mac: std::array::from_fn(|byte| bytes[8 + byte]),
            sender: address(14),
            target: address(24),
        })
    }
}

/// A whole packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ipv4<'f> {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub protocol: u8,
    pub payload: &'f [u8],
}

impl<'f> Ipv4<'f> {
    pub(super) fn parse(payload: &'f [u8], checked: Checked) -> Result<Self, Ignored> {
        let (header, _) = split::<IPV4_BYTES>(payload)?;
        let header_len = usize::from(header[0] & 0xf) * 4;
        let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if header[0] >> 4 != 4 {
            return Err(Ignored::NotForUs);
        }
        // What is behind the packet fills up a short frame.
        let packet = payload.get(..total_len).ok_or(Ignored::Malformed)?;
        if header_len < IPV4_BYTES || header_len > packet.len() {
            return Err(Ignored::Malformed);
        }
        let is_right = match checked {
            Checked::Good => true,
            Checked::Bad => false,
            Checked::No => Sum::default().add(&packet[..header_len]).folded() == 0xffff,
        };
        if !is_right {
            return Err(Ignored::Checksum);
        }
        const MORE_FRAGMENTS_AND_OFFSET: u16 = 0x3fff;
        if u16::from_be_bytes([header[6], header[7]]) & MORE_FRAGMENTS_AND_OFFSET != 0 {
            return Err(Ignored::Fragment);
        }
        let address = |at: usize| {
            Ipv4Addr::from([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        Ok(Self {
            source: address(12),
            destination: address(16),
            protocol: header[9],
            payload: &packet[header_len..],
        })
    }
}

/// A datagram with its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Udp<'f> {
    pub source: u16,
    pub destination: u16,
    pub payload: &'f [u8],
}

impl<'f> Udp<'f> {
    pub(super) fn parse(ip: &Ipv4<'f>, checked: Checked) -> Result<Self, Ignored> {
        let (header, _) = split::<UDP_BYTES>(ip.payload)?;
        let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let len = number(4);
        let all = ip.payload.get(..usize::from(len)).ok_or(Ignored::Malformed)?;
        let payload = all.get(UDP_BYTES..).ok_or(Ignored::Malformed)?;
        let checksum = number(6);
        // 0: its sender has made none.
        if checked == Checked::No && checksum != 0 {
            let pseudo = pseudo_header(ip.source.octets(), ip.destination.octets(), len);
            // A kernel on this machine leaves the rest to a device which is none (CHECKSUM_PARTIAL).
            let is_partial = checksum == pseudo.folded();
            if !is_partial && pseudo.add(all).folded() != 0xffff {
                return Err(Ignored::Checksum);
            }
        }
        Ok(Self { source: number(0), destination: number(2), payload })
    }
}

pub(super) fn split<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), Ignored> {
    bytes.split_first_chunk::<N>().ok_or(Ignored::Malformed)
}

fn split_u16(bytes: &[u8]) -> Result<(u16, &[u8]), Ignored> {
    let (number, rest) = split::<2>(bytes)?;
    Ok((u16::from_be_bytes(*number), rest))
}
