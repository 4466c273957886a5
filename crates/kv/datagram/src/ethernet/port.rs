//! A host at a port that DPDK drives: one queue of it, for one thread.

use std::net::Ipv4Addr;
use std::path::Path;

use overside_backend_dpdk::DpdkError;
use overside_backend_dpdk::ethernet::{
    BURST, Checksums, EthernetPort, EthernetQueue, ReceivedFrame,
};
use serde::{Deserialize, Serialize};

use super::frame::Checked;
use super::host::{self, FrameKind, Host, HostRequest};
use super::{IPV4_BYTES, Ignored, UDP_BYTES};
use crate::udp::Sent;

/// Fewest bytes of a frame without its check sum; cards fill up shorter ones, others may not.
const FRAME_MIN_BYTES: usize = 60;

/// A port that DPDK drives, and the address of the host that this program is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSettings {
    /// DPDK's name of the device, and arguments for its driver: `net_memif0,role=server,socket=/run/kv.sock`.
    pub device: String,
    /// The address.
    pub address: Ipv4Addr,
}

impl PortSettings {
    /// The file at which others connect to the port, if it is the listening end of a memif with one.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        let (device, arguments) = self.device.split_once(',')?;
        let value = |name| {
            let mut all = arguments.split(',').filter_map(|one| one.split_once('='));
            all.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let listens = value("role").is_some_and(|role| role == "server" || role == "master");
        let is_file = device.starts_with("net_memif") && value("socket-abstract") != Some("yes");
        value("socket").filter(|_| listens && is_file).map(Path::new)
    }
}

/// Maximum memory of a port with `queues` queues of `rx_queue` receive descriptors, frames and DPDK included.
#[must_use]
pub fn memory_bytes(queues: usize, rx_queue: usize) -> u64 {
    // shim/ethernet.c sets the numbers for a queue; the drivers need as much again.
    const FRAME_BYTES: u64 = 2_688;
    const FRAMES: u64 = 2_048;
    const ENVIRONMENT_BYTES: u64 = 64 << 20;
    ENVIRONMENT_BYTES + 2 * queues as u64 * (FRAMES + rx_queue as u64) * FRAME_BYTES
}

overside_kv_store::counts! {
    /// Frames of a port since the start. Those that were missed, had no buffer or were not sent are the device's counts.
    pub struct FrameCounts {
        links: "frames_links" = "Ports that have a link.",
        received: "frames_received" = "Frames received.",
        questions: "frames_questions" = "ARP and ICMP echo requests that were answered.",
        not_for_us: "frames_not_for_us" = "Frames for other hosts, or of protocols that the port does not support.",
        fragments: "frames_fragments" = "Frames dropped because they are fragments of IPv4 packets.",
        checksums: "frames_checksum_errors" = "Frames dropped because a checksum is wrong.",
        malformed: "frames_malformed" = "Frames dropped because lengths contradict each other.",
        handed_over: "frames_handed_over" = "Frames handed over to the core that has their keys.",
        handover_dropped: "frames_handover_dropped" = "Frames dropped because that core had too many.",
        missed: "frames_missed" = "Frames dropped by the device because no receive descriptor was free.",
        no_buffer: "frames_no_buffer" = "Frames dropped by the driver because no buffer was free.",
        unsent: "frames_unsent" = "Frames that the device could not send.",
    }
}

impl FrameCounts {
    fn ignore(&mut self, reason: Ignored) {
        *match reason {
            Ignored::NotForUs => &mut self.not_for_us,
            Ignored::Fragment => &mut self.fragments,
            Ignored::Checksum => &mut self.checksums,
            Ignored::Malformed => &mut self.malformed,
        } += 1;
    }
}

/// A queue of the port, and the host.
#[derive(Debug)]
pub struct HostQueue {
    /// Queue of the port.
    pub queue: EthernetQueue,
    /// Addresses of this end.
    pub host: Host,
    /// Maximum number of bytes in a datagram's payload.
    payload_max_bytes: usize,
}

/// Opens a port with `queues` queues.
pub fn open(
    settings: &PortSettings,
    queues: usize,
    rx_queue: usize,
) -> Result<Vec<HostQueue>, DpdkError> {
    // The greatest that an index of DPDK can be is more than any machine has cores.
    let count = u16::try_from(queues).unwrap_or(u16::MAX);
    let descriptors = u16::try_from(rx_queue).unwrap_or(u16::MAX);
    let (port, queues) = EthernetPort::open(&settings.device, count, descriptors)?;
    let info = port.info();
    let host = Host { mac: info.mac, address: settings.address };
    let headers = IPV4_BYTES + UDP_BYTES;
    let payload_max_bytes = usize::from(info.mtu).saturating_sub(headers);
    let queue = |queue| HostQueue { queue, host, payload_max_bytes };
    Ok(queues.into_iter().map(queue).collect())
}

impl HostQueue {
    /// Longest datagram that goes into a frame.
    pub fn payload_max_bytes(&self) -> usize {
        self.payload_max_bytes
    }

    /// Appends received frames, up to a maximum. Returns `true` if there may be more.
    pub fn receive(&mut self, frames: &mut Vec<ReceivedFrame>) -> bool {
        self.queue.receive(frames) == BURST
    }

    /// Classifies a frame and counts it. Requests are answered by [`Self::reply`].
    pub fn look<'f>(&self, frame: &'f ReceivedFrame, counts: &mut FrameCounts) -> FrameKind<'f> {
        let checked = match frame.checksums() {
            Checksums::Unknown => Checked::No,
            Checksums::Good => Checked::Good,
            Checksums::Bad => Checked::Bad,
        };
        let kind = self.host.receive(frame, checked);
        match kind {
            FrameKind::Ignored(reason) => counts.ignore(reason),
            FrameKind::HostRequest(_) => counts.questions += 1,
            FrameKind::Datagram(_) | FrameKind::Neighbor(..) => {}
        }
        kind
    }

    /// Answers a request.
    pub fn reply(&mut self, question: &HostRequest<'_>) {
        let host = self.host;
        self.write(|frame| host.write_reply(question, frame));
    }

    /// Sends an ARP request for an address, or an announcement of the host's own address.
    pub fn ask(&mut self, address: Ipv4Addr) {
        let host = self.host;
        self.write(|frame| host.write_arp_request(address, frame));
        self.queue.flush();
    }

    fn write(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) {
        self.queue.send(|frame| {
            let len = write(frame.bytes)?;
            Some((fill_up(frame.bytes, len), None))
        });
    }

    /// Sends datagrams that are concatenated in `bytes`; each has the number of its receiver, and its end.
    /// `path` returns the path of a number. Does not wait: datagrams without room fail.
    pub fn send<'p>(
        &mut self,
        bytes: &[u8],
        ends: &[(u32, usize)],
        path: impl Fn(u32) -> &'p host::Path,
    ) -> Sent {
        let (host, mut begin, mut frames, mut sent_bytes) = (self.host, 0, (0, 0), 0);
        for (to, end) in ends {
            let datagram = &bytes[begin..*end];
            begin = *end;
            if datagram.len() > self.payload_max_bytes {
                frames.1 += 1;
                continue;
            }
            sent_bytes += datagram.len();
            let path = path(*to);
            let (sent, failed) = self.queue.send(|frame| {
                let offloads = frame.has_offloads;
                let len = host.write_datagram(path, datagram, offloads, frame.bytes)?;
                let ip_at = 14 + path.vlan.map_or(0, |_| 4);
                Some((fill_up(frame.bytes, len), offloads.then_some(ip_at)))
            });
            frames = (frames.0 + sent, frames.1 + failed);
        }
        let (sent, failed) = self.queue.flush();
        frames = (frames.0 + sent, frames.1 + failed);
        Sent { datagrams: frames.0 as u64, bytes: sent_bytes as u64, failed: frames.1 as u64 }
    }
}

/// Makes a short frame as long as one must be.
fn fill_up(frame: &mut [u8], len: usize) -> usize {
    if len < FRAME_MIN_BYTES
        && let Some(rest) = frame.get_mut(len..FRAME_MIN_BYTES)
    {
        rest.fill(0);
        return FRAME_MIN_BYTES;
    }
    len
}
