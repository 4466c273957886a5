//! Exit codes that docs/exit-codes.md lists.

/// A fault of the program itself.
pub const INTERNAL: u8 = 1;
/// A wrong command line, or a wrong input.
pub const USAGE: u8 = 2;
/// A resource that the command needs is missing.
pub const ABSENT: u8 = 3;
/// Some of the work was not done.
pub const INCOMPLETE: u8 = 5;
/// The work failed.
pub const FAILED: u8 = 100;
/// A result failed its verification.
pub const UNVERIFIED: u8 = 101;
