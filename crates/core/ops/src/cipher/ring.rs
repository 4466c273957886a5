//! AES-GCM by ring, which uses BoringSSL's assembly.

use ::ring::aead;

use super::{Aead, CipherLibrary, Nonce, Tag};
use crate::variant::Library;
use crate::{Cipher, Error};

const NAME: &str = "ring";

pub(super) const LIBRARY: CipherLibrary = CipherLibrary {
    library: Library {
        name: NAME,
        label: NAME,
        title: NAME,
        version: || "0.17.14".into(),
        simd: true,
    },
    aead: |cipher, key| {
        let algorithm = match cipher {
            Cipher::Aes128Gcm => &aead::AES_128_GCM,
            Cipher::Aes256Gcm => &aead::AES_256_GCM,
        };
        let key = aead::UnboundKey::new(algorithm, key).map_err(|_| failed("expand the key"))?;
        Ok(Box::new(aead::LessSafeKey::new(key)))
    },
};

impl Aead for aead::LessSafeKey {
    fn seal(&self, nonce: Nonce, associated: &[u8], bytes: &mut [u8]) -> Result<Tag, Error> {
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let tag = self.seal_in_place_separate_tag(nonce, aead::Aad::from(associated), bytes);
        let tag = tag.map_err(|_| failed("encrypt the bytes"))?;
        tag.as_ref().try_into().map_err(|_| failed("make a tag of 16 bytes"))
    }

    fn open(&self, nonce: Nonce, associated: &[u8], bytes: &mut [u8], tag: Tag) -> bool {
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let associated = aead::Aad::from(associated);
        self.open_in_place_separate_tag(nonce, associated, tag.into(), bytes, 0..).is_ok()
    }
}

fn failed(what: &str) -> Error {
    Error::Library { library: NAME, reason: format!("it could not {what}") }
}
