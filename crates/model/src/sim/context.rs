//! A device's context: it has to be set up before jobs run, and anew when the jobs' form changes.

/// What changing a context's state takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextTimes {
    /// Setting it up.
    pub init_ns: u64,
    /// Letting it go.
    pub end_ns: u64,
}

/// What a context does at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextState {
    /// It was never set up, or has been let go.
    Closed,
    /// It is being set up for the first time.
    Initialising,
    /// Jobs of this form can run.
    Ready {
        /// The form, as in the buffers' size.
        form: u64,
    },
    /// It is let go and set up again.
    Reconfiguring,
    /// It is being let go.
    Ending,
}

/// A context that is set up for one form of jobs at a time.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    times: ContextTimes,
    form: Option<u64>,
    /// Until then it changes.
    steady_ns: u64,
    opened_before: bool,
    reconfigured: u64,
}

impl Context {
    /// Closed.
    pub fn new(times: ContextTimes) -> Self {
        Self {
            times,
            form: None,
            steady_ns: 0,
            opened_before: false,
            reconfigured: 0,
        }
    }

    /// When it is ready for jobs of this form; changes it if it is set up for another. Jobs in
    /// flight hold a change up until `drained_ns`.
    pub fn ready_ns(&mut self, now_ns: u64, form: u64, drained_ns: u64) -> u64 {
        if self.form == Some(form) {
            return self.steady_ns.max(now_ns);
        }
        let mut change_ns = self.times.init_ns;
        if self.form.is_some() {
            change_ns = change_ns.saturating_add(self.times.end_ns);
            self.reconfigured += 1;
            self.opened_before = true;
        }
        self.form = Some(form);
        let from_ns = self.steady_ns.max(now_ns).max(drained_ns);
        self.steady_ns = from_ns.saturating_add(change_ns);
        self.steady_ns
    }

    /// Lets it go after `drained_ns`; says when that is done.
    pub fn end(&mut self, now_ns: u64, drained_ns: u64) -> u64 {
        if self.form.take().is_some() {
            let from_ns = self.steady_ns.max(now_ns).max(drained_ns);
            self.steady_ns = from_ns.saturating_add(self.times.end_ns);
        }
        self.opened_before = false;
        self.steady_ns.max(now_ns)
    }

    /// What it does at `now_ns`.
    pub fn state(&self, now_ns: u64) -> ContextState {
        match self.form {
            Some(form) if now_ns >= self.steady_ns => ContextState::Ready { form },
            Some(_) if self.opened_before => ContextState::Reconfiguring,
            Some(_) => ContextState::Initialising,
            None if now_ns < self.steady_ns => ContextState::Ending,
            None => ContextState::Closed,
        }
    }

    /// How often it was changed from one form to another.
    pub fn reconfigured(&self) -> u64 {
        self.reconfigured
    }
}
