//! Authenticated encryption (AES-GCM, NIST SP 800-38D), for measuring its cost.
//!
//! 1. A sealed buffer is a nonce of 12 bytes, the ciphertext, and a tag of 16 bytes.
//! 2. The nonce is derived from the job's source ([`nonce`]), so a job has the same result on every
//!    device. Results can then be compared, and a stream can be split among devices.
//! 3. The key is [`TEST_KEY`], which is public: sealed buffers are not secret.
//! 4. A source whose tag does not match is [`Error::Corrupt`], and its destination is cleared.

mod aes_gcm;
mod ring;

use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::family::{Family, Lengths, Memory, Parameter, Verification, WrongAnswer};
use crate::variant::{Entry, Library, single, written};
use crate::{Cipher, Error, Kernel, Operation, Output};

/// Registry of the libraries that encrypt. `auto` takes the first one.
const LIBRARIES: &[&CipherLibrary] = &[&ring::LIBRARY, &aes_gcm::LIBRARY];

type Nonce = [u8; 12];
type Tag = [u8; 16];
/// Number of bytes that a sealed buffer is longer than its plaintext.
const OVERHEAD_BYTES: usize = size_of::<Nonce>() + size_of::<Tag>();
/// Number of bytes at the beginning of a source that its nonce depends on: XXH3 hashes up to 240
/// bytes in one step.
const NONCE_SOURCE_BYTES: usize = 240;

/// Key of all jobs; a cipher with a shorter key takes its first bytes. It is the key of test case 15 in
/// McGrew and Viega, *The Galois/Counter Mode of Operation*; its first half is the key of test case 3.
const TEST_KEY: [u8; 32] = [
    0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c, 0x6d, 0x6a, 0x8f, 0x94, 0x67, 0x30, 0x83, 0x08,
    0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c, 0x6d, 0x6a, 0x8f, 0x94, 0x67, 0x30, 0x83, 0x08,
];

/// Registry entry of encryption.
pub(crate) static ENCRYPT: Family = Family {
    verb: "encrypt",
    description: "encrypt buffers with a test key; each output is decrypted and compared",
    title: "Encrypt with {cipher}",
    parameter: Some(Parameter {
        name: "cipher",
        doc: "the cipher and the length of its key",
        default: "aes-256-gcm",
    }),
    operations: || Cipher::ALL.map(Operation::Encrypt).into(),
    lengths: Lengths::Grows(OVERHEAD_BYTES as u64),
    verification: Verification::Inverse,
    has_levels: false,
    has_patterns: false,
    data: "corpus",
    references: &[],
    engine: Some("encryption"),
    result_bytes_max: |_, _, bytes| bytes + OVERHEAD_BYTES as u64,
    entries: |operation| entries(operation, |aead| Box::new(Sealer(aead))),
    memory: |_, _, _| Memory::default(),
    known_answers: check,
};

/// Registry entry of decryption.
pub(crate) static DECRYPT: Family = Family {
    verb: "decrypt",
    description: "decrypt buffers with a test key; each output is compared with the original",
    title: "Decrypt with {cipher}",
    operations: || Cipher::ALL.map(Operation::Decrypt).into(),
    lengths: Lengths::Strips(OVERHEAD_BYTES as u64),
    verification: Verification::Original,
    result_bytes_max: |_, _, bytes| bytes,
    entries: |operation| entries(operation, |aead| Box::new(Opener(aead))),
    ..ENCRYPT
};

/// A library with its ciphers.
struct CipherLibrary {
    library: Library,
    aead: ExpandKey,
}

/// Function that expands a key of the cipher's length.
type ExpandKey = fn(Cipher, &[u8]) -> Result<Box<dyn Aead>, Error>;

/// A cipher with a key.
trait Aead: Send {
    /// Encrypts `bytes` in place. Returns the tag.
    fn seal(&self, nonce: Nonce, associated: &[u8], bytes: &mut [u8]) -> Result<Tag, Error>;

    /// Decrypts `bytes` in place. Returns `false` if the tag does not match: the bytes are then unspecified.
    fn open(&self, nonce: Nonce, associated: &[u8], bytes: &mut [u8], tag: Tag) -> bool;
}

fn entries(operation: Operation, kernel: fn(Box<dyn Aead>) -> Box<dyn Kernel>) -> Vec<Entry> {
    let (Operation::Encrypt(cipher) | Operation::Decrypt(cipher)) = operation else {
        return Vec::new();
    };
    let entry = |library: &&'static CipherLibrary| {
        let aead = library.aead;
        Entry {
            variant: library.library.variant(),
            prepare: Box::new(move |_, _, _| {
                Ok(Box::new(move || Ok(kernel(aead(cipher, &TEST_KEY[..cipher.key_len()])?))))
            }),
        }
    };
    LIBRARIES.iter().map(entry).collect()
}

/// Returns the nonce for a source: 96 bits of the XXH3 of its length and its first 240 bytes. That
/// takes nanoseconds, so the cipher dominates the measured time. Sources of one length with the
/// same beginning share a nonce, which is unsafe with real keys.
fn nonce(source: &[u8]) -> Nonce {
    let first = &source[..source.len().min(NONCE_SOURCE_BYTES)];
    let digest = xxh3_128_with_seed(first, source.len() as u64).to_le_bytes();
    std::array::from_fn(|at| digest[at])
}

/// Kernel that encrypts.
struct Sealer(Box<dyn Aead>);

impl Kernel for Sealer {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let (source, capacity) = (single(source)?, destination.len());
        let len = source.len() + OVERHEAD_BYTES;
        let sealed = (destination.get_mut(..len)).ok_or(Error::OutputTooSmall { capacity })?;
        let nonce = nonce(source);
        let (head, rest) = sealed.split_at_mut(nonce.len());
        let (bytes, tag) = rest.split_at_mut(source.len());
        head.copy_from_slice(&nonce);
        bytes.copy_from_slice(source);
        tag.copy_from_slice(&self.0.seal(nonce, &[], bytes)?);
        Ok(written(len))
    }
}

/// Kernel that decrypts.
struct Opener(Box<dyn Aead>);

impl Kernel for Opener {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let (source, capacity) = (single(source)?, destination.len());
        let short = || Error::Corrupt("it is shorter than a nonce and a tag".into());
        let (nonce, rest) = source.split_first_chunk().ok_or_else(short)?;
        let (sealed, tag) = rest.split_last_chunk().ok_or_else(short)?;
        let room = destination.get_mut(..sealed.len());
        let bytes = room.ok_or(Error::OutputTooSmall { capacity })?;
        bytes.copy_from_slice(sealed);
        if !self.0.open(*nonce, &[], bytes, *tag) {
            // Bytes that fail authentication must not leave this function decrypted.
            bytes.fill(0);
            let reason =
                "the tag does not match: the bytes were changed, or the key is another one";
            return Err(Error::Corrupt(reason.into()));
        }
        Ok(written(bytes.len()))
    }
}

/// A test vector: with this key and nonce, the plaintext becomes the ciphertext and the tag.
struct Vector {
    key: Vec<u8>,
    nonce: Nonce,
    associated: Vec<u8>,
    plaintext: Vec<u8>,
    ciphertext: Vec<u8>,
    tag: Tag,
}

/// Yields the test vectors of a cipher; `known_answers.txt` says who published them.
fn published(cipher: Cipher) -> impl Iterator<Item = Vector> {
    let rows = include_str!("cipher/known_answers.txt").lines();
    rows.filter_map(move |row| {
        let fields = row.strip_prefix(cipher.name())?.split_whitespace();
        let fields: Option<Vec<Vec<u8>>> = fields.map(bytes).collect();
        let [key, nonce, associated, plaintext, ciphertext, tag] = fields?.try_into().ok()?;
        Some(Vector {
            key,
            nonce: nonce.try_into().ok()?,
            associated,
            plaintext,
            ciphertext,
            tag: tag.try_into().ok()?,
        })
    })
}

/// Decodes hexadecimal digits; `-` is an empty string of bytes.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.trim_start_matches('-').as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Checks that every library of the operation's cipher gives the published results in both
/// directions and refuses a changed tag.
fn check(operation: Operation) -> Result<(), WrongAnswer> {
    let (Operation::Encrypt(cipher) | Operation::Decrypt(cipher)) = operation else {
        return Ok(());
    };
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    for library in LIBRARIES {
        for vector in published(cipher) {
            let (nonce, associated) = (vector.nonce, &vector.associated);
            let sealed = [&vector.ciphertext[..], &vector.tag].concat();
            let compare = |found: String, expected: &[u8]| match found == hex(expected) {
                true => Ok(()),
                false => Err(WrongAnswer {
                    operation,
                    variant: library.library.name,
                    found,
                    expected: hex(expected),
                }),
            };
            let mut bytes = vector.plaintext.clone();
            let aead = (library.aead)(cipher, &vector.key);
            let tag = aead.and_then(|aead| Ok((aead.seal(nonce, associated, &mut bytes)?, aead)));
            let (tag, aead) = match tag {
                Ok(both) => both,
                Err(error) => return compare(error.to_string(), &sealed),
            };
            compare(hex(&[&bytes[..], &tag].concat()), &sealed)?;
            let changed = vector.tag.map(|byte| !byte);
            for (tag, is_taken) in [(changed, false), (vector.tag, true)] {
                bytes.copy_from_slice(&vector.ciphertext);
                if aead.open(nonce, associated, &mut bytes, tag) != is_taken {
                    compare(format!("taken: {}", !is_taken), &vector.plaintext)?;
                }
            }
            compare(hex(&bytes), &vector.plaintext)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_gives_the_published_results() {
        let rows = include_str!("cipher/known_answers.txt").lines();
        let rows = rows.filter(|row| !row.starts_with('#')).count();
        let read = Cipher::ALL.map(|cipher| published(cipher).count());
        assert_eq!(read.iter().sum::<usize>(), rows, "every row is read");
        for cipher in Cipher::ALL {
            assert!(published(cipher).any(|vector| vector.plaintext.is_empty()));
            assert!(published(cipher).any(|vector| vector.plaintext.len() % 16 > 0));
            check(Operation::Encrypt(cipher)).unwrap();
        }
    }

    #[test]
    fn sources_that_differ_at_their_beginning_or_in_length_have_other_nonces() {
        let nonces: std::collections::HashSet<_> = (0..1000_u32)
            .flat_map(|number| {
                let numbered = [&number.to_le_bytes()[..], &[0; 1000]].concat();
                [nonce(&numbered), nonce(&vec![0; number as usize])]
            })
            .collect();
        assert_eq!(nonces.len(), 2000);
    }
}
