//! Classification of the frames that reach this host.

use std::net::Ipv4Addr;

use super::checksum::Sum;
use super::frame::{
    Arp, BROADCAST, Checked, ETHER_ARP, ETHER_IPV4, Ethernet, ICMP_BYTES, ICMP_ECHO, Ignored, Ipv4,
    Mac, PROTOCOL_ICMP, PROTOCOL_UDP, Udp,
};

/// A host on an Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Hardware address of the host.
    pub mac: Mac,
    /// IPv4 address of the host.
    pub address: Ipv4Addr,
}

/// Path on which a datagram arrived and its reply is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The other side's hardware address.
    pub mac: Mac,
    /// Priority and number of the VLAN, if frames have a tag.
    pub vlan: Option<u16>,
    /// The other side's address.
    pub address: Ipv4Addr,
    /// UDP port of the other side.
    pub port: u16,
    /// The port here.
    pub local_port: u16,
}

/// A datagram for this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'f> {
    /// Path by which it came.
    pub path: Path,
    /// Bytes behind the UDP header.
    pub payload: &'f [u8],
}

/// Frame that [`Host::write_reply`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostRequest<'f> {
    /// A request for the hardware address that belongs to this host's address.
    Arp {
        /// Hardware address of the sender.
        mac: Mac,
        /// Protocol address of the sender.
        address: Ipv4Addr,
        /// The VLAN.
        vlan: Option<u16>,
    },
    /// Echo request to this host.
    Echo {
        /// Path to the sender, without ports.
        path: Path,
        /// Bytes to send back: the message from behind its checksum on.
        message: &'f [u8],
    },
}

/// Kind of a frame, with its parsed content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind<'f> {
    /// A datagram.
    Datagram(Datagram<'f>),
    /// Request of ARP or ICMP that must be answered.
    HostRequest(HostRequest<'f>),
    /// A reply that reports another host's hardware address.
    Neighbor(Ipv4Addr, Mac),
    /// A frame that is ignored.
    Ignored(Ignored),
}

impl Host {
    /// Looks at a frame.
    #[must_use]
    pub fn receive<'f>(&self, frame: &'f [u8], checked: Checked) -> FrameKind<'f> {
        let kind = Ethernet::parse(frame).and_then(|ethernet| self.dispatch(&ethernet, checked));
        kind.unwrap_or_else(FrameKind::Ignored)
    }

    fn dispatch<'f>(
        &self,
        ethernet: &Ethernet<'f>,
        checked: Checked,
    ) -> Result<FrameKind<'f>, Ignored> {
        let is_for_us = ethernet.destination == self.mac;
        // A sender's address is never a group's. A TAP interface has the same one at both of its ends.
        let is_from_one = ethernet.source[0] & 1 == 0;
        match ethernet.ether_type {
            _ if !is_from_one => Err(Ignored::NotForUs),
            ETHER_ARP if is_for_us || ethernet.destination == BROADCAST => self.arp(ethernet),
            ETHER_IPV4 if is_for_us => self.ipv4(ethernet, checked),
            _ => Err(Ignored::NotForUs),
        }
    }

    fn arp<'f>(&self, ethernet: &Ethernet<'_>) -> Result<FrameKind<'f>, Ignored> {
        let arp = Arp::parse(ethernet.payload)?;
        let is_host = is_unicast(arp.sender) && arp.sender_mac[0] & 1 == 0;
        match arp.is_request {
            // A probe from 0.0.0.0 checks if the address is free (RFC 5227).
            true if arp.target == self.address && arp.sender != self.address => {
                Ok(FrameKind::HostRequest(HostRequest::Arp {
                    mac: ethernet.source,
                    address: arp.sender,
                    vlan: ethernet.vlan,
                }))
            }
            false if is_host => Ok(FrameKind::Neighbor(arp.sender, arp.sender_mac)),
            _ => Err(Ignored::NotForUs),
        }
    }

    fn ipv4<'f>(
        &self,
        ethernet: &Ethernet<'f>,
        checked: Checked,
    ) -> Result<FrameKind<'f>, Ignored> {
        let ip = Ipv4::parse(ethernet.payload, checked)?;
        if ip.destination != self.address || ip.source == self.address || !is_unicast(ip.source) {
            return Err(Ignored::NotForUs);
        }
        let mut path = Path {
            mac: ethernet.source,
            vlan: ethernet.vlan,
            address: ip.source,
            port: 0,
            local_port: 0,
        };
        match ip.protocol {
            PROTOCOL_UDP => {
                let udp = Udp::parse(&ip, checked)?;
                // Port 0 is invalid.
                if udp.source == 0 || udp.destination == 0 {
                    return Err(Ignored::NotForUs);
                }
                (path.port, path.local_port) = (udp.source, udp.destination);
                Ok(FrameKind::Datagram(Datagram { path, payload: udp.payload }))
            }
            PROTOCOL_ICMP => echo(path, ip.payload),
            _ => Err(Ignored::NotForUs),
        }
    }
}

fn echo(path: Path, icmp: &[u8]) -> Result<FrameKind<'_>, Ignored> {
    if icmp.len() < ICMP_BYTES {
        return Err(Ignored::Malformed);
    }
    match Sum::default().add(icmp).folded() {
        0xffff if icmp[..2] == [ICMP_ECHO, 0] => {
            Ok(FrameKind::HostRequest(HostRequest::Echo { path, message: &icmp[4..] }))
        }
        0xffff => Err(Ignored::NotForUs),
        _ => Err(Ignored::Checksum),
    }
}

/// Returns `true` if it can be the address of one host: replies are sent to no others.
fn is_unicast(address: Ipv4Addr) -> bool {
    let is_reserved = address.octets()[0] >= 240;
    let is_none = address.octets()[0] == 0 || address.is_loopback();
    !(address.is_multicast() || is_reserved || is_none)
}
