//! Parts of long strings.

use super::*;

fn append(value: &[u8]) -> Operation<'_> {
    Operation::Append { value, front: false, create: true }
}

#[test]
fn a_long_string_grows_and_changes_without_being_copied() {
    let mut store = store(Semantics::Store, 256 << 20);
    let mut expected = vec![b'v'; 40 << 20];
    answer_of(&mut store, &request(b"long", set(&expected)), START_MS);
    // Were the string copied each time, this would take minutes.
    for number in 0..20_000_u64 {
        let part = number.to_le_bytes();
        answer_of(&mut store, &request(b"long", append(&part[..1])), START_MS);
        expected.push(part[0]);
        let offset = number * 1000;
        let write = Operation::SetRange { offset, value: &part };
        answer_of(&mut store, &request(b"long", write), START_MS);
        expected[offset as usize..][..part.len()].copy_from_slice(&part);
    }
    let get = request(b"long", Operation::Get);
    store.execute(&[get], START_MS, &mut |_, answer| {
        assert!(matches!(answer, Answer::Value(value) if value.data == expected));
    });
    let counts = store.statistics();
    assert_eq!(counts.payload_bytes, (expected.len() + 4) as u64);
}

#[test]
fn a_part_that_is_written_in_place_keeps_what_belongs_to_the_string() {
    for semantics in [Semantics::Store, Semantics::Cache] {
        let mut store = store(semantics, 1 << 20);
        // What was there before has left its bytes behind.
        answer_of(&mut store, &request(b"s", set(&[b'x'; 15])), START_MS);
        let first = Operation::Set {
            value: b"12345",
            options: SetOptions {
                flags: 7,
                expiry: Expiry::At(START_MS + 10),
                ..SetOptions::default()
            },
        };
        let mut versions = Vec::new();
        let mut check = |store: &mut Store, expected: &[u8]| {
            let get = request(b"s", Operation::Get);
            store.execute(&[get], START_MS, &mut |_, answer| {
                let Answer::Value(value) = answer else {
                    panic!("{answer:?}");
                };
                assert_eq!(value.data, expected);
                assert_eq!(value.flags, 7);
                assert_eq!(value.expires_at_ms, Some(START_MS + 10));
                assert!(versions.iter().all(|before| *before < value.version));
                versions.push(value.version);
            });
        };
        answer_of(&mut store, &request(b"s", first), START_MS);
        check(&mut store, b"12345");
        store.begin_snapshot();
        answer_of(&mut store, &request(b"s", append(b"6")), START_MS);
        check(&mut store, b"123456");
        let write = Operation::SetRange { offset: 8, value: b"9" };
        answer_of(&mut store, &request(b"s", write), START_MS);
        check(&mut store, b"123456\0\x009");
        let write = Operation::SetRange { offset: 1, value: b"ab" };
        answer_of(&mut store, &request(b"s", write), START_MS);
        check(&mut store, b"1ab456\0\x009");
        // The snapshot has the string as it was when it began.
        let mut bytes = Vec::new();
        while !store.snapshot_step(&mut bytes, usize::MAX) {}
        let found = replay(&bytes, START_MS);
        let content = &found.items[b"s".as_slice()].content;
        assert_eq!(*content, Content::String(b"12345".to_vec()));
        // What has expired is begun anew.
        let late = answer_of(&mut store, &request(b"s", append(b"6")), START_MS + 10);
        assert_eq!(late, format!("{:?}", Answer::Number(1)));
    }
}
