//! The rate that a placement carries, and the cores that it takes at a rate.
//!
//! Everything a workload takes grows with the rate that enters it, so the demand of one byte a
//! second describes it. `n` cards do as much of each of their stages as their engines and links
//! allow; the cores do the rest. The cores in use are then, for a fixed `n`, a rising piecewise
//! linear function of the rate, with a bend where the cards of a stage are used up, and convex in
//! rate and `n` together wherever feeding a card takes less of a core than doing its work. So
//!
//! 1. the capacity with `n` cards is found bend by bend, exactly;
//! 2. the best `n` is found by bisection over the differences of neighbors.

/// Resources that a workload takes for each byte a second that enters it.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    pub stages: Vec<StageDemand>,
    /// Share of the network.
    pub network: f64,
    /// Cores that wait for one card, however busy it is.
    pub driving: f64,
}

/// Resources that one stage takes for each byte a second that enters the workload.
#[derive(Clone, Debug)]
pub(super) struct StageDemand {
    /// Cores that do it; `None` if the rate of one core is not known.
    pub cores: Option<f64>,
    /// Resources that the stage takes on the cards; `None` if it is not on the cards.
    pub offload: Option<Offload>,
}

/// A stage on the cards.
#[derive(Clone, Debug)]
pub(super) struct Offload {
    /// Cards that do it together with the stages that share its engine and its link.
    pub cards: f64,
    /// Number of cores that feed the cards.
    pub cores: f64,
}

/// Available cores and cards; infinite where they are not limited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub cores: f64,
    pub cards: f64,
}

impl Demand {
    /// Cards that one byte a second keeps busy: of their busiest part.
    pub(super) fn cards(&self) -> f64 {
        self.offloads().map(|one| one.cards).fold(0.0, f64::max)
    }

    fn offloads(&self) -> impl Iterator<Item = &Offload> {
        self.stages.iter().filter_map(|stage| stage.offload.as_ref())
    }

    /// Bytes a second that `limits` and the network carry; infinite if nothing is used up.
    pub(super) fn capacity(&self, limits: Limits) -> f64 {
        let network = if self.network > 0.0 { 1.0 / self.network } else { f64::INFINITY };
        let payable =
            if self.driving > 0.0 { (limits.cores / self.driving).floor() } else { f64::INFINITY };
        let most = limits.cards.min(payable);
        let carried = if self.cards() == 0.0 {
            self.carried(limits.cores, 0.0)
        } else if most.is_infinite() || self.driving == 0.0 {
            self.carried(limits.cores, most)
        } else {
            let count = least_at(0.0, most, |n| -self.carried(limits.cores, n));
            self.carried(limits.cores, count)
        };
        carried.min(network)
    }

    /// Cards to use at a rate, so that it takes the fewest cores.
    pub(super) fn count(&self, rate: f64, limits: Limits) -> f64 {
        let needed = |offload: &Offload| (offload.cards * rate).ceil();
        let most = self.offloads().map(needed).fold(0.0, f64::max);
        // What no core is known to do is the cards' alone.
        let alone = self.stages.iter().filter(|stage| stage.cores.is_none());
        let least = alone.filter_map(|stage| stage.offload.as_ref().map(needed));
        let most = most.min(limits.cards);
        let least = least.fold(0.0, f64::max).min(most);
        if self.driving == 0.0 {
            return most;
        }
        least_at(least, most, |n| {
            let busy = |stage: &StageDemand| stage.busy(rate, n).unwrap_or(f64::INFINITY);
            self.driving * n + self.stages.iter().map(busy).sum::<f64>()
        })
    }

    /// Bytes a second that `cores` and `cards` carry with all of the cards in use.
    fn carried(&self, cores: f64, cards: f64) -> f64 {
        // Cores without limit have room for any number of cards.
        let idle = if self.driving > 0.0 && cores.is_finite() { self.driving * cards } else { 0.0 };
        // Where the cards of a stage are used up, and where they must not be.
        let bend = |offload: &Offload| cards / offload.cards;
        let mut bends: Vec<f64> = self.offloads().map(bend).collect();
        bends.sort_by(f64::total_cmp);
        let alone = (self.stages.iter()).filter(|stage| stage.cores.is_none());
        let end = (alone.filter_map(|stage| stage.offload.as_ref().map(bend)))
            .fold(f64::INFINITY, f64::min);
        let (mut rate, mut used) = (0.0, idle);
        for bend in bends.into_iter().chain([f64::INFINITY]) {
            let bend = bend.min(end);
            let slope: f64 = (self.stages.iter())
                .map(|stage| match &stage.offload {
                    Some(offload) if rate < cards / offload.cards => offload.cores,
                    _ => stage.cores.unwrap_or(0.0),
                })
                .sum();
            let reach =
                if slope > 0.0 { rate + (cores - used).max(0.0) / slope } else { f64::INFINITY };
            if reach <= bend {
                return reach;
            }
            if bend >= end {
                return end;
            }
            used += slope * (bend - rate);
            rate = bend;
        }
        rate
    }
}

impl StageDemand {
    /// The share that `cards` do at a rate.
    pub(super) fn share(&self, rate: f64, cards: f64) -> f64 {
        match &self.offload {
            Some(offload) => (cards / (offload.cards * rate)).min(1.0),
            None => 0.0,
        }
    }

    /// Cores that it takes at a rate beside `cards`; `None` if the rate of one core is not known.
    pub(super) fn busy(&self, rate: f64, cards: f64) -> Option<f64> {
        let share = self.share(rate, cards);
        let feeding = (self.offload.as_ref()).map_or(0.0, |one| one.cores * rate * share);
        let left = rate * (1.0 - share);
        Some(if left > 0.0 { feeding + left * self.cores? } else { feeding })
    }
}

/// The whole number from `low` to `high` at which a convex function is least.
fn least_at(mut low: f64, mut high: f64, of: impl Fn(f64) -> f64) -> f64 {
    while low < high {
        let middle = ((low + high) / 2.0).floor();
        if of(middle) > of(middle + 1.0) {
            low = middle + 1.0;
        } else {
            high = middle;
        }
    }
    low
}
