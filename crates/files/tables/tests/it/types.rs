//! Tests of the table of types.

use overside_tables::types;

#[test]
fn the_documentation_has_the_table() {
    let documented = include_str!("../../../../../docs/flow/table-types.md");
    let table = types::markdown();
    assert!(documented.contains(&table), "docs/flow/table-types.md is to have\n{table}");
}
