//! Work around the stages: messages and files become batches (*unpack*), and batches become messages and
//! files (*repack*). Both have a placement, and optionally a device, like stages. Their statistics have the
//! format of those of stages.

use std::sync::{Arc, Mutex};

use overside_base::lock;
use overside_placement::{Policy, Verify};
use overside_tables::pack::{CodecPool, Placement, StageTime};

use crate::Error;
use crate::definition::Definition;
use crate::definition::packing::PackingDefinition;
use crate::definition::placement::StagePlacement;
use crate::run::report::{StageCounts, StageReport};
use crate::run::runner::in_stage;

impl PackingDefinition {
    /// Returns the pool for it: the same threads, with its device.
    fn pool(&self, name: &str, pool: &Arc<CodecPool>) -> Result<Arc<CodecPool>, Error> {
        let Some(device) = self.devices() else {
            return Ok(Arc::clone(pool));
        };
        let devices = overside_backends::open_accelerators(&device, pool.threads());
        let devices = devices.map_err(|error| in_stage(name, Error::Refused(error.to_string())))?;
        let policy = match &self.placement {
            StagePlacement::Node(_) => Policy::Device,
            other => other.policy(),
        };
        Ok(Arc::new(pool.beside_devices(Placement { policy, devices, verify: Verify::All })))
    }
}

/// Both packing stages of a pipeline, for all streams.
pub struct Packing {
    /// Messages and files become batches.
    pub unpack: PackingStage,
    /// Batches become messages and files.
    pub repack: PackingStage,
}

/// Packing stage: unpack or repack.
pub struct PackingStage {
    kind: &'static str,
    placement: StagePlacement,
    pool: Arc<CodecPool>,
    counts: Mutex<StageCounts>,
}

const UNPACK: &str = "unpack";
const REPACK: &str = "repack";

impl Packing {
    /// Opens both stages as the definition describes them, on the threads of a pool. Their devices
    /// are opened here.
    ///
    /// # Errors
    /// [`Error::Stage`]: there is no such device.
    pub fn open(definition: &Definition, pool: &Arc<CodecPool>) -> Result<Self, Error> {
        Ok(Self {
            unpack: PackingStage::open(UNPACK, &definition.unpack, pool)?,
            repack: PackingStage::open(REPACK, &definition.repack, pool)?,
        })
    }

    /// Creates both stages on the pool's threads, and on its device if it has one.
    pub fn of_pool(pool: &Arc<CodecPool>) -> Self {
        let stage = |kind| PackingStage::new(kind, StagePlacement::Host, Arc::clone(pool));
        Self { unpack: stage(UNPACK), repack: stage(REPACK) }
    }

    /// Returns the statistics of unpacking and repacking so far.
    pub(crate) fn reports(&self) -> (StageReport, StageReport) {
        (self.unpack.report(), self.repack.report())
    }

    /// Returns stages with the same threads and devices and with separate statistics.
    #[must_use]
    pub fn apart(&self) -> Self {
        let stage = |of: &PackingStage| {
            PackingStage::new(of.kind, of.placement.clone(), Arc::clone(&of.pool))
        };
        Self { unpack: stage(&self.unpack), repack: stage(&self.repack) }
    }
}

impl PackingStage {
    fn open(
        kind: &'static str,
        definition: &PackingDefinition,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        let pool = definition.pool(kind, pool)?;
        Ok(Self::new(kind, definition.placement.clone(), pool))
    }

    fn new(kind: &'static str, placement: StagePlacement, pool: Arc<CodecPool>) -> Self {
        Self { kind, placement, pool, counts: Mutex::default() }
    }

    /// Returns the pool whose threads and devices compress and decompress.
    pub fn pool(&self) -> &Arc<CodecPool> {
        &self.pool
    }

    /// Runs some of its work on this thread: the stage is busy meanwhile.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        lock(&self.counts).begin();
        let _busy = Busy(&self.counts);
        work()
    }

    /// Records that these batches and rows are done, and their time.
    pub fn done(&self, batches: u64, rows: u64, time: StageTime) {
        let mut counts = lock(&self.counts);
        counts.volume.batches += batches;
        counts.volume.rows_in += rows;
        counts.volume.rows_out += rows;
        counts.volume.bytes_in += time.bytes_in;
        counts.volume.bytes_out += time.bytes_out;
        counts.host.cpu_ns += time.cpu_ns;
    }

    /// Returns the statistics so far. Bytes of the packed side are those of messages and files.
    pub fn report(&self) -> StageReport {
        let counts = lock(&self.counts);
        let executed = self.pool.reports();
        let mut report = counts.report((self.kind, self.kind), &self.placement, &executed);
        // All of it runs on the host.
        report.host.batches = counts.volume.batches;
        report.host.bytes = counts.volume.bytes_in;
        report
    }
}

/// Guard that marks the stage as busy until it is dropped.
struct Busy<'a>(&'a Mutex<StageCounts>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        lock(self.0).end();
    }
}
