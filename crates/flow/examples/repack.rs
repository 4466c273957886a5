//! Unpacks an Arrow IPC file, deals its rows out by the lowest bits of a column, and packs each
//! partition into a file; prints nanoseconds of the stages.
//!
//!     cargo run --release -p overside-flow --example repack -- IN COLUMN BITS CODEC THREADS DIR

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use overside_flow::operators::{PartitionKey, PartitionOptions, Partitioner, Piece};
use overside_flow::pack::{
    CodecPool, PackOptions, Packer, StageTime, StageTimes, UnpackOptions, Unpacker,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, column, bits, codec, threads, directory] = &arguments[..] else {
        return Err("usage: repack IN COLUMN BITS CODEC THREADS DIR".into());
    };
    let begin = Instant::now();
    let pool = Arc::new(CodecPool::new(threads.parse()?)?);
    let mut unpacker = Unpacker::file(File::open(input)?, UnpackOptions::default(), &pool)?;
    let schema = Arc::clone(unpacker.schema());
    let key = PartitionKey::parse(column, &format!("bits:{bits}"))?;
    let mut partitioner = Partitioner::new(Arc::clone(&schema), &key, PartitionOptions::default())?;
    let options = PackOptions {
        codec: codec.parse()?,
        ..PackOptions::default()
    };
    let mut packers = (0..=partitioner.partitions())
        .map(|number| {
            let path = Path::new(directory).join(format!("{number}.arrow"));
            let file = File::create(path)?;
            Ok(Packer::new(file, Arc::clone(&schema), options, &pool)?)
        })
        .collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let mut times = StageTimes::default();
    let mut write = |pieces: Vec<Piece>| {
        (pieces.iter()).try_for_each(|(number, batch)| packers[*number].write(batch))
    };
    while let Some(batch) = unpacker.next().transpose()? {
        let pieces = times.partition.measure(|| partitioner.push(&batch))?;
        drop(batch);
        write(pieces)?;
    }
    let (pieces, _) = times.partition.measure(|| partitioner.finish())?;
    write(pieces)?;
    times.unpack = unpacker.time();
    for packer in packers {
        times.repack += packer.finish()?.1;
    }
    let line = |name: &str, time: StageTime| {
        let StageTime {
            wall_ns,
            cpu_ns,
            bytes_in,
            bytes_out,
        } = time;
        println!("{name}: wall {wall_ns} cpu {cpu_ns} in {bytes_in} out {bytes_out}");
    };
    line("unpack", times.unpack);
    line("partition", times.partition);
    line("repack", times.repack);
    println!("all: wall {}", begin.elapsed().as_nanos());
    Ok(())
}
