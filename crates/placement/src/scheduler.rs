//! Who decides: which target a chunk is for.

use overside_device::Clock;

use crate::adaptive::{AdaptiveScheduler, TargetState};
use crate::report::DecisionRecord;
use crate::split::WeightedSplit;
use crate::{Policy, Target};

/// A policy at work.
pub(crate) enum Scheduler {
    /// All chunks are one target's.
    Only(Target),
    /// A fixed part of the bytes is the device's.
    Split(WeightedSplit),
    /// Both targets take chunks from one queue, as the controller lets them.
    Adaptive(Box<AdaptiveScheduler>),
}

impl Scheduler {
    pub(crate) fn new(policy: Policy, clock: Clock) -> Self {
        match policy {
            Policy::Cpu => Self::Only(Target::Cpu),
            Policy::Device => Self::Only(Target::Device),
            Policy::Split(percent) => Self::Split(WeightedSplit::new(percent / 100.0)),
            Policy::Adaptive => Self::Adaptive(Box::new(AdaptiveScheduler::new(clock))),
        }
    }

    /// Whose a chunk is that was pushed, by its bytes on the uncompressed side; `None`: whoever
    /// asks first.
    pub(crate) fn route(&mut self, bytes: usize) -> Option<Target> {
        match self {
            Self::Only(target) => Some(*target),
            Self::Split(split) => Some(split.next(bytes)),
            Self::Adaptive(_) => None,
        }
    }

    /// Whether a target may have the next of the chunks that are for both, and what was decided
    /// anew.
    pub(crate) fn may_take(
        &mut self,
        target: Target,
        bytes: u64,
        waiting_bytes: u64,
        states: &[TargetState; 2],
    ) -> (bool, Option<DecisionRecord>) {
        match self {
            Self::Adaptive(adaptive) => {
                let decided = adaptive.begin_epoch(states);
                let may_take = adaptive.may_take(target, bytes, waiting_bytes, states);
                (may_take, decided)
            }
            Self::Only(_) | Self::Split(_) => (target == Target::Cpu, None),
        }
    }

    pub(crate) fn adaptive(&mut self) -> Option<&mut AdaptiveScheduler> {
        match self {
            Self::Adaptive(adaptive) => Some(adaptive),
            Self::Only(_) | Self::Split(_) => None,
        }
    }

    pub(crate) fn is_adaptive(&self) -> bool {
        matches!(self, Self::Adaptive(_))
    }

    /// Whether the device gets chunks for more than to see how fast it is.
    pub(crate) fn uses_device(&self) -> bool {
        match self {
            Self::Only(target) => *target == Target::Device,
            Self::Split(_) => true,
            Self::Adaptive(adaptive) => adaptive.uses_device(),
        }
    }
}
