//! `overside network serve`.

use std::ffi::OsString;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use lexopt::Arg;
use overside_probe::network::{Options, Server};

use crate::{exit, options};

const HELP: &str = "\
Answers network measurements: the task `network` of a box with destination=ADDRESS:PORT.

Usage: overside network serve [OPTIONS]

  --listen ADDRESS:PORT  where; 127.0.0.1:5300 unless given, port 0 takes a free one
  --role host|dpu        whose cores these are: host unless given. Their CPU time goes to that
                         ledger
  --sessions N           clients at a time, 1 to 64; 4 unless given

It says `listening at ADDRESS:PORT` when it is ready, and serves until it is ended. There is
neither encryption nor identification: whoever reaches the port can keep these cores busy. Listen at
an address of a network that you trust.
";
/// Where it listens unless told otherwise.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 5300);
/// The most clients at a time that can be asked for.
const SESSIONS_MAX: usize = 64;

pub fn main(arguments: &[OsString]) -> ExitCode {
    match arguments.first().and_then(|word| word.to_str()) {
        Some("--help" | "-h") => return crate::print(HELP),
        Some("serve") => {}
        _ => {
            complain!("overside network: say what to do: `overside network serve`");
            return ExitCode::from(exit::USAGE);
        }
    }
    let asked = match parse(&arguments[1..]) {
        Ok(Some(asked)) => asked,
        Ok(None) => return crate::print(HELP),
        Err(message) => {
            complain!("overside network serve: {message}");
            return ExitCode::from(exit::USAGE);
        }
    };
    let server = match Server::start(asked.listen, asked.options) {
        Ok(server) => server,
        Err(error) => {
            complain!("overside network serve: {error}; choose another with --listen");
            return ExitCode::from(exit::ABSENT);
        }
    };
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "listening at {}", server.address()).and_then(|()| out.flush());
    if let Err(error) = said {
        complain!("overside network serve: stdout cannot be written: {error}");
    }
    loop {
        // Signals end the process as they end any other; sessions have nothing to keep.
        std::thread::park();
    }
}

struct Asked {
    listen: SocketAddr,
    options: Options,
}

/// What is asked for; `None`: help.
fn parse(arguments: &[OsString]) -> Result<Option<Asked>, String> {
    let mut asked = Asked {
        listen: LISTEN,
        options: Options::default(),
    };
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Arg::Long("help") | Arg::Short('h') => return Ok(None),
            Arg::Long("listen") => asked.listen = options::value(&mut parser, "--listen")?,
            Arg::Long("role") => asked.options.role = options::role(&mut parser)?,
            Arg::Long("sessions") => {
                let sessions = options::value(&mut parser, "--sessions")?;
                if !(1..=SESSIONS_MAX).contains(&sessions) {
                    return Err(format!("--sessions is from 1 to {SESSIONS_MAX}"));
                }
                asked.options.sessions_max = sessions;
            }
            Arg::Long(option) => {
                let known = ["listen", "role", "sessions", "help"].map(str::to_string);
                return Err(options::unknown("network", option, &known));
            }
            Arg::Short(letter) => {
                return Err(options::unknown("network", &letter.to_string(), &[]));
            }
            Arg::Value(word) => return Err(format!("{} is not understood", word.display())),
        }
    }
    Ok(Some(asked))
}
