//! Panics that are an answer.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::panic_text;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` and returns its result, or the message of its panic, which is not printed. It is for
/// libraries that panic on input from outside: such messages are for the library's developers, and
/// the caller reports the error to the user.
///
/// # Errors
/// The panic's message.
pub fn quietly<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_QUIET.get() {
                loud(panic);
            }
        }));
    });
    let was_quiet = IS_QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_QUIET.set(was_quiet);
    result.map_err(|panic| panic_text(&*panic).to_owned())
}

#[cfg(test)]
mod tests {
    use super::{IS_QUIET, quietly};

    #[test]
    fn a_panic_is_an_answer_and_others_are_loud_again() {
        assert_eq!(quietly(|| 7), Ok(7));
        let nested = quietly(|| {
            assert_eq!(quietly(|| panic!("inner")), Err::<(), _>("inner".to_owned()));
            assert!(IS_QUIET.get());
            panic!("outer {}", 1)
        });
        assert_eq!(nested, Err::<(), _>("outer 1".to_owned()));
        assert!(!IS_QUIET.get());
    }
}
