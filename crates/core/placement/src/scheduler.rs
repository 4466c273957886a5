//! Assignment of chunks to targets, by the policy.

use overside_device::Clock;

use crate::adaptive::{AdaptiveScheduler, TargetStates};
use crate::report::DecisionRecord;
use crate::split::WeightedSplit;
use crate::{Policy, Target};

/// Policy in use.
pub(crate) enum Scheduler {
    /// All chunks are one target's.
    Only(Target),
    /// A fixed part of the bytes is each device's.
    Split(WeightedSplit),
    /// Targets take chunks from one queue, as the controller lets them.
    Adaptive(Box<AdaptiveScheduler>),
}

impl Scheduler {
    /// Scheduler for `devices` devices.
    pub(crate) fn new(policy: Policy, devices: usize, clock: Clock) -> Self {
        let adaptive = |first: Target| {
            let targets = first.index()..devices + 1;
            Self::Adaptive(Box::new(AdaptiveScheduler::new(clock, targets)))
        };
        match policy {
            Policy::Cpu => Self::Only(Target::Cpu),
            Policy::Device if devices > 1 => adaptive(Target::Device(0)),
            Policy::Device => Self::Only(Target::Device(0)),
            Policy::Split(shares) => Self::Split(WeightedSplit::new(&shares)),
            Policy::Adaptive => adaptive(Target::Cpu),
        }
    }

    /// Returns the target of a pushed chunk, by its bytes on the uncompressed side. `None` means
    /// the first free target.
    pub(crate) fn route(&mut self, bytes: usize) -> Option<Target> {
        match self {
            Self::Only(target) => Some(*target),
            Self::Split(split) => Some(split.next(bytes)),
            Self::Adaptive(_) => None,
        }
    }

    /// Returns `true` if a target may have the next chunk of the shared queue, together with the
    /// decisions that were newly made.
    pub(crate) fn may_take(
        &mut self,
        target: Target,
        bytes: u64,
        waiting_bytes: u64,
        states: &TargetStates,
    ) -> (bool, Vec<DecisionRecord>) {
        match self {
            Self::Adaptive(adaptive) => {
                let decided = adaptive.begin_epochs(states);
                let may_take = adaptive.may_take(target, bytes, waiting_bytes, states);
                (may_take, decided)
            }
            Self::Only(_) | Self::Split(_) => (target == Target::Cpu, Vec::new()),
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

    /// Returns `true` if devices get chunks for more than measuring their rates.
    pub(crate) fn uses_device(&self) -> bool {
        match self {
            Self::Only(target) => target.is_device(),
            Self::Split(_) => true,
            Self::Adaptive(adaptive) => adaptive.uses_device(),
        }
    }
}
