//! What is believed of one target, learned from what it did.

use super::reason::Rates;

/// The weight of a new observation in an exponentially weighted mean.
pub(super) const WEIGHT: f64 = 0.3;
/// How far, in natural logarithms, an observation may be from what is believed before it is taken
/// for a change instead of noise.
pub(super) const STEP_LN: f64 = 0.3;
/// A target that finishes nothing in so many times the time of one chunk, in two epochs in a row, has
/// stopped. In one alone it may have hiccuped.
const SILENCE_CHUNKS: f64 = 4.0;
/// How much faster, as a logarithm, a target may seem in contention than alone: noise.
const CONTENTION_GAIN_LN: f64 = 0.1;
/// Observations after which a rate has settled: 6 % of what it began with is left in the mean.
const SETTLED: u8 = 8;
/// Rates are kept between 1 B/s and e^44 B/s (13 EB/s), so that no arithmetic on them overflows.
const RATE_LN_MAX: f64 = 44.0;
/// No overhead is longer than this. Thirty years.
const OVERHEAD_S_MAX: f64 = 1e9;

/// What an observation did to an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing was learned.
    None,
    /// It agreed, or was the first.
    Smoothed,
    /// It was far off, for the better. The next one decides.
    Better,
    /// It was far off, for the worse. The next one decides.
    Worse,
    /// The second in a row that was far off: the estimate is now what was observed.
    Reset,
}

/// Two in a row on the same side are a step; one alone, or one on each side, is noise.
#[derive(Debug, Clone, Copy, Default)]
struct Outside {
    /// -1, 0 or 1: the side of the last observation that was far off.
    side: i8,
}

impl Outside {
    /// How far an estimate goes towards an observation that is `difference` away (both logarithms),
    /// and whether it is a step. A first observation that is far off counts as one at the edge.
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
    /// Not seen here: a bound from a target that finished nothing, or a neighbour's rate. The first rate
    /// seen replaces it.
    provisional: bool,
}

impl Rate {
    fn of(ln: f64, provisional: bool) -> Self {
        Self {
            ln: ln.clamp(0.0, RATE_LN_MAX),
            outside: Outside::default(),
            provisional,
        }
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

/// Whether a target had the bytes to itself.
///
/// A target alone and a target beside another have different rates: the thread that feeds the device is
/// also the CPU's, and both use the same memory. What a target does in a split counts as together, even
/// where the other one was done early: it is the rate that the fraction leads to, and following it
/// leads to the fraction at which both are done together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contention {
    Alone,
    Together,
}

/// The two rates of a target.
///
/// Only one of the two is seen at a time. What moves it (other data, a slower clock, a neighbour)
/// moves the other, too. So the first observations in a contention tell what contention costs, and after
/// them what moves the one rate shifts the other by the same factor.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TargetRates {
    alone: Option<Rate>,
    together: Option<Rate>,
    /// The contention of the last observation, and how many in a row were made in it.
    contention: Option<Contention>,
    in_contention: u8,
    /// It was given work and finished nothing for so long that it counts as stopped.
    stopped: bool,
    /// Time at work on chunks of which none is finished yet.
    silent_s: f64,
    /// The last epoch was one of silence longer than is to be expected.
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

    /// Whether the target counts as stopped: its rates are bounds.
    pub(super) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Whether the target was ever seen alone.
    pub(super) fn seen_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// What is known of this target, as a first belief about the same target at another size.
    pub(super) fn inherited(&self) -> Self {
        let provisional = |rate: Option<Rate>| rate.map(|rate| Rate::of(rate.ln, true));
        Self {
            alone: provisional(self.alone),
            together: provisional(self.together),
            stopped: self.stopped,
            ..Self::default()
        }
    }

    /// Takes what the target finished in an epoch. `chunk_bytes` is at least 1.
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

    /// No target is much faster for having contention. Where the rates say so, the one that was not just
    /// seen is out of date.
    fn order(&mut self, seen: Contention) {
        let (Some(alone), Some(together)) = (&mut self.alone, &mut self.together) else {
            return;
        };
        match seen {
            Contention::Alone => together.ln = together.ln.min(alone.ln + CONTENTION_GAIN_LN),
            Contention::Together => alone.ln = alone.ln.max(together.ln - CONTENTION_GAIN_LN),
        }
    }

    /// An epoch in which the target worked and finished nothing. In a short epoch that says little; as
    /// it goes on, it bounds the rate: less than one chunk in that time.
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
        if std::mem::replace(&mut self.stopped, true) {
            Change::Worse
        } else {
            Change::Reset
        }
    }

    /// Counts an observation, and says whether there were enough in this contention.
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
/// It begins at nothing and one occurrence is not believed, so opening the context once does not
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

    /// Takes the overhead of an epoch in which the device was used, beside `busy_s` of work.
    ///
    /// "Far off" is judged by what it does to the device's whole time, as for rates.
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
