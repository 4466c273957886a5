//! What clients speak. Nothing here does I/O.
