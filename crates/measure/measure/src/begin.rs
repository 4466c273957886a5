//! Signal with which another end starts the timed part of a test.

use std::fmt;
use std::sync::Arc;

/// Called when everything is verified; the timed part begins when it returns.
#[derive(Clone)]
pub(crate) struct Begin(Arc<dyn Fn() + Send + Sync>);

impl Begin {
    /// Calls `wait`.
    pub(crate) fn new(wait: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wait))
    }

    /// Waits.
    pub(crate) fn wait(&self) {
        (self.0)();
    }

    /// Returns the wait as a function.
    pub(crate) fn into_inner(self) -> Arc<dyn Fn() + Send + Sync> {
        self.0
    }
}

impl fmt::Debug for Begin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Begin")
    }
}

/// Two tests are the same, however they are begun.
impl PartialEq for Begin {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}
