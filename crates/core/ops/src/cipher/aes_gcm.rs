//! AES-GCM by RustCrypto, in Rust with the processor's instructions for AES and carry-less multiplication.

use ::aes_gcm::aead::{AeadInOut, KeyInit};
use ::aes_gcm::{Aes128Gcm, Aes256Gcm};

use super::{Aead, CipherLibrary, Nonce, Tag};
use crate::variant::Library;
use crate::{Cipher, Error};

const TITLE: &str = "RustCrypto aes-gcm";

pub(super) const LIBRARY: CipherLibrary = CipherLibrary {
    library: Library {
        name: "aes-gcm",
        label: "aes-gcm",
        title: TITLE,
        version: || "0.11.1".into(),
        simd: true,
    },
    aead: |cipher, key| {
        Ok(match cipher {
            Cipher::Aes128Gcm => Box::new(Aes128Gcm::new_from_slice(key).map_err(failed)?),
            Cipher::Aes256Gcm => Box::new(Aes256Gcm::new_from_slice(key).map_err(failed)?),
        })
    },
};

/// Implements [`Aead`] for each of the crate's cipher types.
macro_rules! aead {
    ($($Cipher:ident),*) => {$(
        impl Aead for $Cipher {
            fn seal(&self, nonce: Nonce, associated: &[u8], bytes: &mut [u8]) -> Result<Tag, Error> {
                let tag = self.encrypt_inout_detached(&nonce.into(), associated, bytes.into());
                Ok(tag.map_err(failed)?.into())
            }

            fn open(&self, nonce: Nonce, associated: &[u8], bytes: &mut [u8], tag: Tag) -> bool {
                let tag = tag.into();
                self.decrypt_inout_detached(&nonce.into(), associated, bytes.into(), &tag).is_ok()
            }
        }
    )*};
}

aead!(Aes128Gcm, Aes256Gcm);

fn failed(error: impl ToString) -> Error {
    Error::Library { library: TITLE, reason: error.to_string() }
}
