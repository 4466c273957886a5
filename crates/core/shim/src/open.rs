//! Opening a shim.

// Loading a library runs its initialisers.
#![allow(unsafe_code)]

use std::path::Path;

use libloading::Library;

use crate::embedded;

/// Opens a shim that is part of the program as bytes. It stays open for good: threads of the
/// library behind it would run on without its code.
///
/// # Errors
/// The loader's message, with the name of the missing library.
///
/// # Safety
/// The initialisers of the shim, and of the libraries that it needs, must be harmless at any time
/// and in any thread.
pub unsafe fn open(name: &str, bytes: &[u8]) -> Result<&'static Library, String> {
    // Some systems let nothing be executed that has no file.
    if let Some(memory) = embedded::in_memory(name, bytes) {
        // SAFETY: as the caller promises.
        if let Ok(library) = unsafe { open_file(&memory.path()) } {
            // The loader knows a library by its path. Were the descriptor closed, the next shim might
            // get its number, and with it this library.
            std::mem::forget(memory);
            return Ok(library);
        }
    }
    let file = embedded::in_a_file(name, bytes)
        .map_err(|error| format!("the shim cannot be stored: {error}"))?;
    // SAFETY: as the caller promises.
    unsafe { open_file(&file.path()) }
}

/// Opens a shim that is a file, for good.
///
/// # Errors
/// The loader's message.
///
/// # Safety
/// As for [`open`].
pub unsafe fn open_file(path: &Path) -> Result<&'static Library, String> {
    // SAFETY: as the caller promises.
    let library = unsafe { Library::new(path) }.map_err(|error| {
        // Its own message is "dlopen failed"; what failed is in its source.
        let source = std::error::Error::source(&error).map(ToString::to_string);
        source.unwrap_or_else(|| error.to_string())
    })?;
    Ok(Box::leak(Box::new(library)))
}
