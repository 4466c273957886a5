//! Estimates of one target's rates and overhead, learned from the epochs that it worked in.

use super::reason::Rates;

/// The weight of a new observation in an exponentially weighted mean.
pub(super) const WEIGHT: f64 = 0.3;
/// Largest difference, in natural logarithms, between an observation and the estimate that still
/// counts as noise. Beyond it the observation may be a change.
pub(super) const STEP_LN: f64 = 0.3;
/// Silence, in times of one chunk, after which a target has stopped, if that holds in two epochs in
/// a row. One silent epoch may be a pause.
const SILENCE_CHUNKS: f64 = 4.0;
/// Largest gain, as a natural logarithm, that a target may seem to have in contention compared with
/// alone: noise.
const CONTENTION_GAIN_LN: f64 = 0.1;
/// Observations after which a rate has settled: 6 % of the initial value is left in the mean.
const SETTLED: u8 = 8;
/// Rates are kept between 1 B/s and e^44 B/s (13 EB/s), so that no arithmetic on them overflows.
const RATE_LN_MAX: f64 = 44.0;
/// Maximum overhead: thirty years.
const OVERHEAD_S_MAX: f64 = 1e9;

/// Effect of an observation on an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// No observation was used.
    None,
    /// The observation agreed, or was the first.
    Smoothed,
    /// The observation was far off, for the better. The next one decides.
    Better,
    /// The observation was far off, for the worse. The next one decides.
    Worse,
    /// The second in a row that was far off: the estimate is now the observation.
    Reset,
}

/// Two in a row on the same side are a step; one alone, or one on each side, is noise.
#[derive(Debug, Clone, Copy, Default)]
struct Outside {
    /// -1, 0 or 1: the side of the last observation that was far off.
    side: i8,
}

impl Outside {
    /// Returns the distance by which an estimate moves towards an observation that is `difference`
    /// away (both logarithms), and `true` if that is a step. A first observation that is far off
    /// counts as one at the edge.
    fn take(&mut self, difference: f64) -> (f64, bool) {
        if difference.abs() <= STEP_LN {
            self.side = 0;
            return (WEIGHT * difference, false);
        }
        let side = if difference > 0.0 { 1 } else { -1 };
        if self.side == side {
            self.side = 0;
            return (difference, true);
        }
        self.side = side;
        (WEIGHT * STEP_LN * f64::from(side), false)
    }
}

/// A rate, as an exponentially weighted mean of its logarithm.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// ln(B/s).
    ln: f64,
    outside: Outside,
    /// `true` if the rate was not measured here: it is a bound from a target that finished nothing,
    /// or a neighbor's rate. The first measured rate replaces it.
    provisional: bool,
}

impl Rate {
    fn of(ln: f64, provisional: bool) -> Self {
        Self { ln: ln.clamp(0.0, RATE_LN_MAX), outside: Outside::default(), provisional }
    }

    /// B/s, at least 1.
    pub(super) fn bytes_per_s(self) -> f64 {
        self.ln.exp()
    }

    fn observe(&mut self, ln: f64) -> Change {
        let ln = ln.clamp(0.0, RATE_LN_MAX);
        if self.provisional {
            *self = Self::of(ln, false);
            return Change::Reset;
        }
        let difference = ln - self.ln;
        let (step, reset) = self.outside.take(difference);
        self.ln = (self.ln + step).clamp(0.0, RATE_LN_MAX);
        match self.outside.side {
            _ if reset => Change::Reset,
            1 => Change::Better,
            -1 => Change::Worse,
            _ => Change::Smoothed,
        }
    }
}

/// State of the other target during an observation: idle (`Alone`) or busy (`Together`).
///
/// A target has a different rate alone than together with another: the thread that feeds the device
/// is also the CPU's, and both use the same memory. Work in a split counts as together, even if the
/// other target finished early: it is the rate that the fraction leads to, and following it leads
/// to the fraction at which both finish together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contention {
    Alone,
    Together,
}

/// The two rates of a target.
///
/// Only one of the two is seen at a time. A change of one (other data, a slower clock, a neighbour)
/// changes the other, too. So the first observations in a contention give its cost, and after them
/// a change of one rate shifts the other by the same factor.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TargetRates {
    alone: Option<Rate>,
    together: Option<Rate>,
    /// The contention of the last observation, and how many in a row were made in it.
    contention: Option<Contention>,
    in_contention: u8,
    /// `true` if the target had work and finished nothing for so long that it counts as stopped.
    stopped: bool,
    /// Time of working on chunks of which none is finished yet, in seconds.
    silent_s: f64,
    /// `true` if the silence in the last epoch was longer than expected.
    was_silent: bool,
}

impl TargetRates {
    /// The target's rate while the other one rests, in B/s; `None` if it has never worked.
    ///
    /// No target is slower for being alone. The ratio of the two rates may come from one noisy epoch
    /// each, and without this bound a lucky one would promise a gain that contention does not bring.
    pub(super) fn alone(&self) -> Option<f64> {
        let rate = |rate: Option<Rate>| rate.map(Rate::bytes_per_s);
        match (rate(self.alone), rate(self.together)) {
            (Some(alone), Some(together)) => Some(alone.max(together)),
            (alone, together) => alone.or(together),
        }
    }

    /// The target's rate while the other one works in B/s; `None` if it has never worked.
    pub(super) fn together(&self) -> Option<f64> {
        self.together.or(self.alone).map(Rate::bytes_per_s)
    }

    /// Both rates, as far as they are known.
    pub(super) fn rates(&self) -> Rates {
        Rates {
            alone: self.alone.map(Rate::bytes_per_s),
            together: self.together.map(Rate::bytes_per_s),
        }
    }

    /// Returns `true` if the target counts as stopped. Its rates are then upper bounds.
    pub(super) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Returns `true` if a rate of the target alone is known: observed, inherited from a
    /// neighboring size, or only a bound.
    pub(super) fn seen_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// Returns the rates as provisional first estimates for the same target at another chunk size.
    pub(super) fn inherited(&self) -> Self {
        let provisional = |rate: Option<Rate>| rate.map(|rate| Rate::of(rate.ln, true));
        Self {
            alone: provisional(self.alone),
            together: provisional(self.together),
            stopped: self.stopped,
            ..Self::default()
        }
    }

    /// Observes the bytes that the target finished in an epoch. `chunk_bytes` is at least 1.
    pub(super) fn observe(
        &mut self,
        contention: Contention,
        bytes: u64,
        busy_s: f64,
        chunk_bytes: f64,
    ) -> Change {
        if bytes == 0 {
            return self.silence(contention, busy_s, chunk_bytes);
        }
        self.was_silent = false;
        let busy_s = busy_s + std::mem::take(&mut self.silent_s);
        if busy_s <= 0.0 {
            return Change::None;
        }
        self.stopped = false;
        let ln = (bytes as f64).ln() - busy_s.ln();
        let settled = self.settled(contention);
        let (own, other) = self.pair(contention);
        let Some(rate) = own else {
            *own = Some(Rate::of(ln, false));
            if let Some(other) = other.as_mut().filter(|it| it.provisional) {
                *other = Rate::of(ln, true);
            }
            return Change::Smoothed;
        };
        let before = rate.ln;
        let change = rate.observe(ln);
        let moved = rate.ln - before;
        if let Some(other) = other.as_mut().filter(|it| settled || it.provisional) {
            *other = Rate::of(other.ln + moved, other.provisional);
        }
        self.order(contention);
        change
    }

    /// No target is much faster for having contention. If the rates show that, the one that was not
    /// just seen is out of date.
    fn order(&mut self, seen: Contention) {
        let (Some(alone), Some(together)) = (&mut self.alone, &mut self.together) else {
            return;
        };
        match seen {
            Contention::Alone => together.ln = together.ln.min(alone.ln + CONTENTION_GAIN_LN),
            Contention::Together => alone.ln = alone.ln.max(together.ln - CONTENTION_GAIN_LN),
        }
    }

    /// Records an epoch in which the target worked and finished nothing. A short one has little meaning; a
    /// longer one bounds the rate: less than one chunk in that time.
    fn silence(&mut self, contention: Contention, busy_s: f64, chunk_bytes: f64) -> Change {
        if busy_s <= 0.0 {
            // It has nothing to finish: what it had was taken from it.
            self.silent_s = 0.0;
            self.was_silent = false;
            return Change::None;
        }
        self.silent_s += busy_s;
        let bound_ln = chunk_bytes.ln() - self.silent_s.ln();
        let (seen, other) = self.pair(contention);
        let before = seen.or(*other).map_or(f64::INFINITY, |rate| rate.ln);
        if before - bound_ln <= SILENCE_CHUNKS.ln() {
            return Change::None;
        }
        if !std::mem::replace(&mut self.was_silent, true) {
            return Change::Worse;
        }
        let (seen, other) = self.pair(contention);
        *seen = Some(Rate::of(bound_ln, true));
        *other = None;
        if std::mem::replace(&mut self.stopped, true) { Change::Worse } else { Change::Reset }
    }

    /// Counts an observation. Returns `true` if there were enough in this contention.
    fn settled(&mut self, contention: Contention) -> bool {
        if self.contention == Some(contention) {
            self.in_contention = self.in_contention.saturating_add(1);
        } else {
            self.contention = Some(contention);
            self.in_contention = 1;
        }
        self.in_contention > SETTLED
    }

    fn pair(&mut self, contention: Contention) -> (&mut Option<Rate>, &mut Option<Rate>) {
        match contention {
            Contention::Alone => (&mut self.alone, &mut self.together),
            Contention::Together => (&mut self.together, &mut self.alone),
        }
    }
}

/// The device's time per epoch that is no work on bytes: opening, reconfiguration.
///
/// It begins at zero, and a single occurrence does not count, so opening the context once does not
/// condemn the device; paying at every epoch does.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Overhead {
    seconds: f64,
    outside: Outside,
}

impl Overhead {
    pub(super) fn seconds(self) -> f64 {
        self.seconds
    }

    /// Takes the overhead of an epoch in which the device was used, in addition to `busy_s` of work.
    ///
    /// "Far off" is judged by the effect on the device's whole time, as for rates.
    pub(super) fn observe(&mut self, seconds: f64, busy_s: f64) -> Change {
        let seconds = seconds.clamp(0.0, OVERHEAD_S_MAX);
        let busy_s = busy_s.clamp(1e-9, OVERHEAD_S_MAX);
        let believed_s = busy_s + self.seconds;
        let difference = ((busy_s + seconds) / believed_s).ln();
        let (step, reset) = self.outside.take(difference);
        self.seconds = if reset {
            seconds
        } else if self.outside.side != 0 {
            (believed_s * step.exp() - busy_s).clamp(0.0, OVERHEAD_S_MAX)
        } else {
            self.seconds + WEIGHT * (seconds - self.seconds)
        };
        match self.outside.side {
            _ if reset => Change::Reset,
            1 => Change::Worse,
            -1 => Change::Better,
            _ => Change::Smoothed,
        }
    }
}
