//! Scaling over cores by the universal scalability law.
//!
//! With `n` cores the throughput is `n / (1 + sigma (n - 1) + kappa n (n - 1))` times that of one:
//! `sigma` is the share that waits for a shared resource, `kappa` the cost of each pair of them.

/// Growth of throughput with the number of cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scaling {
    /// Contention: waiting for shared resources; 0 without any.
    pub sigma: f64,
    /// Coherency: agreement between the parts; 0 without any.
    pub kappa: f64,
}

/// The law fitted to measured points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// Throughput of one core.
    pub one_core: f64,
    /// Growth of throughput with the number of cores.
    pub scaling: Scaling,
}

impl Scaling {
    /// Returns the throughput of `cores` cores over that of one core.
    pub(crate) fn capacity(self, cores: f64) -> f64 {
        cores / (1.0 + self.sigma * (cores - 1.0) + self.kappa * cores * (cores - 1.0))
    }
}

impl Fit {
    /// Least squares of the relative errors at (cores, throughput). With fewer than four points
    /// `kappa` stays 0: they determine two parameters at most. `None` if the points are at fewer
    /// than two numbers of cores, or are not positive.
    pub(crate) fn of(points: &[(f64, f64)]) -> Option<Self> {
        let sound = |(cores, rate): &(f64, f64)| {
            *cores >= 1.0 && *rate > 0.0 && cores.is_finite() && rate.is_finite()
        };
        let differ = points.iter().any(|(cores, _)| *cores != points[0].0);
        if !points.iter().all(sound) || !differ {
            return None;
        }
        let enough = points.len() >= 4;
        // A negative cost is none: the next simpler law is fitted instead.
        [(true, enough), (true, false), (false, false)]
            .into_iter()
            .filter(|(_, kappa)| !kappa || enough)
            .find_map(|(sigma, kappa)| Self::with(points, sigma, kappa))
    }

    /// `cores / throughput = a + b (cores - 1) + c cores (cores - 1)` is linear in its unknowns:
    /// `a` is the time of one core, `sigma` is `b / a`, `kappa` is `c / a`.
    fn with(points: &[(f64, f64)], sigma: bool, kappa: bool) -> Option<Self> {
        let terms = 1 + usize::from(sigma) + usize::from(kappa);
        let mut normal = [[0.0; 4]; 3];
        for (cores, rate) in points {
            let weight = rate / cores;
            let row = [1.0, cores - 1.0, cores * (cores - 1.0)].map(|term| term * weight);
            for i in 0..terms {
                for j in 0..terms {
                    normal[i][j] += row[i] * row[j];
                }
                normal[i][3] += row[i];
            }
        }
        let [a, b, c] = solve(normal, terms)?;
        let scaling = Scaling { sigma: b / a, kappa: c / a };
        let sound = a > 0.0 && scaling.sigma >= 0.0 && scaling.kappa >= 0.0;
        sound.then_some(Self { one_core: 1.0 / a, scaling })
    }
}

/// Gauss's elimination of up to three equations; unknowns without an equation are 0.
fn solve(mut rows: [[f64; 4]; 3], terms: usize) -> Option<[f64; 3]> {
    for i in 0..terms {
        let pivot = (i..terms).max_by(|a, b| rows[*a][i].abs().total_cmp(&rows[*b][i].abs()))?;
        rows.swap(i, pivot);
        if rows[i][i].abs() < 1e-12 {
            return None;
        }
        for j in 0..terms {
            if i != j {
                let factor = rows[j][i] / rows[i][i];
                let from = rows[i];
                for (value, other) in rows[j].iter_mut().zip(from) {
                    *value -= factor * other;
                }
            }
        }
    }
    let mut found = [0.0; 3];
    for i in 0..terms {
        found[i] = rows[i][3] / rows[i][i];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b.abs().max(1e-3)
    }

    #[test]
    fn the_law_that_made_the_points_is_found_again() {
        let made = Scaling { sigma: 0.05, kappa: 0.002 };
        let points = [1.0, 2.0, 4.0, 8.0, 16.0].map(|n| (n, 30.0 * made.capacity(n)));
        let fit = Fit::of(&points).unwrap();
        assert!(near(fit.one_core, 30.0) && near(fit.scaling.sigma, 0.05));
        assert!(near(fit.scaling.kappa, 0.002));
    }

    #[test]
    fn two_points_are_met_exactly_and_need_not_hold_one_core() {
        for points in [[(1.0, 3.0), (16.0, 12.0)], [(2.0, 5.0), (8.0, 11.0)]] {
            let fit = Fit::of(&points).unwrap();
            for (cores, rate) in points {
                assert!(near(fit.one_core * fit.scaling.capacity(cores), rate));
            }
        }
    }

    #[test]
    fn more_than_proportional_counts_as_proportional() {
        let fit = Fit::of(&[(1.0, 1.0), (4.0, 4.2)]).unwrap();
        assert_eq!(fit.scaling.sigma, 0.0);
        assert!((1.0..1.05).contains(&fit.one_core));
    }

    #[test]
    fn one_number_of_cores_says_nothing_of_scaling() {
        assert_eq!(Fit::of(&[]), None);
        assert_eq!(Fit::of(&[(8.0, 3.0), (8.0, 3.1)]), None);
        assert_eq!(Fit::of(&[(1.0, 3.0), (8.0, 0.0)]), None);
    }
}
