//! Properties of the agent's wire format that hold for any bytes. Checked by the fuzzer and for
//! each input of its corpus.

use std::io::IoSlice;

use overside_device::{ExternalBytes, Region, Slice};
use overside_link::agent::{
    Item, MAX_CONTROL_BYTES, Outbox, Preamble, Reader, Reply, Request, Side, Status, Violation,
};
use overside_link::codec::Message;

/// Bytes of a job before its source, the frame's header among them.
const JOB_HEAD: usize = 8 + 16;
/// Bytes of an answer before its variable part.
const ANSWER_HEAD: usize = 8 + 48;

/// The first byte chooses the reading side and the size of pieces, the rest is the input: a
/// preamble or a violation, then items, which are written back equal, or a violation. The result
/// does not depend on the pieces. Returns `true` if the whole input is items, with readable
/// messages.
pub(super) fn agent_wire(data: &[u8]) -> bool {
    let Some((how, bytes)) = data.split_first() else {
        return false;
    };
    if let Some((preamble, _)) = bytes.split_first_chunk::<{ Preamble::BYTES }>() {
        let _ = Preamble::agree(preamble);
    }
    let side = if how & 1 == 0 { Side::Host } else { Side::Agent };
    let at_once = read(side, bytes, usize::MAX);
    let in_pieces = read(side, bytes, usize::from(how >> 1) + 1);
    assert_eq!(at_once, in_pieces);
    let (items, end, violation) = at_once;
    // A peer may send what is no text; this side never does.
    let text = |seen: &Seen| match seen {
        Seen::Answer(Item::Answer(head, _), body) if head.status != Status::Done => {
            std::str::from_utf8(body).is_ok()
        }
        _ => true,
    };
    let known = |seen: &Seen| match seen {
        Seen::Whole(Item::Control(message)) => is_message(side, message),
        _ => true,
    };
    // All are looked at.
    let known = items.iter().filter(|seen| !known(seen)).count() == 0;
    let sound = violation.is_none() && end == bytes.len() && known;
    if violation.is_some() || !items.iter().all(text) {
        return sound;
    }
    let mut outbox = Outbox::default();
    for item in &items {
        match item {
            Seen::Job(item, body) | Seen::Answer(item, body) => write(item, body, &mut outbox),
            Seen::Whole(item) => write(item, &[], &mut outbox),
        }
    }
    assert!(written(&mut outbox) == bytes[..end], "items are written as they were read");
    sound
}

#[derive(Debug, PartialEq)]
enum Seen {
    Job(Item, Vec<u8>),
    Answer(Item, Vec<u8>),
    Whole(Item),
}

/// Items, how far they reach, and the violation that ended them.
fn read(side: Side, mut bytes: &[u8], piece: usize) -> (Vec<Seen>, usize, Option<Violation>) {
    let mut reader = Reader::new(side);
    let (mut seen, mut end) = (Vec::new(), 0);
    let all = bytes.len();
    let mut body: Option<(Item, Vec<u8>, usize)> = None;
    loop {
        if let Some((item, mut part, len)) = body.take() {
            let mut into = [0; 50];
            loop {
                let count = reader.body(&mut into);
                part.extend_from_slice(&into[..count]);
                if count == 0 {
                    break;
                }
            }
            if part.len() < len {
                body = Some((item, part, len));
            } else {
                end += part.len();
                seen.push(match item {
                    Item::Job(..) => {
                        end += JOB_HEAD;
                        Seen::Job(item, part)
                    }
                    item => {
                        end += ANSWER_HEAD;
                        Seen::Answer(item, part)
                    }
                });
            }
        }
        if body.is_none() {
            match reader.item() {
                Err(violation) => return (seen, end, Some(violation)),
                Ok(Some(item)) => {
                    match item {
                        Item::Job(_, len) | Item::Answer(_, len) => {
                            body = Some((item, Vec::new(), len))
                        }
                        Item::Control(json) => {
                            end += 8 + json.len();
                            seen.push(Seen::Whole(Item::Control(json)));
                        }
                        Item::Probe(message) => {
                            end += 8 + message.len();
                            seen.push(Seen::Whole(Item::Probe(message)));
                        }
                        Item::Usage(_) => {
                            end += 24;
                            seen.push(Seen::Whole(item));
                        }
                        Item::Ping(_) | Item::Pong(_) => {
                            end += 16;
                            seen.push(Seen::Whole(item));
                        }
                    }
                    continue;
                }
                Ok(None) => {}
            }
        }
        if bytes.is_empty() {
            return (seen, end, None);
        }
        let room = reader.room();
        // Twice, because a message's length is found out when it does not fit.
        assert!(room.len() <= 2 * MAX_CONTROL_BYTES + (64 << 10) && all < MAX_CONTROL_BYTES);
        let count = room.len().min(piece).min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        reader.filled(count);
        bytes = &bytes[count..];
    }
}

/// Checks that a message cannot be parsed, or is the same after it is encoded and parsed again.
/// Returns `true` if it is one for that side.
fn is_message(side: Side, bytes: &[u8]) -> bool {
    let (request, reply) = (Request::decode(bytes), Reply::decode(bytes));
    if let Ok(request) = &request {
        assert_eq!(Request::decode(&request.encode()).as_ref(), Ok(request));
        if let Request::Reconfigure(setup) | Request::Open { setup, .. } = request {
            let _ = setup.clone().config();
        }
    }
    if let Ok(reply) = &reply {
        assert_eq!(Reply::decode(&reply.encode()).as_ref(), Ok(reply));
    }
    match side {
        Side::Host => reply.is_ok(),
        Side::Agent => request.is_ok(),
    }
}

fn write(item: &Item, body: &[u8], outbox: &mut Outbox) {
    match item {
        Item::Control(json) => {
            let header = [(json.len() as u32).to_le_bytes(), [1, 0, 0, 0]].concat();
            outbox.frame([&header[..], json].concat());
        }
        Item::Job(head, _) => {
            let slice = Slice::from_external(ExternalBytes::new(body.to_vec()), None);
            outbox.job(*head, &slice.into());
        }
        Item::Answer(head, _) if head.status == Status::Done => {
            let mut region = Region::allocate(body.len() + 3, 1, None).expect("memory");
            region[..body.len()].copy_from_slice(body);
            outbox.result(*head, region, body.len());
        }
        Item::Answer(head, _) => match std::str::from_utf8(body) {
            Ok(text) => outbox.failure(*head, text),
            Err(_) => unreachable!("looked at before"),
        },
        Item::Usage(usage) => outbox.usage(*usage),
        Item::Ping(number) => outbox.ping(*number),
        Item::Pong(number) => outbox.pong(*number),
        Item::Probe(message) => outbox.frame(overside_link::agent::probe(message)),
    }
}

fn written(outbox: &mut Outbox) -> Vec<u8> {
    let mut all = Vec::new();
    while !outbox.is_empty() {
        let mut pieces = [IoSlice::new(&[]); 3];
        let count = outbox.gather(&mut pieces);
        let piece = |piece: &IoSlice<'_>| piece.to_vec();
        let bytes: Vec<u8> = pieces[..count].iter().flat_map(piece).collect();
        // A socket takes as much as it likes.
        let taken = bytes.len().div_ceil(2);
        all.extend_from_slice(&bytes[..taken]);
        outbox.advance(taken, drop);
    }
    all
}
