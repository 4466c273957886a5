//! Encryption: libraries agree at every length, and a changed buffer is not decrypted.
//! `check_known_answers` has the published results.

use crate::common;

use common::{kernel, names, run};
use overside_ops::{Cipher, Error, Operation, check_known_answers};

/// Number of bytes that a sealed buffer has in addition: a nonce and a tag.
const OVERHEAD_BYTES: usize = 12 + 16;

fn plaintext(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn libraries_make_and_restore_the_same_at_every_length() {
    let lengths = (0..=300).chain([1000, 4095, 4096, 4097, 65_535, 1 << 20]);
    let lengths: Vec<usize> = lengths.collect();
    for cipher in Cipher::ALL {
        let (encrypt, decrypt) = (Operation::Encrypt(cipher), Operation::Decrypt(cipher));
        check_known_answers(encrypt).unwrap();
        let by = |operation| names(operation).into_iter().map(move |name| kernel(operation, name));
        let (mut sealers, mut openers): (Vec<_>, Vec<_>) =
            (by(encrypt).collect(), by(decrypt).collect());
        assert_eq!((sealers.len(), openers.len()), (2, 2));
        for &len in &lengths {
            let plain = plaintext(len);
            let room = encrypt.result_bytes_max(&[], len as u64) as usize;
            assert_eq!(room, len + OVERHEAD_BYTES);
            let sealed: Vec<_> = (sealers.iter_mut())
                .map(|sealer| run(&mut **sealer, &plain, room).unwrap().0)
                .collect();
            assert!(sealed[0] == sealed[1] && sealed[0].len() == room, "{encrypt} {len}");
            let is_hidden = len < 16 || sealed[0].windows(16).all(|part| part != &plain[..16]);
            assert!(is_hidden, "{encrypt} {len}");
            for opener in &mut openers {
                let restored = run(&mut **opener, &sealed[0], len).unwrap().0;
                assert!(restored == plain, "{decrypt} {len}");
            }
        }
    }
}

#[test]
fn no_byte_of_what_was_changed_or_cut_is_decrypted() {
    for cipher in Cipher::ALL {
        let decrypt = Operation::Decrypt(cipher);
        for name in names(decrypt) {
            let mut opener = kernel(decrypt, name);
            let mut refuses = |sealed: &[u8], context: &str| {
                let mut out = vec![0xa5; 64];
                let error = opener.run(&[sealed], &mut out).unwrap_err();
                assert!(matches!(error, Error::Corrupt(_)), "{name} {context}: {error}");
                // Each byte is either untouched or cleared.
                let is_clear = out.iter().all(|&byte| byte == 0xa5 || byte == 0);
                assert!(is_clear, "{name} {context}: {out:02x?}");
            };
            let plain = plaintext(50);
            let mut sealer = kernel(Operation::Encrypt(cipher), name);
            let (sealed, _) = run(&mut *sealer, &plain, 50 + OVERHEAD_BYTES).unwrap();
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1 << (at % 8);
                refuses(&changed, &format!("byte {at} changed"));
                refuses(&sealed[..at], &format!("cut to {at}"));
            }
            refuses(&[&sealed[..], b"x"].concat(), "longer");
            let other = Cipher::ALL.into_iter().find(|one| *one != cipher).unwrap();
            let mut other = kernel(Operation::Encrypt(other), name);
            let (other, _) = run(&mut *other, &plain, 50 + OVERHEAD_BYTES).unwrap();
            refuses(&other, "by another key");
        }
    }
}

#[test]
fn a_result_that_does_not_fit_is_refused() {
    for cipher in Cipher::ALL {
        for (operation, source) in [
            (Operation::Encrypt(cipher), plaintext(50)),
            (Operation::Decrypt(cipher), vec![0; 50 + OVERHEAD_BYTES]),
        ] {
            for name in names(operation) {
                let len = match operation {
                    Operation::Encrypt(_) => 50 + OVERHEAD_BYTES,
                    _ => 50,
                };
                let capacity = len - 1;
                let error = run(&mut *kernel(operation, name), &source, capacity).unwrap_err();
                assert_eq!(error, Error::OutputTooSmall { capacity }, "{operation} {name}");
            }
        }
    }
}
