//! The system calls: recvmmsg(2), sendmmsg(2), and socket options that have no safe wrapper.

#![allow(unsafe_code)]

use std::fmt;
use std::io::{self, IoSlice};
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;

use libc::{
    c_int, c_void, cmsghdr, iovec, mmsghdr, sock_filter, sock_fprog, sockaddr_storage, socklen_t,
};

use super::SocketMemory;

/// Messages of one system call.
pub(super) const MESSAGES: usize = 32;
/// Longest message.
const MESSAGE_BYTES: usize = 64 << 10;
/// Memory of [`ReceiveBuffers`].
pub const RECEIVE_BYTES: usize = MESSAGES * MESSAGE_BYTES;

/// The accumulator, as a filter's result (linux/filter.h).
const BPF_A: u32 = 0x10;

/// Memory of control messages, with their alignment; longer than any that is requested here.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 64]);

/// An address as the system has it.
#[derive(Clone, Copy)]
pub struct Peer {
    storage: sockaddr_storage,
    len: socklen_t,
}

impl Peer {
    const NOBODY: Self = Self {
        // SAFETY: all zeros is an address of no family.
        storage: unsafe { zeroed() },
        len: 0,
    };

    /// The address; `None`: of another family than IPv4 and IPv6.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        let storage = ptr::from_ref(&self.storage);
        let is_of = |family: c_int, len: usize| {
            c_int::from(self.storage.ss_family) == family && self.len as usize >= len
        };
        if is_of(libc::AF_INET, size_of::<libc::sockaddr_in>()) {
            // SAFETY: the family says that it is this; it is as long and as aligned as any address.
            let v4 = unsafe { &*storage.cast::<libc::sockaddr_in>() };
            let ip = u32::from_be(v4.sin_addr.s_addr).into();
            return Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into());
        }
        if is_of(libc::AF_INET6, size_of::<libc::sockaddr_in6>()) {
            // SAFETY: as above.
            let v6 = unsafe { &*storage.cast::<libc::sockaddr_in6>() };
            let ip = v6.sin6_addr.s6_addr.into();
            let port = u16::from_be(v6.sin6_port);
            return Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into());
        }
        None
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        let mut peer = Self::NOBODY;
        let storage = ptr::from_mut(&mut peer.storage);
        let len = match address {
            SocketAddr::V4(address) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as _,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                    sin_zero: [0; 8],
                };
                // SAFETY: there is room for any address, aligned for it.
                unsafe { storage.cast::<libc::sockaddr_in>().write(v4) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(address) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as _,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                // SAFETY: as above.
                unsafe { storage.cast::<libc::sockaddr_in6>().write(v6) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        peer.len = len as socklen_t;
        peer
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}

/// Memory for messages that are received, and those that were last.
pub struct ReceiveBuffers {
    memory: Box<[u8]>,
    /// Length of each message, and of its datagrams, in bytes.
    lens: [(usize, usize); MESSAGES],
    peers: Box<[Peer; MESSAGES]>,
    count: usize,
}

/// A datagram, or several of equal length but for the last, from one sender.
#[derive(Clone, Copy, Debug)]
pub struct Received<'b> {
    /// Bytes of the datagrams.
    pub bytes: &'b [u8],
    /// Length of each; at least 1.
    pub segment: usize,
    /// Sender of the datagrams.
    pub peer: &'b Peer,
}

impl<'b> Received<'b> {
    /// The datagrams; none if it is empty.
    pub fn datagrams(&self) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        self.bytes.chunks(self.segment)
    }
}

impl fmt::Debug for ReceiveBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReceiveBuffers({} messages)", self.count)
    }
}

impl Default for ReceiveBuffers {
    fn default() -> Self {
        Self::new()
    }
}

impl ReceiveBuffers {
    /// Makes a buffer without messages. It reserves 2 MiB, which are only used as far as messages arrive.
    #[must_use]
    pub fn new() -> Self {
        Self {
            memory: vec![0; RECEIVE_BYTES].into(),
            lens: [(0, 1); MESSAGES],
            peers: Box::new([Peer::NOBODY; MESSAGES]),
            count: 0,
        }
    }

    /// Returns `true` if the last receive filled all buffers, so that more messages may wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count == MESSAGES
    }

    /// Returns the messages of the last receive.
    pub fn received(&self) -> impl Iterator<Item = Received<'_>> {
        let all = self.memory.chunks(MESSAGE_BYTES).zip(&self.lens);
        let all = all.zip(self.peers.iter()).take(self.count);
        all.map(|((memory, (len, segment)), peer)| Received {
            bytes: &memory[..*len],
            segment: *segment,
            peer,
        })
    }

    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.count = 0;
        let mut controls = [Control([0; 64]); MESSAGES];
        // SAFETY: null pointers and zero lengths are valid for all of these structures.
        let mut iovecs: [iovec; MESSAGES] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut headers: [mmsghdr; MESSAGES] = unsafe { zeroed() };
        let memory = self.memory.chunks_mut(MESSAGE_BYTES);
        let all = memory.zip(&mut iovecs).zip(&mut headers);
        let all = all.zip(self.peers.iter_mut()).zip(&mut controls);
        for ((((memory, iovec), header), peer), control) in all {
            iovec.iov_base = memory.as_mut_ptr().cast();
            iovec.iov_len = memory.len();
            header.msg_hdr.msg_name = ptr::from_mut(&mut peer.storage).cast();
            header.msg_hdr.msg_namelen = size_of::<sockaddr_storage>() as socklen_t;
            header.msg_hdr.msg_iov = iovec;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = control.0.len() as _;
        }
        // SAFETY: every header points to memory of `self` or of this function that nothing else uses
        // meanwhile, with its length; their number is passed.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                MESSAGES as _,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        let count = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (index, header) in headers[..count].iter().enumerate() {
            let len = (header.msg_len as usize).min(MESSAGE_BYTES);
            self.peers[index].len = header.msg_hdr.msg_namelen;
            self.lens[index] = (len, segment(header).unwrap_or(len).max(1));
        }
        self.count = count;
        Ok(count)
    }
}

/// Returns the length of the datagrams in a message; `None` if it is a single one.
fn segment(header: &mmsghdr) -> Option<usize> {
    let message = &header.msg_hdr;
    // SAFETY: the kernel has written whole control messages, `msg_controllen` bytes of them, into memory
    // that is aligned for them; the macros stay within.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = control.as_ref() {
            if found.cmsg_level == libc::SOL_UDP && found.cmsg_type == libc::UDP_GRO {
                let data = libc::CMSG_DATA(control).cast::<c_int>();
                return usize::try_from(data.read_unaligned()).ok();
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
    }
    None
}

/// Message to be sent.
#[derive(Clone, Copy)]
pub(super) struct Outgoing<'b, 'p> {
    /// Bytes of the message in pieces; an `IoSlice` is an `iovec`.
    pub pieces: &'b [IoSlice<'b>],
    /// Length of its datagrams, and how many it has.
    pub segment: usize,
    pub count: usize,
    /// `None`: whom the socket is connected with.
    pub peer: Option<&'p Peer>,
}

/// Sends messages, at most [`MESSAGES`]. Returns the number sent, from the first on, at least one.
pub(super) fn send(socket: BorrowedFd<'_>, messages: &[Outgoing<'_, '_>]) -> io::Result<usize> {
    let mut controls = [Control([0; 64]); MESSAGES];
    // SAFETY: null pointers and zero lengths are valid for all of this structure.
    let mut headers: [mmsghdr; MESSAGES] = unsafe { zeroed() };
    let all = messages.iter().zip(&mut headers).zip(&mut controls);
    for ((message, header), control) in all {
        let header = &mut header.msg_hdr;
        header.msg_iov = message.pieces.as_ptr().cast_mut().cast();
        header.msg_iovlen = message.pieces.len() as _;
        if let Some(peer) = message.peer {
            header.msg_name = ptr::from_ref(&peer.storage).cast_mut().cast();
            header.msg_namelen = peer.len;
        }
        if message.count > 1 {
            set_segment(control, message.segment as u16);
            header.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: only computes a length.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as _) } as _;
        }
    }
    // SAFETY: every header points to memory that lives until the call returns, and which the kernel only
    // reads; there are as many as is said.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            messages.len().min(MESSAGES) as _,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Writes the control message that has the kernel divide a message.
fn set_segment(control: &mut Control, segment: u16) {
    let header = control.0.as_mut_ptr().cast::<cmsghdr>();
    // SAFETY: the memory is longer than a header and a number of 16 bits, and aligned for both.
    unsafe {
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as _) as _;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(segment);
    }
}

/// Chooses the socket of an address by a byte of the datagram, modulo their number, with a program
/// of the classic Berkeley packet filter (socket(7), `SO_ATTACH_REUSEPORT_CBPF`).
pub(super) fn steer(socket: &impl AsFd, byte: u32, count: u32) -> io::Result<()> {
    let step = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut program = [
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, byte),
        step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count),
        step(libc::BPF_RET | BPF_A, 0),
    ];
    let program = sock_fprog { len: program.len() as _, filter: program.as_mut_ptr() };
    // The kernel copies the program.
    set_option(socket, (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF), &program)
}

/// Makes the system deliver trains as one message.
pub(super) fn enable_receive_offload(socket: &impl AsFd) -> io::Result<()> {
    let on: c_int = 1;
    set_option(socket, (libc::SOL_UDP, libc::UDP_GRO), &on)
}

fn set_option<T>(socket: &impl AsFd, (level, name): (c_int, c_int), value: &T) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads as many bytes as `value` has, which lives until the call returns. Where it
    // follows pointers in there (a filter's program), the caller keeps alive what they point to.
    let result = unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            ptr::from_ref(value).cast::<c_void>(),
            size_of::<T>() as socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the fill level and size of a socket's receive queue, and the number of datagrams that it
/// has lost.
pub(super) fn memory(socket: &impl AsFd) -> io::Result<SocketMemory> {
    const COUNT: usize = libc::SK_MEMINFO_DROPS as usize + 1;
    let mut values = [0_u32; COUNT];
    let mut len = size_of::<[u32; COUNT]>() as socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes numbers of this type, as many as `len` says at most.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    match result {
        0 => Ok(SocketMemory {
            backlog_bytes: values[libc::SK_MEMINFO_RMEM_ALLOC as usize].into(),
            queue_bytes: values[libc::SK_MEMINFO_RCVBUF as usize].into(),
            dropped: values[libc::SK_MEMINFO_DROPS as usize].into(),
        }),
        _ => Err(io::Error::last_os_error()),
    }
}
