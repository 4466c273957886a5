//! C libraries that may be absent.
//!
//! A *shim* is a little C between such a library and Rust, with one table of functions over flat
//! structures. A crate's build script builds it where the library is installed (feature `build`);
//! it becomes a shared library of its own that is part of the crate as bytes, and is opened when
//! it is asked for (feature `open`). So nothing that is linked needs the library, and nothing has
//! to be found beside the program.

#[cfg(feature = "build")]
pub mod build;
#[cfg(feature = "open")]
mod directory;
#[cfg(feature = "open")]
mod embedded;
#[cfg(feature = "open")]
mod open;

#[cfg(feature = "open")]
pub use directory::PrivateDirectory;
#[cfg(feature = "open")]
pub use open::{open, open_file};
