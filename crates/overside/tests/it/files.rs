//! `overside compress` and `overside decompress` as users call them.

mod failing;
mod formats;
mod like_gzip;
mod lying;
mod placements;
mod refused;
mod replacing;
mod streams;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use overside_base::Random;
use overside_testkit::assert_contains;

const COMMAND: &str = env!("CARGO_BIN_EXE_overside");
const MIB: usize = 1 << 20;

/// Temporary directory in which the command runs.
struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Makes a directory with one file.
    fn with(name: &str, bytes: &[u8]) -> Self {
        let directory = Self::new();
        directory.write(name, bytes);
        directory
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns the names of all files, separated by spaces.
    fn names(&self) -> String {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names.join(" ")
    }

    /// Returns a command that runs in this directory with an empty stdin.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs `overside` with a line of arguments. If it hangs, it ends with code 124.
    fn run(&self, line: &str) -> Output {
        let mut command = self.command("timeout");
        command.args(["120", COMMAND]).args(line.split_whitespace());
        command.output().unwrap()
    }

    /// Runs `overside`, which must succeed without a message. Returns stdout.
    fn quietly(&self, line: &str) -> Vec<u8> {
        let output = self.run(line);
        assert_eq!((code(&output), err(&output)), (0, String::new()), "{line}");
        output.stdout
    }

    /// Runs another program, which must succeed. `make test` installs the necessary ones.
    fn other(&self, line: &str) -> Vec<u8> {
        let (program, arguments) = line.split_once(' ').unwrap();
        let output = self.command(program).args(arguments.split(' ')).output();
        let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(output.status.success(), "{line}: {}", err(&output));
        output.stdout
    }

    /// Runs a line of shell in which `$O` is the command.
    fn shell(&self, line: &str) -> Output {
        let mut shell = self.command("sh");
        shell.env("O", format!("timeout 120 {COMMAND}"));
        shell.args(["-c", line]).output().unwrap()
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Makes `bytes` bytes of words, always the same for the same seed.
fn words(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        let word = random.below(4000);
        text.extend(format!("{:x} ", word * word).bytes());
    }
    text.truncate(bytes);
    text
}

/// Makes `bytes` incompressible bytes.
fn noise(bytes: usize) -> Vec<u8> {
    Random::new(7).bytes(bytes)
}

/// Makes content over several chunks: compressible, then incompressible, then nearly empty.
fn mixed() -> Vec<u8> {
    let mut bytes = words(2 * MIB + 12_345, 1);
    bytes.extend(noise(MIB + 1));
    bytes.extend(vec![0; MIB]);
    bytes
}
