//! Tests of the service's promises for batches that wait, through its public interface.

mod checks;
mod hostile;
mod metadata;
mod queue;
mod spill;
