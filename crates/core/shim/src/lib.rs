//! C libraries that may be absent.
//!
//! A *shim* is a small C layer between such a library and Rust: one table of functions over flat
//! structures. It is a separate shared library that is loaded when it is needed (feature `open`), so
//! the program is not linked with the C library. There are two ways to get it:
//!
//! 1. A crate's build script compiles it if the library is installed (feature `build`), and the program
//!    contains the result as bytes.
//! 2. The program also contains its sources. [`Shim::compile`] compiles them on a machine that
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
