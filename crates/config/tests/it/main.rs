//! What reading settings promises, through its public interface.

mod documents;
mod units;
