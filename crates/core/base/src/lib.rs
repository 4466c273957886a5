//! Small utilities that the standard library lacks and several crates need.

mod descriptors;
mod event_fd;
mod file_format;
mod memory_budget;
mod memory_figures;
mod prefetch;
mod quiet;
mod random;
mod rename;
mod words;
mod zipf;

use std::any::Any;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use descriptors::raise_descriptor_limit;
pub use event_fd::EventFd;
pub use file_format::FileFormat;
pub use memory_budget::{MemoryBudget, OutOfMemory, Reservation};
pub use memory_figures::memory_figure;
pub use prefetch::{prefetch_read, prefetch_write};
pub use quiet::quietly;
pub use random::Random;
pub use rename::rename_to_new;
pub use zipf::Zipf;

/// The variable of the environment by which a program of ours ends with the one that starts it.
pub const END_WITH_PARENT: &str = "OVERSIDE_END_WITH_PARENT";

/// Locks a mutex whether or not a thread panicked while it held it. For values that are never left
/// half changed: nothing that can panic happens between two changes that belong together.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The message of a panic that was caught.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    (panic.downcast_ref::<&str>().copied())
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// The middle of several values; the mean of the two in the middle.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// Returns `N` random bytes of the system, which cannot be guessed.
///
/// # Errors
/// The system has no random numbers.
pub fn random_bytes<const N: usize>() -> std::io::Result<[u8; N]> {
    // The system never returns a part of up to 256 bytes (getrandom(2)).
    const { assert!(N <= 256) };
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}

/// Returns 40 random hexadecimal digits, for a name that no other process has.
///
/// # Errors
/// The system has no random numbers.
pub fn random_hex() -> std::io::Result<String> {
    let bytes = random_bytes::<20>()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::Mutex;

    use super::{lock, panic_text};

    #[test]
    fn a_panic_says_its_message() {
        let text = |panic: fn()| panic_text(&*catch_unwind(panic).unwrap_err()).to_owned();
        assert_eq!(text(|| panic!("plain")), "plain");
        assert_eq!(text(|| panic!("with {}", 1)), "with 1");
        assert_eq!(text(|| std::panic::panic_any(7)), "no message");
    }

    #[test]
    fn a_value_is_there_after_a_panic_under_its_lock() {
        let value = Mutex::new(1);
        let panicked = catch_unwind(|| {
            *lock(&value) = 2;
            let _guard = lock(&value);
            panic!("on purpose");
        });
        assert!(panicked.is_err() && value.is_poisoned());
        assert_eq!(*lock(&value), 2);
    }
}
