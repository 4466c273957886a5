//! `overside match --count` compared with `rg -c`, in alternating order and with one thread each:
//! `cargo bench -p overside --bench matching FILE`.
//!
//! FILE is text of about 1 GiB, for example several copies of the output of `overside data make
//! accidents`. The table has the shortest time of the whole process, and ripgrep's time divided by
//! it: 1.00 is equally fast, more is faster than ripgrep.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const OVERSIDE: &str = env!("CARGO_BIN_EXE_overside");
const ROUNDS: usize = 7;
const QUERIES: [&str; 4] = [
    "At (.+)Exit (.+)",
    "(.+) on (.+) at Exit (.+)",
    "on (.+) at (.+)",
    "Ramp to (.+)",
];

fn main() {
    let path = std::env::args()
        .skip(1)
        .find(|argument| argument != "--bench");
    let Some(path) = path else {
        println!("name a text file; `overside data make accidents` makes one");
        return;
    };
    let len = std::fs::metadata(&path).expect("the file is there").len();
    let ripgrep = Command::new("rg").arg("--version").output();
    if ripgrep.is_err() {
        println!("rg is not there; on Debian: apt-get install ripgrep");
    }
    for query in QUERIES {
        let mut ours = Timed::new(OVERSIDE, &["match", "--threads", "1", "-c", query, &path]);
        let mut theirs = Timed::new("rg", &["--threads", "1", "-c", query, &path]);
        for _ in 0..ROUNDS {
            ours.run();
            if ripgrep.is_ok() {
                theirs.run();
            }
        }
        let seconds = ours.time.as_secs_f64();
        let rate = len as f64 / 1e6 / seconds;
        print!("{query:<28} {} records, {rate:.0} MB/s", ours.said);
        if ripgrep.is_ok() {
            assert_eq!(ours.said, theirs.said, "both count the same");
            print!(
                ", rg's time / ours {:.2}",
                theirs.time.as_secs_f64() / seconds
            );
        }
        println!();
    }
}

/// Program with the shortest time that it took.
struct Timed {
    command: Command,
    time: Duration,
    said: String,
}

impl Timed {
    fn new(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        Self {
            command,
            time: Duration::MAX,
            said: String::new(),
        }
    }

    fn run(&mut self) {
        let begin = Instant::now();
        let output = self.command.output().expect("it starts");
        self.time = self.time.min(begin.elapsed());
        self.said = String::from_utf8_lossy(&output.stdout).trim().into();
    }
}
