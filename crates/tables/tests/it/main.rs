//! What a reader of tables promises, through its public interface.

mod csv;
mod parquet;
