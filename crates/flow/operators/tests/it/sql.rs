//! Tests of filters and projections, with the results of DuckDB or Postgres.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::SchemaRef;
use overside_flow_operators::Error;
use overside_flow_operators::{Filter, Projection};
use overside_tables::Error as TableError;

fn table() -> RecordBatch {
    let decimals = Decimal128Array::from(vec![Some(150), None, Some(-275), Some(0), Some(1000)]);
    let decimals = decimals.with_precision_and_scale(10, 2).expect("a type");
    let times = [Some(1_641_168_000_000_000), Some(1_641_168_003_000_000), None, Some(0), Some(5)];
    let names = [Some("ISLAND"), Some("a%b"), None, Some(""), Some("line\nbreak")];
    let days = Date32Array::from(vec![Some(18_993), Some(18_994), None, Some(18_995), Some(0)]);
    let port: DictionaryArray<types::Int8Type> = ["aa", "b", "aa", "c", "b"].into_iter().collect();
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("row", create_array!(Int32, [0, 1, 2, 3, 4]), false),
        ("i", create_array!(Int64, [Some(1), Some(2), None, Some(-4), Some(5)]), true),
        ("u", create_array!(UInt8, [Some(1), Some(200), Some(3), None, Some(0)]), true),
        (
            "x",
            create_array!(Float64, [Some(0.5), Some(-0.0), None, Some(f64::NAN), Some(2.0)]),
            true,
        ),
        ("f", create_array!(Float32, [Some(0.1), Some(0.2), None, Some(3.0), Some(4.0)]), true),
        ("d", Arc::new(decimals), true),
        ("day", Arc::new(days), true),
        ("at", create_array!(TimestampMicrosecond, times.to_vec()), true),
        ("Name", create_array!(Utf8, names.to_vec()), true),
        (
            "ok",
            create_array!(Boolean, [Some(true), Some(false), None, Some(true), Some(false)]),
            true,
        ),
        ("port", Arc::new(port), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("a table")
}

fn schema() -> SchemaRef {
    table().schema()
}

fn rows(text: &str) -> Vec<i32> {
    let filter = Filter::new(schema(), text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let kept = filter.apply(&table()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = kept.column(0).as_any().downcast_ref::<Int32Array>();
    rows.expect("rows").values().to_vec()
}

#[track_caller]
fn check(cases: &[(&str, &[i32])]) {
    for (text, expected) in cases {
        assert_eq!(rows(text), *expected, "{text}");
    }
}

#[test]
fn comparisons_meet_in_one_type() {
    check(&[
        ("i > 1", &[1, 4]),
        ("i = 1.0", &[0]),
        ("i < 1.5", &[0, 3]),
        ("u = 200", &[1]),
        ("u > -1", &[0, 1, 2, 4]),
        ("i = u", &[0]),
        ("x = 0", &[1]),
        ("x = 'NaN'", &[3]),
        ("x > 1e300", &[3]),
        ("f = 0.1", &[0]),
        ("d = 1.5", &[0]),
        ("d < 0.001", &[2, 3]),
        ("d >= 10", &[4]),
        ("day = '2022-01-02'", &[1]),
        ("day > DATE '2022-01-01'", &[1, 3]),
        ("at >= '2022-01-03 00:00:03'", &[1]),
        ("at = TIMESTAMP '2022-01-03 00:00:00'", &[0]),
        ("at < '1970-01-02'", &[3, 4]),
        ("Name = 'ISLAND'", &[0]),
        ("name = ''", &[3]),
        ("\"Name\" > 'b'", &[4]),
        ("port = 'aa'", &[0, 2]),
        ("ok", &[0, 3]),
        ("ok = false", &[1, 4]),
        ("9223372036854775808 > i", &[0, 1, 3, 4]),
        ("i > -9223372036854775808", &[0, 1, 3, 4]),
    ]);
}

#[test]
fn casts() {
    check(&[
        ("CAST(i AS VARCHAR) = '5'", &[4]),
        ("i::text LIKE '-%'", &[3]),
        ("CAST('2' AS BIGINT) = i", &[1]),
        ("CAST(at AS DATE) = '2022-01-03'", &[0, 1]),
        ("TRY_CAST(Name AS INTEGER) IS NULL", &[0, 1, 2, 3, 4]),
        ("CAST(d AS DOUBLE) = 1.5", &[0]),
        ("CAST(d AS DECIMAL(5,1)) = 1.5", &[0]),
    ]);
    let filter = Filter::new(schema(), "CAST(Name AS INTEGER) = 1").expect("a filter");
    assert!(filter.apply(&table()).is_err());
}

#[test]
fn patterns() {
    check(&[
        ("Name LIKE 'line_break'", &[4]),
        ("Name LIKE 'ISLAND_'", &[]),
        ("port LIKE 'a_'", &[0, 2]),
        ("port ~ '^[ab]'", &[0, 1, 2, 4]),
        ("port !~ 'a'", &[1, 3, 4]),
        ("port ~* 'A+'", &[0, 2]),
        ("regexp_matches(port, 'a')", &[0, 2]),
        ("regexp_full_match(port, 'a')", &[]),
        ("NOT regexp_full_match(port, 'a|b')", &[0, 2, 3]),
        ("regexp_like(port, 'b|c')", &[1, 3, 4]),
    ]);
    let filter = Filter::new(schema(), "Name ~ 'a'").expect("a filter");
    let error = filter.apply(&table()).expect_err("a line break").to_string();
    assert!(error.contains("line break"), "{error}");
}

/// Returns `true` if the only row of a column of text or of another type is kept.
fn keeps(column: ArrayRef, text: &str) -> Result<bool, Error> {
    let batch = RecordBatch::try_from_iter_with_nullable([("x", column, true)]).expect("a table");
    Ok(Filter::new(batch.schema(), text)?.apply(&batch)?.num_rows() == 1)
}

#[test]
fn like_goes_by_characters_whatever_a_line_is() {
    for (text, wanted) in [
        ("x LIKE 'a_😀_'", true),
        ("x LIKE '%_'", true),
        ("x LIKE '_____'", false),
        ("x LIKE '%😀_' ESCAPE '_'", false),
        ("x ILIKE 'A%'", true),
    ] {
        let column = Arc::new(StringArray::from(vec!["a\n😀é"]));
        assert_eq!(keeps(column, text).unwrap_or(false), wanted, "{text}");
    }
}

#[test]
fn a_float_is_equal_to_its_own_text() {
    let mut random = overside_base::Random::new(5);
    for _ in 0..2000 {
        let value = f64::from_bits(random.next_u64());
        let near = (random.below(1 << 53) as f64) / f64::from(1_u32 << random.below(31));
        for value in [value, near].into_iter().filter(|value| value.is_finite()) {
            for text in [format!("{value}"), format!("{value:e}"), format!("{value:.3}")] {
                let parsed: f64 = text.parse().unwrap();
                let column = Arc::new(Float64Array::from(vec![parsed]));
                assert!(keeps(column, &format!("x = {text}")).unwrap(), "{text}");
            }
            let single = value as f32;
            if single.is_finite() && single.abs() < 1e30 && single.abs() > 1e-7 {
                let column = Arc::new(Float32Array::from(vec![single]));
                assert!(keeps(column, &format!("x = {single}")).unwrap(), "{single}");
            }
        }
    }
}

#[test]
fn seconds_of_60_are_no_times() {
    let late = || Arc::new(StringArray::from(vec!["2016-12-31 23:59:60"]));
    assert!(keeps(late(), "CAST(x AS TIMESTAMP) > DATE '2000-01-01'").is_err());
    assert!(keeps(late(), "TRY_CAST(x AS TIMESTAMP) IS NULL").unwrap());
    assert!(keeps(late(), "TIMESTAMP '2016-12-31 23:59:60' > DATE '2000-01-01'").is_err());
}

#[test]
fn what_is_not_supported_is_named() {
    let cases = [
        ("length(Name) > 3", "length()"),
        ("i > (SELECT 1)", "SELECT 1"),
        ("CASE WHEN ok THEN TRUE END", "CASE"),
        ("i << 2 = 4", "<<"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("i = ANY(ARRAY[1])", "ANY"),
        ("Name SIMILAR TO 'a'", "SIMILAR TO"),
        ("day + INTERVAL '1 day' > day", "INTERVAL"),
        ("CAST(i AS UUID) = i", "UUID"),
        ("nowhere = 1", "row, i, u, x"),
        ("i", "a condition is wanted, and Int64"),
        ("i = 'five'", "five"),
        ("Name > 5", "cannot be compared"),
        ("day + 1 > day", "no arithmetic of Date32"),
        ("i = 1 nonsense", "nonsense"),
        ("i = ", "refused"),
        ("", "refused"),
        ("Name LIKE Name", "which is no text"),
        ("Name ~ '('", "pattern"),
        ("i LIKE '5'", "CAST it AS VARCHAR"),
        ("t.i = 1", "t.i"),
    ];
    for (text, expected) in cases {
        let error = Filter::new(schema(), text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn long_and_deep_expressions_are_bounded() {
    let long = format!("i = 1{}", " OR i = 2".repeat(800));
    assert_eq!(rows(&long), [0, 1]);
    let list: Vec<String> = (0..1500).map(|number| number.to_string()).collect();
    assert_eq!(rows(&format!("i IN ({})", list.join(","))), [0, 1, 4]);
    for text in [
        format!("i = 1{}", "+1".repeat(4000)),
        format!("{}i = 1{}", "(".repeat(3000), ")".repeat(3000)),
        format!("{} ok", "NOT ".repeat(2000)),
        format!("i = {}1", "- ".repeat(3000)),
        format!("i = 1{}", " OR i = 2".repeat(8000)),
    ] {
        let refused = Filter::new(schema(), &text);
        assert!(matches!(refused, Err(Error::Expression { .. })), "{}", &text[..20]);
    }
}

#[test]
fn projections_name_columns_and_make_new_ones() {
    let projection =
        Projection::new(schema(), "Name, i + 1 AS next, ok AS fine, port, 'x' AS mark");
    let projection = projection.expect("columns");
    let made = projection.apply(&table()).expect("a batch");
    assert_eq!(made.schema(), *projection.schema());
    let names: Vec<String> = made.schema().fields().iter().map(|one| one.name().clone()).collect();
    assert_eq!(names, ["Name", "next", "fine", "port", "mark"]);
    let next: ArrayRef =
        Arc::new(Int64Array::from(vec![Some(2), Some(3), None, Some(-3), Some(6)]));
    assert_eq!(made.column(1), &next);
    let mark: ArrayRef = Arc::new(StringArray::from(vec!["x"; 5]));
    assert_eq!(made.column(4), &mark);
    let all = Projection::new(schema(), "*").expect("columns").apply(&table());
    assert_eq!(all.expect("a batch").columns(), table().columns());
    let error = Projection::new(schema(), "count(*)").expect_err("an aggregate");
    assert!(error.to_string().contains("count()"), "{error}");
}

#[test]
fn another_schema_is_refused() {
    let filter = Filter::new(schema(), "ok").expect("a filter");
    let other = table().project(&[0, 1]).expect("columns");
    assert!(matches!(filter.apply(&other), Err(Error::Table(TableError::SchemaChange { .. }))));
}
