//! Checks that must hold for any text that is read as a pipeline; used by tests and the fuzzer.

use std::path::Path;

use overside_flow::{Definition, StageDefinition};

/// Checks that data are a definition, or an error with a position. A definition's stages must be the same
/// after serialization.
pub(crate) fn definition(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Definition::parse("file", text, Path::new("/nowhere")) {
        Ok(definition) => {
            assert!(!definition.outputs.is_empty());
            for stage in &definition.stages {
                let travelled = StageDefinition::parse("host", &stage.to_toml());
                assert_eq!(travelled.as_ref(), Ok(stage));
            }
            let partitions = definition.partitions();
            let last = partitions.map_or(0, |count| count);
            for partition in [Some(0), Some(last)] {
                let partition = partition.filter(|_| partitions.is_some());
                assert!(definition.routes(partition).next().is_some());
            }
        }
        Err(error) => assert!(error.to_string().starts_with("file")),
    }
    let _ = StageDefinition::parse("stage", text);
}
