//! Pure functions on bytes: codecs, pattern matching, hashes, copy, encryption. No threads, no devices.
//!
//! An [`Operation`] is what a job does to a buffer; its [`Family`] describes it. Each library that
//! performs it is a named [`Variant`]: [`variants`] lists them, and [`prepare`] picks one by name or by
//! `auto`. [`Prepared`] holds what threads can share, such as a compiled pattern set. Its [`Kernel`]
//! belongs to one thread and holds the rest, such as a codec's tables or a matcher's scratch memory.
//!
//! ```
//! use overside_ops::{Config, Format, Operation, prepare};
//! let config = Config::new(Operation::Compress(Format::Deflate));
//! let mut kernel = prepare(&config)?.kernel()?;
//! let mut out = vec![0; 1000];
//! let done = kernel.run(&[b"what is said three times is true, is true, is true"], &mut out)?;
//! assert!(done.written < 50);
//! # Ok::<(), overside_ops::Error>(())
//! ```

pub mod checksum;
mod cipher;
mod codec;
mod config;
mod copy;
mod deflate;
mod error;
mod family;
pub mod hash;
mod lz4;
mod matching;
mod memory;
mod operation;
mod registry;
mod stream;
mod variant;
mod zstd;

pub use config::Config;
pub use deflate::DeflateJoiner;
pub use error::Error;
pub use family::{Direction, Family, Lengths, Parameter, Verification, WrongAnswer};
pub use lz4::frame as lz4_frame;
pub use matching::{Trial, try_matchers};
pub use memory::memory_bytes;
pub use operation::{Cipher, Format, HashAlgorithm, MatchKind, Operation};
pub use registry::{
    FAMILIES, check_known_answers, prepare, stream_decoder, usable_variants, variants,
};
pub use stream::{Step, StreamDecoder, ZSTD_WINDOW_LOG_MAX};
pub use variant::{Kernel, Output, Prepared, Variant};
