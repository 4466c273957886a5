//! Any bytes are a sealed datagram with the right tag, or none; what was sealed is found again, and nothing else.

#![no_main]

use libfuzzer_sys::fuzz_target;
use overside_kv::protocol::datagram::{SEAL_BYTES, SealKey, Sender, is_sealed};

const PORT: u16 = 6379;

fuzz_target!(|bytes: &[u8]| {
    let key = SealKey::new(&[7; 32]);
    // As they are: whoever has made them did not know the key.
    for sender in [Sender::Client, Sender::Server] {
        if let Some(sealed) = key.open(sender, PORT, bytes) {
            assert!(is_sealed(bytes) && sealed.datagram.len() + SEAL_BYTES <= bytes.len());
        }
    }
    // Sealed, and then changed at a place that they say.
    let Some((&[at_low, at_high, change, padding], datagram)) = bytes.split_first_chunk() else {
        return;
    };
    let Ok(epoch) = u64::try_from(datagram.len()) else {
        return;
    };
    if datagram.len() > usize::from(u16::MAX) - SEAL_BYTES {
        return;
    }
    let mut envelope = Vec::new();
    key.seal(Sender::Client, PORT, epoch, datagram, &mut envelope);
    let len = envelope.len();
    envelope.resize(len + usize::from(padding), 0);
    let sealed = key.open(Sender::Client, PORT, &envelope).expect("as it was sealed");
    assert_eq!((sealed.epoch, sealed.datagram), (epoch, datagram));
    assert_eq!(key.open(Sender::Server, PORT, &envelope), None);
    assert_eq!(key.open(Sender::Client, PORT + 1, &envelope), None);
    assert_eq!(SealKey::new(&[8; 32]).open(Sender::Client, PORT, &envelope), None);
    let at = usize::from(u16::from_le_bytes([at_low, at_high])) % len;
    envelope[at] ^= change;
    let is_same = change == 0;
    assert_eq!(key.open(Sender::Client, PORT, &envelope).is_some(), is_same);
});
