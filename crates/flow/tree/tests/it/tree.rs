//! Tests of the log-structured tree: absorbed rows are found in every level.

use std::collections::BTreeMap;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use overside_base::Random;
use overside_flow_files::{FileReader, ReadOptions};
use overside_flow_operators::Error;
use overside_flow_tree::{
    TrackQuery, TrackSource, TreeKey, TreeOptions, TreeReader, TreeUnion, TreeWriter,
};
use overside_tables::{Error as TableError, pack::CodecPool};
use proptest::prelude::*;
use tempfile::tempdir;

/// Times and rows of each object; the key `None` has rows without an id.
type Tracks = BTreeMap<Option<i64>, Vec<(i64, i64)>>;

fn pool() -> Arc<CodecPool> {
    Arc::new(CodecPool::new(NonZeroUsize::MIN).expect("threads"))
}

/// Makes rows of random objects, at times close to that of the batch.
fn batch(random: &mut Random, objects: u64, begin: i64, rows: usize) -> RecordBatch {
    let ids: Int64Array = (0..rows)
        .map(|_| (!random.chance(0.02)).then(|| random.below(objects) as i64 - 3))
        .collect();
    let times = (0..rows).map(|row| begin + row as i64 + random.below(50) as i64);
    let times: TimestampMillisecondArray = times.collect::<Vec<_>>().into();
    let row: Int64Array = (begin * 1000..).take(rows).collect();
    let columns: [(&str, ArrayRef); 3] =
        [("id", Arc::new(ids)), ("time", Arc::new(times)), ("row", Arc::new(row))];
    let columns = columns.map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
}

fn tracks(batches: &[RecordBatch]) -> Tracks {
    let mut tracks = Tracks::new();
    for batch in batches {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let times = batch.column(1).as_primitive::<TimestampMillisecondType>();
        let rows = batch.column(2).as_primitive::<Int64Type>();
        for (row, id) in ids.iter().enumerate() {
            let track = tracks.entry(id).or_default();
            track.push((times.value(row), rows.value(row)));
        }
    }
    for track in tracks.values_mut() {
        track.sort_unstable();
    }
    tracks
}

fn all() -> TrackQuery {
    TrackQuery { bytes_max: 1 << 30, ..TrackQuery::default() }
}

/// Formats a time in milliseconds as `date` does, without a time zone.
fn written(time: i64) -> String {
    format!(
        "1970-01-01T{:02}:{:02}:{:02}.{:03}",
        time / 3_600_000,
        time / 60_000 % 60,
        time / 1000 % 60,
        time % 1000
    )
}

fn options(key: TreeKey, bits: u32, levels: u32, capacity_bytes: u64) -> TreeOptions {
    TreeOptions { key, bits, levels, capacity_bytes, ..TreeOptions::new("id", "time") }
}

fn schema() -> SchemaRef {
    batch(&mut Random::new(0), 1, 0, 1).schema()
}

fn open(directory: &Path, options: &TreeOptions) -> Result<TreeWriter, Error> {
    TreeWriter::open(directory, &schema(), options, &pool())
}

fn found(directory: &Path, query: &TrackQuery) -> Vec<RecordBatch> {
    let mut reader = TreeReader::open(directory, &pool()).expect("a tree");
    reader.query(query, 2).expect("rows")
}

/// Checks that objects follow each other, each sorted by time.
fn assert_sorted(batches: &[RecordBatch]) {
    for batch in batches {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let times = batch.column(1).as_primitive::<TimestampMillisecondType>();
        let order = |row: usize| (ids.is_null(row), ids.value(row), times.value(row));
        let is_null = |row| ids.is_null(row);
        for row in 1..batch.num_rows() {
            let both_null = is_null(row - 1) && is_null(row);
            let (before, after) = (order(row - 1), order(row));
            match both_null {
                true => assert!(before.2 <= after.2),
                false => assert!(before <= after, "{before:?} {after:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_query_finds_what_was_absorbed(
        seed in any::<u64>(),
        by_bits in any::<bool>(),
        bits in 1_u32..4,
        levels in 1_u32..4,
        capacity in 1_u64..40_000,
        objects in 1_u64..60,
    ) {
        let mut random = Random::new(seed);
        let key = if by_bits { TreeKey::Bits } else { TreeKey::Hash };
        let options = options(key, bits, levels, capacity);
        let directory = tempdir().expect("a directory");
        let mut absorbed = Vec::new();
        for round in 0..3 {
            let mut tree = open(directory.path(), &options).expect("a tree");
            for number in 0..8 {
                let rows = 1 + random.below(300) as usize;
                let batch = batch(&mut random, objects, 300 * (8 * round + number), rows);
                tree.absorb(&batch).expect("absorbed");
                absorbed.push(batch);
            }
            tree.commit().expect("on the disk");
            if round == 1 {
                tree.compact().expect("compacted");
                let levels = TreeReader::open(directory.path(), &pool()).expect("a tree").levels();
                prop_assert!(levels[..levels.len() - 1].iter().all(|level| level.rows == 0));
            }
            drop(tree);
            let expected = tracks(&absorbed);
            let everything = found(directory.path(), &all());
            assert_sorted(&everything);
            prop_assert_eq!(&tracks(&everything), &expected);
            for _ in 0..4 {
                let ids: Vec<i64> = (0..1 + random.below(3))
                    .map(|_| random.below(objects) as i64 - 3)
                    .collect();
                let (from, to) = (random.below(6000) as i64, random.below(9000) as i64);
                let query = TrackQuery {
                    ids: ids.iter().map(i64::to_string).collect(),
                    from: Some(written(from)),
                    to: Some(written(to)),
                    ..all()
                };
                let mut wanted = expected.clone();
                wanted.retain(|id, track| {
                    track.retain(|(time, _)| (from..to).contains(time));
                    id.is_some_and(|id| ids.contains(&id)) && !track.is_empty()
                });
                let rows = found(directory.path(), &query);
                assert_sorted(&rows);
                prop_assert_eq!(tracks(&rows), wanted);
            }
        }
    }
}

#[test]
fn a_leaf_has_whole_tracks_by_object_and_time() {
    let directory = tempdir().expect("a directory");
    let options = options(TreeKey::Hash, 2, 2, 10_000);
    let mut tree = open(directory.path(), &options).expect("a tree");
    let mut random = Random::new(5);
    for number in 0..60 {
        let batch = batch(&mut random, 200, 100 * number, 100);
        tree.absorb(&batch).expect("absorbed");
    }
    tree.compact().expect("compacted");
    let written = tree.written();
    assert!(written.splits > 4 && written.written_bytes > written.bytes, "{written:?}");
    drop(tree);
    let levels = TreeReader::open(directory.path(), &pool()).expect("a tree").levels();
    // 16 leaves, and one for rows without an id.
    assert_eq!((levels[2].nodes, levels[2].rows), (17, 6000));
    assert_eq!(levels[2].files, 17);
    let mut leaves_of: BTreeMap<Option<i64>, u32> = BTreeMap::new();
    for entry in directory.path().read_dir().expect("a directory") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|extension| extension != "parquet") {
            continue;
        }
        let file = File::open(&path).expect("a file");
        let reader = FileReader::open(file, &ReadOptions::default(), &pool()).expect("Parquet");
        let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("rows")).collect();
        assert_sorted(&batches);
        for id in tracks(&batches).into_keys() {
            *leaves_of.entry(id).or_default() += 1;
        }
    }
    assert_eq!(leaves_of.len(), 201);
    assert!(leaves_of.values().all(|files| *files == 1));
}

#[test]
fn a_process_that_ends_loses_what_it_did_not_commit_and_leaves_nothing() {
    let directory = tempdir().expect("a directory");
    let options = options(TreeKey::Hash, 1, 1, 1 << 20);
    let mut random = Random::new(6);
    let (kept, lost) = (batch(&mut random, 9, 0, 50), batch(&mut random, 9, 100, 50));
    let mut tree = open(directory.path(), &options).expect("a tree");
    tree.absorb(&kept).expect("absorbed");
    tree.commit().expect("on the disk");
    tree.absorb(&lost).expect("absorbed");
    drop(tree);
    let stray = directory.path().join("00000077.parquet");
    std::fs::write(&stray, "half").expect("a file");
    let foreign = directory.path().join("notes.parquet");
    std::fs::write(&foreign, "not of the tree").expect("a file");
    let expected = tracks(std::slice::from_ref(&kept));
    assert_eq!(tracks(&found(directory.path(), &all())), expected);
    drop(open(directory.path(), &options).expect("a tree"));
    assert!(!stray.exists() && foreign.exists());
    assert_eq!(tracks(&found(directory.path(), &all())), expected);
}

#[test]
fn numbered_batches_are_absorbed_once_also_by_another_process() {
    let directory = tempdir().expect("a directory");
    // The root splits, and would commit, meanwhile.
    let options = options(TreeKey::Hash, 1, 1, 4000);
    let mut random = Random::new(9);
    let batches: Vec<_> = (0..12).map(|n| batch(&mut random, 9, 100 * n, 50)).collect();
    let absorb = |tree: &mut TreeWriter, numbers: std::ops::Range<usize>| {
        for number in numbers {
            let producer = ["sensor", "other"][number % 2];
            let batch = &batches[number];
            (tree.absorb_numbered(producer, number as u64, batch)).expect("absorbed");
        }
    };
    let mut tree = open(directory.path(), &options).expect("a tree");
    absorb(&mut tree, 0..8);
    absorb(&mut tree, 5..8);
    tree.commit().expect("on the disk");
    // Uncommitted rows are lost, together with their sequence numbers.
    absorb(&mut tree, 8..9);
    drop(tree);
    let mut tree = open(directory.path(), &options).expect("a tree");
    absorb(&mut tree, 2..12);
    tree.commit().expect("on the disk");
    drop(tree);
    assert_eq!(tracks(&found(directory.path(), &all())), tracks(&batches));
}

#[test]
fn an_atomic_writer_commits_all_or_leaves_nothing() {
    let directory = tempdir().expect("a directory");
    let options = options(TreeKey::Hash, 1, 2, 3000);
    let mut random = Random::new(10);
    let first = batch(&mut random, 9, 0, 50);
    let mut tree = open(directory.path(), &options).expect("a tree");
    tree.absorb(&first).expect("absorbed");
    tree.commit().expect("on the disk");
    drop(tree);
    let names = || -> Vec<_> {
        let entries = directory.path().read_dir().expect("a directory");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("a file").file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let more: Vec<_> = (1..20).map(|n| batch(&mut random, 9, 100 * n, 50)).collect();
    for commits in [false, true] {
        let mut tree = open(directory.path(), &options).expect("a tree").atomic();
        for batch in &more {
            tree.absorb(batch).expect("absorbed");
        }
        assert!(tree.written().splits > 1);
        assert_eq!(tracks(&found(directory.path(), &all())), tracks(std::slice::from_ref(&first)));
        if commits {
            tree.commit().expect("on the disk");
        }
        drop(tree);
        assert_eq!(names() == before, !commits);
    }
    let absorbed: Vec<_> = std::iter::once(first).chain(more).collect();
    assert_eq!(tracks(&found(directory.path(), &all())), tracks(&absorbed));
}

#[test]
fn small_commits_do_not_make_ever_more_files() {
    let directory = tempdir().expect("a directory");
    let options = options(TreeKey::Hash, 1, 2, 1 << 30);
    let mut random = Random::new(11);
    let mut absorbed = Vec::new();
    let mut tree = open(directory.path(), &options).expect("a tree");
    for number in 0..200 {
        let batch = batch(&mut random, 9, 10 * number, 3);
        tree.absorb(&batch).expect("absorbed");
        tree.commit().expect("on the disk");
        absorbed.push(batch);
    }
    drop(tree);
    let levels = TreeReader::open(directory.path(), &pool()).expect("a tree").levels();
    assert!(levels.iter().all(|level| level.files <= 64), "{levels:?}");
    assert!(levels[1].rows > 0, "{levels:?}");
    assert_eq!(tracks(&found(directory.path(), &all())), tracks(&absorbed));
}

#[test]
fn several_trees_are_read_as_one() {
    let directory = tempdir().expect("a directory");
    let mut random = Random::new(12);
    let mut absorbed = Vec::new();
    let places: Vec<_> = (0..3).map(|n| directory.path().join(n.to_string())).collect();
    for (number, place) in places.iter().enumerate() {
        // The way a tree is split does not matter.
        let options = options(TreeKey::Hash, 1 + number as u32, 1, 2000);
        let mut tree = open(place, &options).expect("a tree");
        for round in 0..5 {
            let batch = batch(&mut random, 9, 100 * round + number as i64, 40);
            tree.absorb(&batch).expect("absorbed");
            absorbed.push(batch);
        }
        tree.commit().expect("on the disk");
    }
    let union = |places: &[std::path::PathBuf]| TreeUnion::open(places, &pool());
    let mut trees = union(&places).expect("trees");
    let rows = trees.query(&all(), 2).expect("rows");
    assert_eq!((rows.len(), tracks(&rows)), (1, tracks(&absorbed)));
    assert_sorted(&rows);
    let query = TrackQuery { ids: vec!["3".into()], ..all() };
    let mut wanted = tracks(&absorbed);
    wanted.retain(|id, _| *id == Some(3));
    assert_eq!(tracks(&trees.query(&query, 1).expect("rows")), wanted);
    let query = TrackQuery { bytes_max: 8000, ..all() };
    let error = trees.query(&query, 1).expect_err("more in all").to_string();
    assert!(error.contains("fewer ids"), "{error}");
    let other = directory.path().join("other");
    let options = TreeOptions::new("row", "time");
    drop(open(&other, &options).expect("a tree"));
    let error = union(&[places[0].clone(), other]).err().expect("refused").to_string();
    assert!(error.contains("another id or time"), "{error}");
}

/// One tree over several directories: the root passes its rows to trees that split by the bits below its own.
#[test]
fn a_tree_that_passes_its_rows_on_is_one_with_those_below() {
    for key in [TreeKey::Hash, TreeKey::Bits] {
        let directory = tempdir().expect("a directory");
        let mut random = Random::new(11);
        let root = directory.path().join("root");
        let upper = options(key, 1, 1, 3000);
        let lower = TreeOptions { above: 1, ..options(key, 1, 2, 2000) };
        let next = [0, 1].map(|n| directory.path().join(format!("next-{n}")));
        let mut below = [0, 1].map(|n| open(&next[n], &lower).expect("a tree"));
        let mut absorbed = Vec::new();
        let (mut passed, mut failures) = (Vec::new(), 0);
        for round in 0..40 {
            let batch = batch(&mut random, 64, 100 * round, 40);
            let mut tree = open(&root, &upper).and_then(TreeWriter::passing).expect("a tree");
            tree.absorb_numbered("sensor", round as u64, &batch).expect("absorbed");
            tree.commit().expect("on the disk");
            absorbed.push(batch);
            if !tree.has_to_pass() {
                continue;
            }
            // Sometimes one of the other trees is lost after it has taken some parts.
            let lost = random.below(2) as usize;
            let mut left = if random.chance(0.5) { random.below(3) } else { u64::MAX };
            let result = tree.pass(&mut |part| {
                let child = part.child % 2;
                if child == lost {
                    if left == 0 {
                        return Err(Error::Refused("it is gone".into()));
                    }
                    left -= 1;
                }
                let name = format!("{}/{}", part.name, part.child);
                for rows in &part.batches {
                    // A part has one batch here, so its number identifies it.
                    assert_eq!(part.batches.len(), 1);
                    below[child].absorb_numbered(&name, part.number, rows)?;
                }
                below[child].commit()
            });
            failures += usize::from(result.is_err());
            let reader = TreeReader::open(&root, &pool()).expect("a tree");
            passed.push(result.is_ok());
            assert_eq!(reader.passed().is_some(), result.is_err());
            let Some(there) = reader.passed() else {
                continue;
            };
            // The trees that take their parts have all of their rows.
            assert!(there.contains(&(1 - lost as u32)) && there.len() < 3);
            let there = there.to_vec();
            let of_there = |id: &i64| {
                let leaves = reader.leaves_of(&TrackQuery { ids: vec![id.to_string()], ..all() });
                leaves.expect("an id").is_some_and(|leaves| there.contains(&leaves[0]))
            };
            let mut wanted = tracks(&absorbed);
            wanted.retain(|id, _| id.as_ref().is_some_and(of_there));
            let query =
                TrackQuery { ids: wanted.keys().flatten().map(i64::to_string).collect(), ..all() };
            let mut sources: Vec<Box<dyn TrackSource>> = Vec::new();
            for place in &next {
                sources.push(Box::new(TreeReader::open(place, &pool()).expect("a tree")));
            }
            sources.push(Box::new(reader.without_rows()));
            let found = TreeUnion::of(sources).and_then(|mut trees| trees.query(&query, 2));
            assert_eq!(tracks(&found.expect("rows")), wanted, "{key}, {round}");
        }
        assert!(failures > 0 && passed.contains(&true), "{passed:?}");
        let mut tree = open(&root, &upper).and_then(TreeWriter::passing).expect("a tree");
        if tree.has_to_pass() {
            let mut pass = |part: overside_flow_tree::ForwardedRun<'_>| {
                let (child, name) = (part.child % 2, format!("{}/{}", part.name, part.child));
                below[child].absorb_numbered(&name, part.number, &part.batches[0])?;
                below[child].commit()
            };
            tree.pass(&mut pass).expect("passed");
        }
        let refused = tree.compact().expect_err("not here").to_string();
        assert!(refused.contains("other machines"), "{refused}");
        drop(tree);
        let places = [root.clone(), next[0].clone(), next[1].clone()];
        let mut whole = TreeUnion::open(&places, &pool()).expect("trees");
        let rows = whole.query(&all(), 2).expect("rows");
        assert_eq!(tracks(&rows), tracks(&absorbed), "{key}");
        assert_sorted(&rows);
        // Each tree has its own objects in all of its leaves, and the root knows them.
        let root = TreeReader::open(&root, &pool()).expect("a tree");
        for (child, tree) in below.iter_mut().enumerate() {
            tree.compact().expect("compacted");
            let levels = TreeReader::open(&next[child], &pool()).expect("a tree").levels();
            let nulls = u64::from(child == 0);
            assert_eq!(levels[2].nodes, 4 + nulls, "{key}, {child}: {levels:?}");
            let ids = tracks(&found(&next[child], &all()));
            for id in ids.keys().flatten() {
                let query = TrackQuery { ids: vec![id.to_string()], ..all() };
                let leaves = root.leaves_of(&query).expect("an id");
                assert_eq!(leaves, Some(vec![child as u32]), "{key}, {id}");
                let of_id = tracks(&found(&next[child], &query));
                assert_eq!(of_id.get(&Some(*id)), ids.get(&Some(*id)));
            }
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_loses_nothing_that_was_committed() {
    let directory = tempdir().expect("a directory");
    let options = options(TreeKey::Hash, 1, 2, 4000);
    let mut random = Random::new(7);
    let mut tree = open(directory.path(), &options).expect("a tree");
    let first = batch(&mut random, 9, 0, 50);
    tree.absorb(&first).expect("absorbed");
    tree.commit().expect("on the disk");
    // This directory blocks the creation of a file of the next split, after the root's file was read.
    let in_the_way =
        ["arrows", "parquet"].map(|name| directory.path().join(format!("00000002.{name}")));
    for path in &in_the_way {
        std::fs::create_dir(path).expect("a directory");
    }
    let error = tree.absorb(&batch(&mut random, 9, 100, 500));
    let error = error.expect_err("in the way").to_string();
    assert!(error.contains("00000002."), "{error}");
    assert!(matches!(tree.commit(), Err(Error::Spent)));
    drop(tree);
    for path in &in_the_way {
        std::fs::remove_dir(path).expect("it is there");
    }
    let mut tree = open(directory.path(), &options).expect("a tree");
    assert_eq!(tracks(&found(directory.path(), &all())), tracks(&[first]));
    tree.compact().expect("compacted");
}

#[test]
fn whoever_reads_while_files_are_merged_finds_everything_that_was_committed() {
    let directory = tempdir().expect("a directory");
    let options = options(TreeKey::Hash, 1, 2, 3000);
    let mut tree = open(directory.path(), &options).expect("a tree");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reader = TreeReader::open(directory.path(), &pool()).expect("a tree");
            let mut rows = 0;
            while !is_done.load(Ordering::Relaxed) {
                let batches = reader.query(&all(), 2).expect("rows");
                let now = batches.iter().map(RecordBatch::num_rows).sum();
                assert!(now >= rows, "{now} rows after {rows}");
                rows = now;
            }
        });
        let mut random = Random::new(8);
        for number in 0..150 {
            let batch = batch(&mut random, 20, 100 * number, 50);
            tree.absorb(&batch).expect("absorbed");
            tree.commit().expect("on the disk");
        }
        is_done.store(true, Ordering::Relaxed);
        reader.join().expect("no row was missing");
    });
}

#[test]
fn ids_are_text_or_a_dictionary_too() {
    let names = ["4b1814", "it's \"4b\"", "", "Ä"];
    let ids = || names.iter().cycle().take(40).copied();
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(ids()));
    let dictionary: DictionaryArray<arrow_array::types::Int32Type> = ids().map(Some).collect();
    for id in [text, Arc::new(dictionary)] {
        let times: ArrayRef = Arc::new(Int64Array::from_iter_values((0..40).rev()));
        let batch = RecordBatch::try_from_iter([("an \"id\"", id), ("t", times)]);
        let batch = batch.expect("a batch");
        let options = TreeOptions { capacity_bytes: 100, ..TreeOptions::new("an \"id\"", "t") };
        let directory = tempdir().expect("a directory");
        let mut tree = TreeWriter::open(directory.path(), &batch.schema(), &options, &pool());
        let tree = tree.as_mut().expect("a tree");
        tree.absorb(&batch).expect("absorbed");
        tree.commit().expect("on the disk");
        for name in names {
            let query = TrackQuery { ids: vec![name.into()], from: Some("10".into()), ..all() };
            let mut reader = TreeReader::open(directory.path(), &pool()).expect("a tree");
            let rows = reader.query(&query, 1).expect("rows");
            let rows: usize = rows.iter().map(RecordBatch::num_rows).sum();
            // Times run backwards from 39.
            let expected = ids().take(30).filter(|id| *id == name).count();
            assert_eq!(rows, expected, "{name}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let directory = tempdir().expect("a directory");
    let refused = |options: &TreeOptions| {
        let tree = open(directory.path(), options);
        tree.err().expect("refused").to_string()
    };
    assert!(refused(&TreeOptions::new("mmsi", "time")).contains("no column \"mmsi\""));
    assert!(refused(&options(TreeKey::Hash, 6, 2, 1000)).contains("too many leaves"));
    let none = TreeReader::open(directory.path(), &pool()).err().expect("none");
    assert!(none.to_string().contains("there is no tree; "), "{none}");
    let runs = Field::new("runs", DataType::Int32, false).into();
    let values = Field::new("values", DataType::Utf8, true).into();
    let runs = DataType::RunEndEncoded(runs, values);
    let mut fields = batch(&mut Random::new(1), 3, 0, 1).schema().fields().to_vec();
    fields.push(Field::new("what", runs, true).into());
    let schema = Arc::new(Schema::new(fields));
    let made = options(TreeKey::Hash, 1, 1, 1000);
    let odd = TreeWriter::open(directory.path(), &schema, &made, &pool());
    assert!(odd.err().expect("refused").to_string().contains("column \"what\" has runs"));
    assert!(refused(&options(TreeKey::Hash, 0, 2, 1000)).contains("at least one"));
    assert!(refused(&options(TreeKey::Hash, 1, 1, 0)).contains("capacity"));
    let made = options(TreeKey::Hash, 1, 1, 1000);
    let mut tree = open(directory.path(), &made).expect("a tree");
    let other: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let other = RecordBatch::try_from_iter([("id", other)]).expect("a batch");
    let error = tree.absorb(&other).expect_err("another schema");
    assert!(matches!(error, Error::Table(TableError::SchemaChange { .. })), "{error}");
    // The batch was refused, and the tree continues.
    tree.absorb(&batch(&mut Random::new(1), 3, 0, 10)).expect("absorbed");
    tree.commit().expect("on the disk");
    drop(tree);
    assert!(refused(&options(TreeKey::Hash, 1, 2, 1000)).contains("was made by"));
    let mut reader = TreeReader::open(directory.path(), &pool()).expect("a tree");
    let mut error = |query: TrackQuery| {
        let rows = reader.query(&query, 1);
        rows.expect_err("refused").to_string()
    };
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
    assert!(error(TrackQuery { ids: ids(&["x"]), ..all() }).contains('x'));
    assert!(error(TrackQuery { from: Some("noon".into()), ..all() }).contains("noon"));
    assert!(error(TrackQuery { bytes_max: 10, ..all() }).contains("fewer ids"));
    assert!(error(TrackQuery { ids: ids(&["1"; 101]), ..all() }).contains("at most 100"));
}

#[test]
fn damaged_trees_are_refused_with_the_file() {
    let directory = tempdir().expect("a directory");
    let tree_file = directory.path().join("tree.json");
    let made = options(TreeKey::Hash, 1, 1, 100);
    let mut tree = open(directory.path(), &made).expect("a tree");
    tree.absorb(&batch(&mut Random::new(1), 3, 0, 10)).expect("absorbed");
    tree.commit().expect("on the disk");
    drop(tree);
    let good = std::fs::read_to_string(&tree_file).expect("a manifest");
    let error = || {
        let tree = TreeReader::open(directory.path(), &pool());
        tree.err().expect("refused").to_string()
    };
    for (part, damage) in [
        ("overside-tree/1", "overside-tree/2"),
        ("\"bits\":1", "\"bits\":31"),
        ("\"level\":1", "\"level\":9"),
        ("\"number\":1", "\"number\":999999"),
        ("\"rows\"", "\"row\""),
        ("{", "["),
    ] {
        assert!(good.contains(part), "{part} in {good}");
        std::fs::write(&tree_file, good.replacen(part, damage, 1)).expect("a file");
        let error = error();
        let names = error.contains("tree.json") || error.contains("leaves");
        assert!(names, "{damage}: {error}");
    }
    std::fs::write(&tree_file, &good).expect("a file");
    for entry in directory.path().read_dir().expect("a directory") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            std::fs::write(&path, "PAR1 nothing PAR1").expect("a file");
        }
    }
    let mut reader = TreeReader::open(directory.path(), &pool()).expect("a tree");
    let error = reader.query(&all(), 2).expect_err("damaged").to_string();
    assert!(error.contains(".parquet"), "{error}");
}
