//! The names of operations.

use std::collections::HashSet;

use overside_ops::{Error, Format, Operation};

#[test]
fn an_operation_is_its_name_in_text_and_in_json() {
    let mut names = HashSet::new();
    for operation in Operation::all() {
        let name = operation.to_string();
        assert_eq!(name.parse(), Ok(operation));
        let json = serde_json::to_string(&operation).unwrap();
        assert_eq!(json, format!("{name:?}"));
        let read: Operation = serde_json::from_str(&json).unwrap();
        assert_eq!(read, operation);
        assert!(names.insert(name));
    }
    let deflate = Operation::Compress(Format::Deflate);
    assert_eq!(deflate.to_string(), "compress-deflate");
}

#[test]
fn what_is_no_operation_is_named() {
    let unknown = Error::UnknownOperation("compress".into());
    assert_eq!("compress".parse::<Operation>(), Err(unknown));
    for json in [r#""compress""#, r#"{"operation":"copy"}"#, "3", "null"] {
        let read: Result<Operation, _> = serde_json::from_str(json);
        assert!(read.is_err(), "{json}");
    }
}
