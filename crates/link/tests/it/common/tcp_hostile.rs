//! A peer over TCP that does as it likes: it knows the protocol, and need not keep to it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use overside_link::control::frame::{Carrier, Frame};
use overside_link::tcp::{Listener, TcpEndpoint};
use overside_link::verbs::{
    Access, Endpoint, Exported, Inbox, LinkConfig, Lost, QueuePair, Side, Verb, Work,
};

/// A small end, which is what is attacked.
pub fn config() -> LinkConfig {
    LinkConfig {
        depth: 4,
        max_message_bytes: 256,
        ..LinkConfig::new(Side::Host)
    }
}

pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// The attacker's connections, once it has been let in.
pub struct Peer {
    pub control: TcpStream,
    pub data: TcpStream,
}

fn open(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the victim listens");
    let timeout = Some(Duration::from_secs(5));
    stream.set_read_timeout(timeout).expect("a timeout");
    stream.set_write_timeout(timeout).expect("a timeout");
    stream.set_nodelay(true).expect("no delay");
    stream
}

pub fn say(stream: &mut TcpStream, frame: &Frame) {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    // The victim may have hung up.
    let _ = stream.write_all(&bytes);
}

fn hear(stream: &mut TcpStream) -> Frame {
    let mut bytes = Vec::new();
    let mut one = [0];
    loop {
        stream.read_exact(&mut one).expect("the victim's word");
        bytes.push(one[0]);
        if let Some((frame, _)) = Frame::parse(&bytes).expect("a frame") {
            return frame;
        }
    }
}

/// A victim, with an attacker that has kept to the protocol so far.
pub fn victim() -> (TcpEndpoint, Peer) {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let address = listener.address();
    let attacker = std::thread::spawn(move || {
        let mut control = open(address);
        let hello = Frame::Hello {
            carrier: Carrier::Tcp,
            side: Side::Dpu,
            patience_ms: 5000,
            secret: [0; 16],
        };
        say(&mut control, &hello);
        let Frame::Welcome { decision, .. } = hear(&mut control) else {
            panic!("no welcome");
        };
        let mut data = open(address);
        let link = decision.link;
        say(&mut data, &Frame::Attach { link, index: 0 });
        assert_eq!(hear(&mut control), Frame::Ready);
        Peer { control, data }
    });
    let end = listener.accept(&config(), soon()).expect("a peer");
    (end, attacker.join().expect("the attacker is in"))
}

/// Uses the queue pair as a program does, until nothing has happened for a while or it is lost.
pub fn use_up(pair: &mut dyn QueuePair) -> Result<Inbox, Lost> {
    let (mut inbox, mut quiet) = (Inbox::new(), 0);
    let begin = Instant::now();
    while quiet < 20 {
        assert!(begin.elapsed() < Duration::from_secs(10), "it never ends");
        let (mut done, before) = (Vec::new(), inbox.len());
        let polled = pair.poll(&mut done, 8)?;
        for completion in &done {
            assert!(completion.result.as_ref().map_or(0, |len| *len) <= 4096);
        }
        let received = pair.receive(&mut inbox, 8)?;
        assert_eq!(inbox.len(), before + received);
        // What is received is what was agreed on.
        assert!(
            inbox
                .iter()
                .all(|message| (1..=256).contains(&message.len()))
        );
        if inbox.len() > 1000 {
            inbox.clear();
        }
        match polled + received {
            0 => {
                quiet += 1;
                std::thread::sleep(Duration::from_micros(20));
            }
            _ => quiet = 0,
        }
    }
    Ok(inbox)
}

/// A region of the victim's between two that the attacker knows nothing of.
pub fn exports(end: &TcpEndpoint) -> [Exported; 3] {
    let access = [Access::Read, Access::ReadWrite, Access::Read];
    access.map(|access| {
        let exported = end.export(4096, access).expect("memory");
        exported.write(0, &[0x5A; 4096]).expect("all of it");
        exported
    })
}

/// The key that a token carries.
pub fn key(exported: &Exported) -> [u8; 8] {
    let token = exported.token().as_bytes();
    token[token.len() - 8..].try_into().expect("eight bytes")
}

/// Any bytes, on the connection of a queue pair or on the one beside it: the first says which. In
/// reads and writes of the region 1 the victim's own takes its place.
pub fn session(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else {
        return;
    };
    let (end, mut peer) = victim();
    let mut pair = end.open(0).expect("a queue pair");
    let exported = exports(&end);
    let into = end.alloc(100, 8).expect("memory");
    let waiting = Work::new(1, Verb::Receive { into });
    if first & 1 == 1 {
        let _ = pair.post(&mut [waiting].into());
    }
    let mut bytes = bytes.to_vec();
    for header in bytes.chunks_exact_mut(32) {
        if matches!(header[0], 2 | 3) && header[16..24] == [1, 0, 0, 0, 0, 0, 0, 0] {
            header[16..24].copy_from_slice(&key(&exported[1]));
        }
    }
    let stream = match first & 2 {
        0 => &mut peer.data,
        _ => &mut peer.control,
    };
    let _ = stream.write_all(&bytes);
    let _ = use_up(&mut *pair);
    for unknown in [&exported[0], &exported[2]] {
        let mut there = [0; 4096];
        unknown.read(0, &mut there).expect("all of it");
        assert!(
            there == [0x5A; 4096],
            "a region that nobody was told of has changed"
        );
    }
    let begin = Instant::now();
    pair.close(begin + Duration::from_millis(20));
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "closing takes too long"
    );
}
