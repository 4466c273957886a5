//! Tables that are generated from a seed, for use without a sample of real ones. Both are snapshots, as a
//! simulation or a receiver emits them: all objects at one time, ordered by position, then all at the next.

mod particles;
mod ships;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

/// Kinds of tables that can be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generated {
    /// Particles of a simulation: an id and nine floating-point columns, including time.
    Particles,
    /// Positions of ships in the format of AIS, 17 columns.
    Ships,
}

overside_base::words! { Generated, "there is no generator"; Particles "particles", Ships "ships" }

impl Generated {
    /// Returns the schema of the batches.
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Particles => particles::schema(),
            Self::Ships => ships::schema(),
        }
    }

    /// Yields batches of one snapshot each, with `objects` rows, without an end. The same seed gives the same
    /// rows.
    pub fn snapshots(self, objects: usize, seed: u64) -> Box<dyn Iterator<Item = RecordBatch>> {
        match self {
            Self::Particles => Box::new(particles::Simulation::new(objects, seed)),
            Self::Ships => Box::new(ships::Fleet::new(objects, seed)),
        }
    }
}
