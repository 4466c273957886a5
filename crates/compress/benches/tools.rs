//! gzip at level 1 and back, beside the programs that people use: whole processes that read a file
//! and write to nowhere, two threads each where a program has threads, in turns.
//!
//! ```text
//! cargo bench -p overside-compress --bench tools [-- --quick] [-- FILE]
//! ```
//!
//! Without a file the input is at least 1 GiB made of the Silesia files in `../shared/data`, or of
//! this repository's own sources. Programs that are not installed are left out; rapidgzip is
//! looked for where `RAPIDGZIP` says, or on the path.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, error, iter};

use overside_compress::{Container, Options, compress, decompress};

/// The argument that makes this program do what is measured.
const CHILD: &str = "--as-program";
const THREADS: &str = "2";

type Result<T> = std::result::Result<T, Box<dyn error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.iter().position(|argument| argument == CHILD) {
        Some(at) => child(&arguments[at + 1..]),
        None => measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Does one of the two on a file, to stdout, as the command would.
fn child(arguments: &[String]) -> Result<()> {
    let [verb, path] = arguments else {
        return Err("wants a verb and a file".into());
    };
    let options = Options {
        level: Some(1),
        threads: THREADS.parse()?,
        container: Some(Container::Gzip),
        ..Options::default()
    };
    let input = File::open(path)?;
    let output = io::stdout().lock();
    // Without the line buffer of Rust's stdout.
    let output = File::from(std::os::fd::AsFd::as_fd(&output).try_clone_to_owned()?);
    match verb.as_str() {
        "compress" => compress(input, output, &options)?,
        _ => decompress(input, output, &options)?,
    };
    Ok(())
}

struct Program {
    name: &'static str,
    command: PathBuf,
    arguments: Vec<String>,
    times: Vec<Duration>,
}

impl Program {
    fn new(name: &'static str, command: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        Self {
            name,
            command: command.into(),
            arguments: arguments
                .iter()
                .map(|argument| (*argument).into())
                .collect(),
            times: Vec::new(),
        }
    }

    /// Runs it once on a file; `false` if it cannot be run.
    fn run(&self, input: &Path, output: Stdio) -> Result<Option<Duration>> {
        let begin = Instant::now();
        let status = Command::new(&self.command)
            .args(&self.arguments)
            .arg(input)
            .stdout(output)
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(Some(begin.elapsed())),
            Ok(status) => Err(format!("{}: {status}", self.name).into()),
            Err(_) => Ok(None),
        }
    }

    fn median(&self) -> Option<f64> {
        let mut seconds: Vec<f64> = self.times.iter().map(Duration::as_secs_f64).collect();
        seconds.sort_by(f64::total_cmp);
        seconds.get(seconds.len() / 2).copied()
    }
}

fn measure(arguments: &[String]) -> Result<()> {
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let given = arguments.iter().find(|argument| !argument.starts_with('-'));
    let directory = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() {
        "/dev/shm".into()
    } else {
        env::temp_dir()
    })?;
    let input = match given {
        Some(path) => path.into(),
        None => made(directory.path(), if quick { 64 << 20 } else { 1 << 30 })?,
    };
    let rounds = if quick { 3 } else { 5 };
    let input_bytes = fs::metadata(&input)?.len();
    println!("{input_bytes} bytes, {rounds} rounds, medians");

    let this = env::current_exe()?;
    let mut compressors = [
        Program::new("overside", &this, &[CHILD, "compress"]),
        Program::new("pigz -p2 -1", "pigz", &["-p", THREADS, "-1", "-c"]),
        Program::new("igzip -1", "igzip", &["-1", "-c"]),
    ];
    compare(
        "compress, gzip level 1",
        &mut compressors,
        &input,
        input_bytes,
        rounds,
    )?;
    against(&compressors, "pigz -p2 -1", 3.0);
    against(&compressors, "igzip -1", 1.8);

    let ours = directory.path().join("ours.gz");
    let theirs = directory.path().join("theirs.gz");
    compressors[0].run(&input, File::create(&ours)?.into())?;
    let same_size = compressors[2]
        .run(&input, File::create(&theirs)?.into())?
        .is_some();
    let (ours_bytes, theirs_bytes) = (fs::metadata(&ours)?.len(), fs::metadata(&theirs)?.len());
    if same_size {
        let more = (ours_bytes as f64 / theirs_bytes as f64 - 1.0) * 100.0;
        println!("  output {ours_bytes} bytes, {more:+.2} % beside igzip -1 (target: at most +1)");
    }

    let rapidgzip = env::var_os("RAPIDGZIP").unwrap_or_else(|| "rapidgzip".into());
    let mut decompressors = [
        Program::new("overside", &this, &[CHILD, "decompress"]),
        Program::new("pigz -dp2", "pigz", &["-d", "-p", THREADS, "-c"]),
        Program::new("igzip -d", "igzip", &["-d", "-c"]),
        Program::new("rapidgzip -P2", rapidgzip, &["-P", THREADS, "-d", "-c"]),
    ];
    compare(
        "decompress what overside made",
        &mut decompressors,
        &ours,
        input_bytes,
        rounds,
    )?;
    against(&decompressors, "pigz -dp2", 2.0);
    against(&decompressors, "rapidgzip -P2", 1.0);
    small(&this, &directory.path().join("small"), &input)
}

/// Runs all of them in turns, every second round in reverse.
fn compare(
    title: &str,
    programs: &mut [Program],
    input: &Path,
    bytes: u64,
    rounds: usize,
) -> Result<()> {
    for round in 0..=rounds {
        let count = programs.len();
        for turn in 0..count {
            let program = &mut programs[if round % 2 == 0 {
                turn
            } else {
                count - 1 - turn
            }];
            let time = program.run(input, Stdio::null())?;
            // The first round warms up.
            program.times.extend(time.filter(|_| round > 0));
        }
    }
    println!("{title}:");
    for program in programs {
        match program.median() {
            Some(seconds) => println!(
                "  {:16} {:7.3} s  {:6.0} MB/s of the uncompressed side",
                program.name,
                seconds,
                bytes as f64 / seconds / 1e6
            ),
            None => println!("  {:16} not installed", program.name),
        }
    }
    Ok(())
}

/// How much faster the first one is than another.
fn against(programs: &[Program], name: &str, target: f64) {
    let other = programs.iter().find(|program| program.name == name);
    let times = programs[0].median().zip(other.and_then(Program::median));
    if let Some((ours, theirs)) = times {
        let ratio = theirs / ours;
        let verdict = if ratio >= target { "met" } else { "MISSED" };
        println!("  {ratio:.2} times {name} (target: {target:.1}, {verdict})");
    }
}

/// The whole process on 1 MiB, where starting counts.
fn small(this: &Path, path: &Path, input: &Path) -> Result<()> {
    let content = fs::read(input)?;
    fs::write(path, &content[..content.len().min(1 << 20)])?;
    let mut programs = [
        Program::new("overside", this, &[CHILD, "compress"]),
        Program::new("igzip -1", "igzip", &["-1", "-c"]),
    ];
    compare(
        "compress 1 MiB, the whole process",
        &mut programs,
        path,
        1 << 20,
        31,
    )?;
    if let Some((ours, theirs)) = programs[0].median().zip(programs[1].median()) {
        let more_ms = (ours - theirs) * 1e3;
        let verdict = if more_ms <= 10.0 { "met" } else { "MISSED" };
        println!("  {more_ms:+.1} ms beside igzip (target: at most +10, {verdict})");
    }
    Ok(())
}

/// A file of at least so many bytes, whole files one after the other.
fn made(directory: &Path, bytes: usize) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = env::var_os("OVERSIDE_SHARED")
        .map_or_else(|| root.join("../../../shared"), PathBuf::from)
        .join("data/silesia");
    let mut contents = Vec::new();
    for path in files(&shared)
        .into_iter()
        .filter(|path| path.extension() == Some("zip".as_ref()))
    {
        contents.push(Command::new("unzip").arg("-p").arg(path).output()?.stdout);
    }
    if contents.iter().all(Vec::is_empty) {
        println!(
            "{} is not there: this repository's sources instead",
            shared.display()
        );
        contents = (files(&root.join("src")).iter())
            .chain(&files(&root.join("../ops/src")))
            .filter(|path| path.is_file())
            .map(fs::read)
            .collect::<io::Result<_>>()?;
    }
    let path = directory.join("input");
    let mut file = File::create(&path)?;
    let mut written = 0;
    for content in iter::repeat(contents).flatten() {
        if written >= bytes {
            break;
        }
        file.write_all(&content)?;
        written += content.len();
    }
    Ok(path)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
