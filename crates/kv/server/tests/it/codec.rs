//! The encoding of requests.

use overside_kv::ProcessingEngine;
use overside_kv::codec::{DecodeError, decode, decode_answer, encode, encode_answer};

use crate::oracle::Oracle;
use crate::requests::Requests;

#[test]
fn a_request_is_decoded_as_it_was_encoded() {
    let mut requests = Requests::new(1);
    let mut bytes = Vec::new();
    let encoded: Vec<_> = (0..5000).map(|_| requests.next(1 << 40)).collect();
    encoded.iter().for_each(|request| encode(request, &mut bytes));
    let mut rest = &bytes[..];
    for request in &encoded {
        assert_eq!(decode(&mut rest, &requests.hasher).as_ref(), Ok(request));
    }
    assert!(rest.is_empty());
}

#[test]
fn a_request_that_is_cut_off_is_refused_wherever_it_is_cut() {
    let mut requests = Requests::new(2);
    for _ in 0..2000 {
        let mut bytes = Vec::new();
        encode(&requests.next(1 << 40), &mut bytes);
        for len in (0..bytes.len()).take(100) {
            let mut rest = &bytes[..len];
            let cut = decode(&mut rest, &requests.hasher);
            assert_eq!(cut, Err(DecodeError::Truncated));
            assert_eq!(rest.len(), len, "it is still there");
        }
    }
}

#[test]
fn damaged_requests_are_refused_or_others_but_bounded() {
    let mut requests = Requests::new(3);
    for _ in 0..20_000 {
        let mut bytes = Vec::new();
        encode(&requests.next(1 << 40), &mut bytes);
        let at = requests.random.below(bytes.len().min(40) as u64) as usize;
        bytes[at] = requests.random.next_u64() as u8;
        let mut rest = &bytes[..];
        if let Ok(request) = decode(&mut rest, &requests.hasher) {
            assert!(rest.len() < bytes.len());
            assert!(request.key.len() < bytes.len());
        }
    }
}

#[test]
fn what_is_too_long_is_refused_before_it_is_there() {
    let hasher = Requests::new(4).hasher;
    // Set, with a key of 2^40 bytes.
    let mut rest: &[u8] = &[5, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20];
    assert_eq!(decode(&mut rest, &hasher), Err(DecodeError::TooLong));
    // HSET with 2^60 fields.
    let mut rest: &[u8] = &[14, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10, 1];
    assert_eq!(decode(&mut rest, &hasher), Err(DecodeError::Truncated));
    let mut rest: &[u8] = &[99, 0];
    assert_eq!(decode(&mut rest, &hasher), Err(DecodeError::UnknownOperation(99)));
}

#[test]
fn an_answer_is_decoded_as_it_was_encoded() {
    let mut requests = Requests::new(5);
    let mut oracle = Oracle::default();
    for turn in 0..5000 {
        let now_ms = 1_000_000 + 10 * turn;
        let request = requests.next(now_ms);
        let damage = (requests.random.next_u64(), requests.random.next_u64() as u8);
        oracle.execute(&[request], now_ms, &mut |_, answer| {
            let mut bytes = Vec::new();
            encode_answer(&answer, &mut bytes);
            let mut rest = &bytes[..];
            assert_eq!(decode_answer(&mut rest), Ok(answer));
            assert!(rest.is_empty());
            for len in (0..bytes.len()).take(50) {
                assert!(decode_answer(&mut &bytes[..len]).is_err());
            }
            let at = damage.0 as usize % bytes.len();
            bytes[at] = damage.1;
            // Refused or another answer, which can be looked at.
            if let Ok(overside_kv::Answer::List(list)) = decode_answer(&mut &bytes[..]) {
                assert_eq!(list.iter().count(), list.len());
            }
        });
    }
}
