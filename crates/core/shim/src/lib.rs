//! C libraries that may be absent.
//!
//! A *shim* is a little C between such a library and Rust, with one table of functions over flat
//! structures. It is a shared library of its own, opened when it is asked for (feature `open`), so
//! nothing that is linked needs the C library. There are two ways to it:
//!
//! 1. A crate's build script compiles it where the library is installed (feature `build`), and it
//!    is part of the program as bytes.
//! 2. Its sources are part of the program too. [`Shim::compile`] compiles them on the machine that
//!    has the library; programs that were built elsewhere find the result from then on.

#[cfg(feature = "build")]
pub mod build;
#[cfg(any(feature = "build", feature = "open"))]
mod compiler;
#[cfg(feature = "open")]
mod directory;
#[cfg(feature = "open")]
mod embedded;
#[cfg(feature = "open")]
mod open;
#[cfg(feature = "open")]
mod shim;

#[cfg(feature = "open")]
pub use directory::PrivateDirectory;
#[cfg(feature = "open")]
pub use open::{open, open_file};
#[cfg(feature = "open")]
pub use shim::{CompileError, Description, Shim, Unavailable};
