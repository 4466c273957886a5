//! `overside match --count` compared with `rg -c`, in alternating order: expressions of the published study with one
//! thread each, and everyday ones with the threads that both take by default:
//! `cargo bench -p overside --bench matching FILE`.
//!
//! FILE is text of about 1 GiB, for example several copies of the output of `overside data make
//! accidents`, or of a novel. The table has the shortest time of the whole process, and ripgrep's time divided by
//! it: 1.00 is equally fast, more is faster than ripgrep.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const OVERSIDE: &str = env!("CARGO_BIN_EXE_overside");
const ROUNDS: usize = 7;
const STUDY: [&str; 4] =
    ["At (.+)Exit (.+)", "(.+) on (.+) at Exit (.+)", "on (.+) at (.+)", "Ramp to (.+)"];
/// Literals, classes and prefixes.
const EVERYDAY: [&str; 7] =
    ["Pickwick", "Exit 15", "the", "[0-9]{4}", "[A-Z][a-z]+ [A-Z]", "Mr\\. [A-Z]", "^The"];

fn main() {
    let path = std::env::args().skip(1).find(|argument| argument != "--bench");
    let Some(path) = path else {
        println!("name a text file; `overside data make accidents` makes one");
        return;
    };
    let len = std::fs::metadata(&path).expect("the file is there").len();
    let ripgrep = Command::new("rg").arg("--version").output();
    if ripgrep.is_err() {
        println!("rg is not there; on Debian: apt-get install ripgrep");
    }
    let one_thread = STUDY.map(|query| (query, &["--threads", "1"][..]));
    for (query, threads) in one_thread.into_iter().chain(EVERYDAY.map(|query| (query, &[][..]))) {
        let arguments = [threads, &["-c", query, &path]].concat();
        let mut ours = Timed::new(OVERSIDE, &[&["match"], &*arguments].concat());
        let mut theirs = Timed::new("rg", &arguments);
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
            print!(", rg's time / ours {:.2}", theirs.time.as_secs_f64() / seconds);
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
        Self { command, time: Duration::MAX, said: String::new() }
    }

    fn run(&mut self) {
        let begin = Instant::now();
        let output = self.command.output().expect("it starts");
        self.time = self.time.min(begin.elapsed());
        // ripgrep prints no count of 0.
        let said = String::from_utf8_lossy(&output.stdout);
        self.said = said.trim().trim_start_matches('0').into();
    }
}
