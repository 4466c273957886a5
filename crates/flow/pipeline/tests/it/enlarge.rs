//! Tests of enlarged samples.

use std::collections::HashSet;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Date32Array, Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampSecondArray, UInt64Array,
};
use arrow_cast::display::array_value_to_string;
use arrow_select::concat::concat_batches;
use overside_flow::enlarge::{Enlarger, Roles};
use overside_flow::files::{FileReader, ReadOptions};
use overside_flow::generate::Generated;
use overside_flow::pack::{CodecPool, PackOptions, Packer};

fn sample(what: Generated, objects: usize, snapshots: usize) -> RecordBatch {
    let batches: Vec<_> = what.snapshots(objects, 7).take(snapshots).collect();
    concat_batches(&what.schema(), &batches).unwrap()
}

/// Returns recorded aircraft and ships if the files exist, with the columns of their ids and times.
fn recorded() -> Vec<(String, RecordBatch, &'static str, &'static str)> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../shared/data");
    let data = std::env::var_os("OVERSIDE_DATA").map_or(PathBuf::from(beside), PathBuf::from);
    let pool = Arc::new(CodecPool::new(NonZeroUsize::MIN).unwrap());
    let read = |(name, id, time): &(&'static str, &'static str, &'static str)| {
        let file = File::open(data.join(format!("{name}.parquet"))).ok()?;
        let reader = FileReader::open(file, &ReadOptions::default(), &pool).unwrap();
        let schema = reader.schema().clone();
        let batches = reader.collect::<Result<Vec<_>, _>>().unwrap();
        let sample = concat_batches(&schema, &batches).unwrap();
        Some((name.to_string(), sample, *id, *time))
    };
    let tables = [
        ("opensky/opensky_quickstart", "icao24", "timestamp"),
        ("opensky/opensky_switzerland", "icao24", "timestamp"),
        ("ais/ais_2022-01-03_99999", "MMSI", "BaseDateTime"),
    ];
    let read: Vec<_> = tables.iter().filter_map(read).collect();
    if read.len() < tables.len() {
        eprintln!("not all checked: OVERSIDE_DATA names no directory with {tables:?}");
    }
    read
}

fn enlarger(sample: &RecordBatch, id: &str, time: Option<&str>) -> Enlarger {
    let roles = Roles { id: Some(id.into()), time: time.map(Into::into), values: None };
    Enlarger::new(&sample.schema(), std::slice::from_ref(sample), &roles, 1).unwrap()
}

fn packed_len(batch: &RecordBatch, codec: &str) -> usize {
    let pool = Arc::new(CodecPool::new(NonZeroUsize::MIN).unwrap());
    let options = PackOptions { codec: codec.parse().unwrap(), ..PackOptions::default() };
    let mut packer = Packer::new(Vec::new(), batch.schema(), options, &pool).unwrap();
    packer.write(batch).unwrap();
    packer.finish().unwrap().0.len()
}

fn rows(batch: &RecordBatch) -> Vec<String> {
    let row = |row| {
        let values = batch.columns().iter().map(|array| array_value_to_string(array, row).unwrap());
        values.collect::<Vec<_>>().join(";")
    };
    (0..batch.num_rows()).map(row).collect()
}

#[test]
fn rows_do_not_repeat() {
    let made = [(Generated::Ships, "MMSI", "BaseDateTime"), (Generated::Particles, "id", "t")];
    let made = made.map(|(what, id, time)| (what.to_string(), sample(what, 300, 5), id, time));
    let twice = |(name, sample, id, time): (_, RecordBatch, _, _)| {
        let again = sample.slice(0, 7);
        let sample = concat_batches(&sample.schema(), &[sample, again]).unwrap();
        (name, sample, id, time)
    };
    for (name, sample, id, time) in made.into_iter().map(twice).chain(recorded()) {
        let distinct = rows(&sample).into_iter().collect::<HashSet<_>>().len();
        let mut seen = HashSet::new();
        for copy in enlarger(&sample, id, Some(time)).take(4) {
            let copy = copy.unwrap();
            assert_eq!(copy.num_rows(), distinct, "{name}");
            seen.extend(rows(&copy));
        }
        assert_eq!(seen.len(), 4 * distinct, "{name}");
    }
}

/// Compares the compression ratios of an enlarged table and of the sample.
#[test]
fn compression_ratios_stay_within_5_percent() {
    let made = [(Generated::Ships, "MMSI", "BaseDateTime"), (Generated::Particles, "id", "t")];
    let made = made.map(|(what, id, time)| (what.to_string(), sample(what, 6000, 10), id, time));
    for (name, sample, id, time) in made.into_iter().chain(recorded()) {
        for copy in enlarger(&sample, id, Some(time)).take(3) {
            let copy = copy.unwrap();
            for codec in ["lz4", "zstd", "zstd:3", "zstd:9"] {
                let ratio = packed_len(&copy, codec) as f64 / packed_len(&sample, codec) as f64;
                assert!((0.95..1.05).contains(&ratio), "{name} {codec}: {ratio}");
            }
        }
    }
}

#[test]
fn equal_values_stay_equal_and_in_order() {
    let sample = sample(Generated::Ships, 200, 6);
    let copy = enlarger(&sample, "MMSI", Some("BaseDateTime")).nth(1).unwrap().unwrap();
    let ids = |batch: &RecordBatch| batch.column(0).as_primitive::<Int32Type>().values().to_vec();
    let (old, new) = (ids(&sample), ids(&copy));
    assert_ne!(old, new);
    for row in 1..old.len() {
        assert_eq!(old[row - 1].cmp(&old[row]), new[row - 1].cmp(&new[row]));
    }
    // Both halves of an id come from ids of the sample.
    let low: HashSet<i32> = old.iter().map(|id| id & 1).collect();
    assert!(new.iter().all(|id| low.contains(&(id & 1))));
    // Times are later, in the same text format.
    let times = |batch: &RecordBatch| {
        batch.column(1).as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(times(&sample).iter().max() < times(&copy).iter().min());
    assert!(times(&copy).iter().all(|time| time.len() == "2022-01-03T00:00:00".len()));
    // Positions have five decimals, as in the sample.
    let latitudes = copy.column(2).as_primitive::<Float64Type>();
    assert!(latitudes.values().iter().all(|at| (at * 1e5).round() / 1e5 == *at));
    assert_ne!(sample.column(2), copy.column(2));
    // The other columns are unchanged.
    assert_eq!(sample.column(7), copy.column(7));
}

#[test]
fn values_stay_as_exact_as_they_were() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2000));
    let column = |value: fn(u64) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..2000).map(value)))
    };
    let cut = |value: f64| (value * 1e10).round() / 1e10;
    // Altitudes in steps of 25 feet; one in twenty is between two steps.
    let altitude = column(|row| match row % 20 {
        0 => 40_000.0 + row as f64 / 7.0,
        _ => (row * row * 977 % 1_000_003) as f64 * 25.0,
    });
    // A receiver's positions: fractions of two to the 16th, cut to ten decimals.
    let latitude = column(|row| {
        let exact = 45.0 + ((row * row * 977) % 131_071) as f64 / 65536.0;
        (exact * 1e10).round() / 1e10
    });
    let sample = [("id", ids), ("altitude", altitude), ("latitude", latitude)];
    let sample = RecordBatch::try_from_iter(sample).unwrap();
    let copy = enlarger(&sample, "id", None).nth(1).unwrap().unwrap();
    let values = |at: usize| copy.column(at).as_primitive::<Float64Type>().values();
    let steps = values(1).iter().filter(|value| **value % 25.0 == 0.0);
    assert!((1850..1950).contains(&steps.count()));
    for value in values(2) {
        assert_eq!(cut((value * 65536.0).round() / 65536.0), *value);
    }
    for at in [1, 2] {
        let same = (0..2000).filter(|row| {
            let old = sample.column(at).as_primitive::<Float64Type>();
            old.value(*row) == values(at)[*row]
        });
        assert!(same.count() < 200, "{at}");
    }
}

/// Receivers of aircraft count in fractions of a circle, some of which are not powers of two.
#[test]
fn endings_stay_the_ones_that_there_were() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20_000));
    let rounded = |value: f64| (value * 1e10).round() / 1e10;
    let longitudes = (0..20_000_u64).map(|row| {
        let counts = row * row * 977 % 80_000 + 300_000;
        rounded(counts as f64 * 360.0 / 59.0 / 131_072.0)
    });
    let longitudes: ArrayRef = Arc::new(Float64Array::from_iter_values(longitudes));
    let sample = RecordBatch::try_from_iter([("id", ids), ("x", longitudes)]).unwrap();
    let copy = enlarger(&sample, "id", None).nth(1).unwrap().unwrap();
    let values = |batch: &RecordBatch| -> HashSet<u64> {
        let values = batch.column(1).as_primitive::<Float64Type>().values();
        assert!(values.iter().all(|value| rounded(*value) == *value));
        values.iter().map(|value| value.to_bits()).collect()
    };
    let (old, new) = (values(&sample), values(&copy));
    assert!(new.difference(&old).count() * 2 > new.len());
    let endings = |of: HashSet<u64>| -> HashSet<u64> {
        of.into_iter().map(|bits| bits & 0xffff_ffff).collect()
    };
    let (old, new) = (endings(old), endings(new));
    assert!(new.is_subset(&old) && old.len() < 2000, "{}", old.len());
}

#[test]
fn infinite_values_do_not_become_others_that_are_no_numbers() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..300));
    let column = |at: fn(u32) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..300).map(|row| match row % 10 {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            _ => at(row * row * 977 % 1009),
        })))
    };
    // Also a column with few endings.
    let (x, y) = (column(|at| f64::from(at) * 0.37), column(|at| f64::from(at) * 0.75));
    let sample = RecordBatch::try_from_iter([("id", ids), ("x", x), ("y", y)]).unwrap();
    for copy in enlarger(&sample, "id", None).take(8) {
        let copy = copy.unwrap();
        for column in [1, 2] {
            let new = copy.column(column).as_primitive::<Float64Type>();
            assert!(new.values().iter().all(|value| !value.is_nan()));
        }
    }
}

#[test]
fn ids_may_be_strings() {
    let ids: ArrayRef = Arc::new(StringArray::from_iter((0..400).map(|row| {
        (row % 10 != 0).then(|| format!("{:02x}{:02x}a{}", row % 40, row * 7 % 50, row % 3))
    })));
    let at: ArrayRef = Arc::new(Int64Array::from_iter_values(0..400));
    let sample = RecordBatch::try_from_iter([("id", ids), ("t", at)]).unwrap();
    let copy = enlarger(&sample, "id", Some("t")).nth(2).unwrap().unwrap();
    let new = copy.column(0).as_string::<i32>();
    assert_eq!(new.null_count(), 40);
    assert!(new.iter().flatten().all(|id| id.len() == 6 && id.as_bytes()[4] == b'a'));
    assert_eq!(copy.column(1).as_primitive::<Int64Type>().value(0), 800);
}

#[test]
fn ids_stay_within_their_type() {
    let columns: [ArrayRef; 5] = [
        // Nearly all combinations of their parts are used.
        Arc::new(Int64Array::from_iter_values(0..100_000)),
        Arc::new(UInt64Array::from_iter_values((0..200).map(|n| u64::MAX - n))),
        Arc::new(Int32Array::from_iter_values([1, -1])),
        Arc::new(Int8Array::from_iter_values(-100..100)),
        Arc::new(Int64Array::from_iter_values([i64::MIN, 0, i64::MAX])),
    ];
    for ids in columns {
        let t: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ids.len() as i64));
        let sample = RecordBatch::try_from_iter([("id", ids), ("t", t)]).unwrap();
        for copy in enlarger(&sample, "id", Some("t")).take(4) {
            let copy = copy.unwrap();
            let new: HashSet<_> = rows(&copy.project(&[0]).unwrap()).into_iter().collect();
            assert_eq!(copy.column(0).null_count(), 0, "{:?}", copy.schema());
            assert_eq!(new.len(), sample.num_rows());
        }
    }
}

#[test]
fn times_that_leave_their_type_are_refused() {
    let columns: [ArrayRef; 4] = [
        Arc::new(Int64Array::from_iter_values([i64::MAX - 1, i64::MAX])),
        Arc::new(Int8Array::from_iter_values([0, 100])),
        Arc::new(Date32Array::from_iter_values([0, i32::MAX])),
        Arc::new(TimestampSecondArray::from_iter_values([i64::MAX - 1, i64::MAX])),
    ];
    for times in columns {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2));
        let sample = RecordBatch::try_from_iter([("id", ids), ("t", times)]).unwrap();
        let mut copies = enlarger(&sample, "id", Some("t"));
        let first = copies.next().expect("a copy").expect("as in the sample");
        assert_eq!(first.column(1), sample.column(1));
        let second = copies.next().expect("a copy").expect_err("too late");
        assert!(second.to_string().contains("make fewer rows"), "{second}");
    }
}

#[test]
fn the_same_seed_gives_the_same_rows() {
    let sample = sample(Generated::Particles, 100, 2);
    let twice = [(); 2].map(|()| enlarger(&sample, "id", None).nth(1).unwrap().unwrap());
    assert_eq!(twice[0], twice[1]);
    let snapshots = [(); 2].map(|()| Generated::Ships.snapshots(50, 4).nth(3));
    assert_eq!(snapshots[0], snapshots[1]);
}

#[test]
fn columns_that_cannot_play_a_role_are_refused() {
    let sample = sample(Generated::Ships, 10, 1);
    let error = |roles: Roles| {
        let made = Enlarger::new(&sample.schema(), std::slice::from_ref(&sample), &roles, 1);
        made.err().expect("an error").to_string()
    };
    let (ship, text) = (|| Some("MMSI".to_owned()), Some(vec!["CallSign".to_owned()]));
    for (id, time, values, part) in [
        (Some("LAT".into()), None, None, "LAT"),
        (None, Some("VesselName".into()), None, "VesselName"),
        (Some("nobody".into()), None, None, "MMSI"),
        (None, None, text, "CallSign"),
        (ship(), ship(), None, "at once"),
    ] {
        let error = error(Roles { id, time, values });
        assert!(error.contains(part), "{part}: {error}");
    }
    let names = sample.project(&[7]).unwrap();
    let same = Enlarger::new(&names.schema(), &[names], &Roles::default(), 1);
    assert!(same.err().expect("an error").to_string().contains("time"));
    let empty = sample.slice(0, 0);
    let made = Enlarger::new(&sample.schema(), &[empty], &Roles::default(), 1);
    assert!(made.err().expect("an error").to_string().contains("no rows"));
}
