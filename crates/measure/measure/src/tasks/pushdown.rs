//! `pushdown`: a query on a table that is served near storage, which
//! `python/overside/tasks/pushdown.py` runs.

use super::spec::{Charts, Labels, Parameter, Report, TaskSpec, axis, higher, lower};

/// Ways in which rows reach a client, with their titles.
const WAYS: [(&str, &str); 3] = [
    ("pushdown", "columns and filter pushed down"),
    ("whole-table", "whole table fetched"),
    ("local", "DuckDB beside the file"),
];
const ROWS: [(&str, &str); 2] =
    [("scattered", "rows scattered over the file"), ("clustered", "rows side by side in the file")];

/// Parameters of how the work is done, not of the work itself.
const HOW: [&str; 7] =
    ["way", "selectivity", "columns", "cores", "rate", "scale_factor", "queries"];

#[rustfmt::skip]
pub(super) fn spec() -> TaskSpec {
    let parameters = vec![
        Parameter::titled("way", "where the filter is applied: by the server, by the client on all \
            rows, or by DuckDB on the machine that has the file", WAYS).default("pushdown"),
        Parameter::titled("rows", "which rows are selected: by l_partkey, or by l_orderkey, which \
            orders the file", ROWS).default("scattered"),
        Parameter::number("scale_factor", "TPC-H's; 1 is 6 million rows and 230 MB of Parquet", 0.001,
            100.0).default(1),
        Parameter::number("selectivity", "rows that are selected", 0.001, 100.0).default(1).unit("%"),
        Parameter::integer("columns", "columns that are selected, from the first", 1, 16).default(16),
        Parameter::integer("cores", "cores of the side that has the file", 1, 256).default(1),
        Parameter::number("rate", "rate of a virtual link from server to client, on \
            which what was measured over loopback takes longer; loopback alone without one", 0.01, 400.0).unit("Gb/s"),
        Parameter::integer("queries", "queries of a sample, one after the other", 1, 1000).default(3),
    ];
    TaskSpec {
        name: "pushdown",
        description: "a filter on TPC-H lineitem, pushed down to a server near storage or not",
        operation: None,
        verified: true,
        parameters,
        metrics: vec![
            higher("rate", "rows/s", "rows of the table a second of a query: they are filtered, not \
                all of them sent"),
            lower("time", "ms", "time of a query, until the client has its result"),
            lower("link_bytes", "bytes", "bytes that the client's interface received for a query"),
            lower("server_cpu", "ms", "CPU time of the server for a query"),
            lower("client_cpu", "ms", "CPU time of the client for a query"),
        ],
        report: Report {
            // Nothing here is a buffer.
            size: "",
            labels: Labels { when: None, parameters: &["way"] },
            advised: false,
            charts: Charts::Traffic,
            axes: vec![
                axis("selectivity", "Rows that are selected, %"),
                axis("rate", "Link, Gb/s"),
                axis("cores", "Cores that serve"),
                axis("columns", "Columns that are selected"),
                axis("scale_factor", "Scale factor"),
            ],
            ..Report::new("Filter on a served table, {rows}", &HOW)
        },
    }
}
