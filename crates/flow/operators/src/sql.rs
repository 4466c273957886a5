//! SQL expressions over the columns of a batch: parsed by `sqlparser` in Postgres' dialect, checked against a
//! schema, and evaluated by Arrow's kernels.
//!
//! Supported: comparisons, `AND`, `OR`, `NOT` (in three-valued logic), `IN`, `BETWEEN`, `IS [NOT] NULL`, `IS
//! [NOT] TRUE`, `IS [NOT] FALSE`, `IS [NOT] DISTINCT FROM`, `+ - * / %`, `CAST`, `TRY_CAST`, `::`, `LIKE`,
//! `ILIKE`, and regular expressions. Anything else is refused by name.
//!
//! Where database systems differ: `/` is division of floats, as in DuckDB; `%` by 0 is null; a text literal
//! gets the type of the value that it is compared with; NaN equals itself and is above all other numbers; `~`
//! searches, as in Postgres, as do `regexp_like` and DuckDB's `regexp_matches`, while `regexp_full_match`
//! must match the whole value.

mod cast;
mod coerce;
mod evaluate;
mod expression;
mod literal;
mod node;
mod pattern;

pub(super) use cast::cast;
pub use expression::{Filter, Projection, type_named};
pub use literal::from_text as literal;

use crate::Error;

fn refused(reason: String) -> Error {
    Error::Expression { reason }
}

fn unsupported(what: &str) -> Error {
    let mut what: String = what.chars().take(80).collect();
    what.insert(0, '`');
    refused(format!("{what}` is not supported"))
}
