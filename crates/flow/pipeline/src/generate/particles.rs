//! Particles that move through a periodic box and are attracted by the centers of clusters.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use overside_base::Random;

/// Length of an edge of the box.
const EDGE: f64 = 256.0;
const CLUSTERS: usize = 32;
const STEP: f64 = 0.1;
/// Number of cells along an edge; a snapshot's rows are ordered by cell.
const CELLS: f64 = 16.0;

pub(super) fn schema() -> SchemaRef {
    let float = |name: &str| Field::new(name, DataType::Float64, false);
    let mut fields = vec![Field::new("id", DataType::Int64, false)];
    fields.extend(["t", "x", "y", "z", "vx", "vy", "vz", "mass", "charge"].map(float));
    Arc::new(Schema::new(fields))
}

struct Particle {
    id: i64,
    at: [f64; 3],
    speed: [f64; 3],
    mass: f64,
    charge: f64,
    cluster: usize,
}

pub(super) struct Simulation {
    particles: Vec<Particle>,
    centers: Vec<[f64; 3]>,
    step: u64,
}

impl Simulation {
    pub(super) fn new(objects: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let centers: Vec<[f64; 3]> =
            (0..CLUSTERS).map(|_| [(); 3].map(|()| random.uniform() * EDGE)).collect();
        let mut ids: Vec<i64> = (0..objects as i64).collect();
        random.shuffle(&mut ids);
        let particles = ids.into_iter().map(|id| {
            let cluster = random.below(CLUSTERS as u64) as usize;
            let spread = random.exponential(EDGE / 24.0);
            Particle {
                id,
                at: centers[cluster].map(|at| wrapped(at + spread * normal(&mut random))),
                speed: [(); 3].map(|()| normal(&mut random)),
                mass: random.exponential(1.0),
                charge: [-1.0, 0.0, 1.0][random.below(3) as usize],
                cluster,
            }
        });
        Self { particles: particles.collect(), centers, step: 0 }
    }

    fn advance(&mut self) {
        for particle in &mut self.particles {
            let center = self.centers[particle.cluster];
            for (axis, middle) in center.into_iter().enumerate() {
                // The nearest image of the center, because the box is periodic.
                let far = middle - particle.at[axis];
                let far = far - EDGE * (far / EDGE).round();
                particle.speed[axis] += STEP * far / (1.0 + far.abs());
                particle.at[axis] = wrapped(particle.at[axis] + STEP * particle.speed[axis]);
            }
        }
        self.step += 1;
        self.particles.sort_unstable_by_key(|particle| {
            let cells = particle.at.map(|at| (at / EDGE * CELLS) as u32);
            (cells, particle.id)
        });
    }
}

impl Iterator for Simulation {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        self.advance();
        let time = self.step as f64 * STEP;
        let floats = |of: &dyn Fn(&Particle) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(self.particles.iter().map(of)))
        };
        let ids = self.particles.iter().map(|particle| particle.id);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids)),
            floats(&|_| time),
            floats(&|particle| particle.at[0]),
            floats(&|particle| particle.at[1]),
            floats(&|particle| particle.at[2]),
            floats(&|particle| particle.speed[0]),
            floats(&|particle| particle.speed[1]),
            floats(&|particle| particle.speed[2]),
            floats(&|particle| particle.mass),
            floats(&|particle| particle.charge),
        ];
        RecordBatch::try_new(schema(), columns).ok()
    }
}

fn wrapped(at: f64) -> f64 {
    at.rem_euclid(EDGE).min(EDGE.next_down())
}

/// Draws a normally distributed number with mean 0 and deviation 1 (Box and Muller, 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.uniform()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.uniform()).cos()
}
