//! Tables that are generated from a seed, for use without a sample of real ones. Both are snapshots, as a
//! simulation or a receiver emits them: all objects at one time, ordered by position, then all at the next.

mod particles;
mod ships;

use std::fmt;
use std::str::FromStr;

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

impl Generated {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Particles, Self::Ships];

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

impl fmt::Display for Generated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Particles => "particles",
            Self::Ships => "ships",
        })
    }
}

impl FromStr for Generated {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(|one| one.to_string()).join(", ");
        (Self::ALL.into_iter())
            .find(|one| one.to_string() == text)
            .ok_or_else(|| format!("there is no generator {text:?}; there are: {}", known()))
    }
}
