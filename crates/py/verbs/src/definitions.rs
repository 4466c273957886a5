//! Definitions of the verbs: their options and examples.

use clap::builder::{IntoResettable, ValueParser};
use clap::{Arg, ArgAction, Command};

use crate::values::{
    address, card_mode, days, filter, name, one_of, path, price, run, run_name, seconds, share,
    size, table, text, whole,
};

/// Verbs that are in Python whole, in alphabetical order.
pub(crate) const VERBS: [fn() -> Command; 19] = [
    advise, audit, calibrate, clean, compare, data, doctor, facts, fleet, list, plan, plugin,
    profile, report, run_box, runs, simulate, studies, validate,
];

/// Verbs of `flow` that are in Python.
pub(crate) const FLOW: [fn() -> Command; 1] = [serve_table];

const A_RUN: &str = "A run's directory or name; @ is the newest, @1 the one before";
const A_BOX: &str =
    "Path of a box, or the name of a ready-made one or of a figure, as in figure:S1.7";
const A_PROFILE: &str = "A profile's name, or the path of its file";
/// Largest seed: the largest whole number that all programs read from JSON as it is.
const SEED_MAX: u64 = (1 << 53) - 1;
const TIME_S_MIN: f64 = 0.001;
const DAY_S: f64 = 86_400.0;
/// Longest time that a run may measure: a week.
const RUN_S_MAX: f64 = 7.0 * DAY_S;

/// Options, one a line: their kind, which is a function below, and what that takes.
macro_rules! options {
    ($($kind:ident $($part:expr),*;)*) => { [$($kind($($part),*)),*] };
}

/// Defines a verb with examples, one per line: the command and its purpose.
fn verb(name: &'static str, about: &'static str, examples: &str) -> Command {
    let examples = examples.replace('\n', "\n  ");
    let command = Command::new(name).about(about);
    command.after_help(format!("Examples:\n  {examples}"))
}

/// A verb of verbs.
fn family<const N: usize>(name: &'static str, about: &'static str, verbs: [Command; N]) -> Command {
    let family = Command::new(name).about(about).subcommands(verbs);
    family.subcommand_required(true).arg_required_else_help(true)
}

type Text = &'static str;

/// A value that is known by its place.
fn place(id: Text, value: Text, read: impl IntoResettable<ValueParser>, help: Text) -> Arg {
    let arg = Arg::new(id).value_name(value).value_parser(read);
    arg.help(help).required(true)
}

/// A value by its place that may be left out.
fn optional(id: Text, value: Text, read: impl IntoResettable<ValueParser>, help: Text) -> Arg {
    place(id, value, read, help).required(false)
}

/// A value by its place, with a default.
fn place_or<R>(id: Text, value: Text, default: Text, read: R, help: Text) -> Arg
where
    R: IntoResettable<ValueParser>,
{
    optional(id, value, read, help).default_value(default)
}

/// Values to the end, which may be none.
fn words(id: Text, value: Text, read: impl IntoResettable<ValueParser>, help: Text) -> Arg {
    let words = optional(id, value, read, help);
    words.action(ArgAction::Append).num_args(0..)
}

/// Values to the end, at least one.
fn places(id: Text, value: Text, read: impl IntoResettable<ValueParser>, help: Text) -> Arg {
    words(id, value, read, help).num_args(1..).required(true)
}

fn flag(long: Text, help: Text) -> Arg {
    let flag = Arg::new(long).long(long).help(help);
    flag.action(ArgAction::SetTrue)
}

/// A flag that does not go with another.
fn either(long: Text, other: Text, help: Text) -> Arg {
    flag(long, help).conflicts_with(other)
}

fn option(long: Text, value: Text, read: impl IntoResettable<ValueParser>, help: Text) -> Arg {
    optional(long, value, read, help).long(long)
}

/// An option with a default.
fn preset<R>(long: Text, value: Text, default: Text, read: R, help: Text) -> Arg
where
    R: IntoResettable<ValueParser>,
{
    option(long, value, read, help).default_value(default)
}

/// An option that may be repeated.
fn several(long: Text, value: Text, read: impl IntoResettable<ValueParser>, help: Text) -> Arg {
    option(long, value, read, help).action(ArgAction::Append)
}

/// Names with commas between, in one option or several.
fn names(long: Text, help: Text) -> Arg {
    several(long, "NAME[,NAME]", name, help).value_delimiter(',')
}

fn json() -> Arg {
    flag("json", "Print JSON to stdout")
}

fn seed() -> Arg {
    option("seed", "N", whole(0..=SEED_MAX), "Override the box's seed")
}

fn selection() -> [Arg; 2] {
    options! {
        several "set", "TASK.KEY=V,V", text, "Give a task's parameter other values, with units as in \
            compress.buffer_size=64KiB; measure.max_s=10s and the like work too";
        several "filter", "KEY=GLOB", filter,
            "Keep only tests that match; KEY is task, id or a parameter; all must match";
    }
}

fn nodes() -> Arg {
    let help = "Machines that measure, with commas between: local, or agents (`overside agents \
                list`), instead of the box's";
    names("node", help)
}

fn advise() -> Command {
    let examples = "\
overside advise                       from the newest run
overside advise --card bf2 --explain  about one card, with reasons
overside advise --workload workloads/log-archive.toml --placement-out p.toml";
    let about = "Recommend what to run where, from measured and published figures";
    verb("advise", about, examples).args(options! {
        option "run", "RUN", run, "A run's directory or name; @ is the newest, @1 the one before [default: the newest in DIR; \
            without any, published figures]";
        preset "out", "DIR", "results", path, "Directory of the runs";
        names "card", "Cards, by their profiles' names or files, with commas between [default: all]";
        names "operation", "Operations, as in compress-deflate, or all of a kind, as in compress [default: all]";
        option "size", "SIZE", size(1..=1 << 40), "Only buffers of this size, of the uncompressed side, as in 64KiB";
        option "rate", "RATE", text, "Cores and cards that one --operation takes at this rate, as in '40 Gb/s'";
        option "price-card", "PRICE", price, "With --rate: price of a card";
        option "price-core", "PRICE", price, "With --rate: price of a core for an hour, in the same currency";
        option "workload", "FILE", path, "A pipeline to be placed, as in workloads/";
        flag "measure", "Measure this host first, which takes about a minute";
        option "data", "PATH", text, "Measure this host on that file or directory first";
        option "placement-out", "FILE", path, "Write a placement file, for --placement-file of other verbs";
        option "device", "NAME", text, "Name of the --card in the placement file [default: its emulation]";
        flag "explain", "Show each size of buffers, and what each verdict rests on";
        json;
    })
}

fn audit() -> Command {
    let examples = "\
overside audit
overside audit --no-noise  a second instead of about fifteen";
    let about = "Check that the harness catches planted errors, and measure its noise";
    verb("audit", about, examples).args(options! {
        flag "no-noise", "Only plant mistakes; do not run anything twice (a second instead of about fifteen)";
        json;
    })
}

fn calibrate() -> Command {
    let examples = "\
overside calibrate --quick  try it: a few seconds
overside calibrate --device dpu0/cpu --time 10min --out my-card.toml";
    let about = "Measure what the model needs to know of a device, and write its profile";
    verb("calibrate", about, examples).args(options! {
        option "device", "D", text, "Device to measure; `overside devices` lists them [default: cpu]";
        option "out", "FILE", path, "File to write [default: NAME.toml]";
        option "name", "NAME", text, "Name of the profile [default: that of FILE, or of D]";
        preset "time", "TIME", "10min", seconds(1.0..=DAY_S), "Measure for about TIME, as in 90s, 10min, 1h";
        several "operation", "OP", text, "Measure OP, as in compress-deflate; may be repeated [default: the usual ones]";
        flag "quick", "Try it: a few seconds, wide intervals";
        option "network", "DEST", text, "Measure what copies by D cost a stream of traffic to DEST as well: an agent of \
            `overside agents list`";
        flag "no-memory", "Do not measure memory";
        preset "results", "DIR", "results", path, "Keep the run in DIR";
        option "resume", "RUN", run, "Resume a calibration that was stopped";
        flag "json", "Print what was written as JSON";
    })
}

fn clean() -> Command {
    let examples = "\
overside clean  asks first
overside clean --runs --older-than 30 --yes";
    let about = "Remove leftovers of runs, data sets and killed compressors";
    verb("clean", about, examples).args(options! {
        flag "runs", "Remove runs only";
        flag "data", "Remove made and fetched data only";
        flag "files", "Remove unfinished files of killed compress and decompress only";
        preset "out", "DIR", "results", path, "Directory of the runs";
        preset "below", "DIR", ".", path, "Look for unfinished files in DIR and below it";
        preset "older-than", "DAYS", "0", days, "Remove only what is older";
        flag "yes", "Do not ask";
        json;
    })
}

fn compare() -> Command {
    let examples = "\
overside compare before after        two runs by name
overside compare @1 --threshold 10%  the run before the newest with the newest
overside compare @1 --format html    all of it as a page";
    verb("compare", "Compare two runs test by test", examples).args(options! {
        place "before", "A", run, A_RUN;
        place_or "after", "B", "@", run, "Another one";
        option "threshold", "SHARE", share, "Relative difference that counts as a change [default: the box's, or 0.05]";
        several "metric", "NAME", text, "Compare this metric; may be repeated [default: those that the box asks for]";
        flag "all", "Show every figure, not only what changed";
        flag "strict", "Exit with 103 if a verdict is ambiguous";
        flag "across", "Compare figures of different provenance, or modes of the card, too";
        option "format", "FORMAT", one_of(["html", "md"]), "Write the whole comparison as a page or as Markdown into B";
        option "out", "FILE", path, "Write it there instead; - for stdout";
        json;
    })
}

fn data() -> Command {
    let list = "Show all data sets: which are here, and how to get the others";
    let list = verb("list", list, "overside data list").args(options! {
        preset "seed", "N", "0", whole(0..=SEED_MAX), "Seed of made data";
        json;
    });
    let make = "overside data make accidents noise";
    let make = verb("make", "Make data sets from a seed", make).args(options! {
        places "names", "NAME", text, "Data sets to make";
        flag "again", "Make it again even if it exists";
        preset "seed", "N", "0", whole(0..=SEED_MAX), "Seed of made data";
        json;
    });
    let fetch = "Download the Silesia corpus, or resume a download that was broken off";
    let fetch = verb("fetch", fetch, "overside data fetch silesia").args(options! {
        place_or "name", "NAME", "silesia", text, "Data set to download";
        option "url", "URL", text, "Download from this address [default: that of the corpus]";
        json;
    });
    let verify = "Read data sets again and compare them with their digests";
    let example = "overside data verify  all that are here";
    let verify = verb("verify", verify, example).args(options! {
        words "names", "NAME", text, "Data sets to read again [default: all that are here]";
        preset "seed", "N", "0", whole(0..=SEED_MAX), "Seed of made data";
        json;
    });
    let verbs = [list, make, fetch, verify];
    family("data", "List, make, fetch or verify data sets", verbs)
}

fn doctor() -> Command {
    let about = "Find what this machine lacks and what makes it noisy, with fixes";
    let examples = "overside doctor\noverside doctor --json  for programs";
    verb("doctor", about, examples).arg(json())
}

fn facts() -> Command {
    let examples = "\
overside facts deflate bf2                facts that hold both words
overside facts show coproc.comp.asic.bf2  one fact, with all there is to know
overside facts ask coproc.comp.asic.bf2   commands for the model's answer
overside facts check                      every figure beside the prediction";
    let about = "Search published figures, and compare the model with them";
    let uses = one_of(["calibrate", "validate", "context", "all"]);
    verb("facts", about, examples).args(options! {
        words "words", "WORD", text, "`show ID`, `ask ID`, `check [FIELD]`, or words to search for";
        json;
        option "paper", "P", text, "Facts of that study only: coproc, dpbento, ...";
        option "device", "D", text, "Facts about that device only: bf2, octeon, host";
        option "use", "USE", uses, "Facts for that use only [default: all; of `check` validate, the held-out facts]";
        option "facts", "FILE", text, "Another collection of the same form (YAML, up to 4 MiB)";
    })
}

fn fleet() -> Command {
    let about = "Run a box on machines of a Ray cluster at once, and merge what they measured";
    let run = verb("run", about, "overside fleet run quick --label bluefield");
    let run = run.args(selection()).args(options! {
        place "box", "BOX", text, A_BOX;
        option "label", "LABEL", text, "Only machines with this resource of Ray's, or with this label, as KEY=VALUE";
        preset "ray-address", "ADDRESS", "auto", text,
            "The cluster: HOST:PORT, or auto for the one this machine is part of";
        preset "out", "DIR", "results", path, "Make the run's directory in DIR";
        flag "json", "Print the run as JSON to stdout";
        seed;
        option "timeout", "TIME", seconds(TIME_S_MIN..=RUN_S_MAX),
            "Each machine measures for at most TIME, overriding the box's max_s";
        flag "allow-scripts", "Run scripts and plug-ins that may change the machines";
    });
    let about = "Run a box on the machines of a Ray cluster at once";
    family("fleet", about, [run])
}

fn list() -> Command {
    let examples = "\
overside list boxes           boxes that can be run by name
overside list tasks compress  its parameters and metrics";
    let about = "List tasks, variants, boxes, profiles or data sets";
    let kinds = one_of(["tasks", "variants", "boxes", "profiles", "data"]);
    verb("list", about, examples).args(options! {
        place "what", "WHAT", kinds, "Kind of the things to list";
        optional "name", "NAME", text, "Show one only: a task with parameters and metrics, an operation, a box's file, ...";
        json;
    })
}

fn plan() -> Command {
    let examples = "\
overside plan quick                         tests and time
overside plan quick --filter task=compress  of one task only";
    let about = "Show a box's tests and their time without running";
    let plan = verb("plan", about, examples);
    let plan = plan.arg(place("box", "BOX", text, A_BOX)).args(selection());
    plan.args([nodes(), json()])
}

fn plugin() -> Command {
    let new = "overside plugin new mine  a folder that works, to be changed";
    let about = "Write a plug-in that works, to be changed";
    let new = verb("new", about, new).args(options! {
        place "name", "NAME", text, "Name of the plug-in in boxes";
        preset "dir", "DIR", ".", path, "Make its folder in this directory";
        json;
    });
    let about = "Exercise a plug-in and say what is wrong with it";
    let check = verb("check", about, "overside plugin check mine").args(options! {
        place "folder", "DIR", path, "The plug-in's folder";
        preset "timeout", "TIME", "60s", seconds(TIME_S_MIN..=DAY_S), "Longest time that one call of run may take";
        flag "allow-scripts", "Run it even if it says that it changes this system";
        json;
    });
    family("plugin", "Create or check a plug-in", [new, check])
}

fn profile() -> Command {
    let list = verb("list", "List profiles", "overside profile list").arg(json());
    let about = "Show what a profile says and what it does not";
    let show = verb("show", about, "overside profile show bf2").args(options! {
        place "name", "NAME", text, A_PROFILE;
        json;
    });
    let about = "Compare two profiles value by value";
    let diff = verb("diff", about, "overside profile diff bf2 bf3").args(options! {
        place "a", "A", text, A_PROFILE;
        place "b", "B", text, "Another";
        json;
    });
    let about = "Say all that is wrong with files of profiles";
    let check = verb("check", about, "overside profile check my-card.toml").args(options! {
        places "files", "FILE", text, "A profile's file";
        json;
    });
    let example = "overside profile from-run @ --out my-host.toml";
    let about = "Write a profile from a run's samples";
    let from_run = verb("from-run", about, example).args(options! {
        place "run", "RUN", run, A_RUN;
        option "device", "D", text, "Device of the run to describe";
        option "out", "FILE", path, "File to write [default: stdout]";
        option "name", "NAME", text, "Name of the profile [default: that of FILE, or of the device]";
        json;
    });
    let about = "List what profiles may say";
    let parameters = verb("parameters", about, "overside profile parameters").arg(json());
    let verbs = [list, show, diff, check, from_run, parameters];
    family("profile", "Show, compare, check or write device profiles", verbs)
}

fn report() -> Command {
    let examples = "\
overside report                      the page of the newest run
overside report @1 --open            the run before it, in a browser
overside report --format md --out -  for a pull request
overside report --format svg         each chart as a picture";
    let about = "Write a run's report, or print its summary";
    let formats = one_of(["csv", "html", "json", "md", "png", "svg"]);
    verb("report", about, examples).args(options! {
        place_or "run", "RUN", "@", run, A_RUN;
        several "format", "FORMAT", formats, "Write this into RUN: html (the default), md, csv, json, or each chart as svg or \
            png into RUN/charts; may be repeated";
        option "chart", "NAME", text, "With --format svg or png: only this chart, by its file's name; `rounds` draws what each \
            round measured, `histogram` the spread of latencies";
        option "out", "FILE", path, "Write one format there instead; - for stdout";
        flag "json", "The same as --format json --out -";
        flag "open", "Show the page in a browser";
    })
}

fn run_box() -> Command {
    let examples = "\
overside run quick                              measure for a minute
overside run quick --name before                call the run `before`
overside run hash --set hash.buffer_size=64KiB  values of your own
overside run --resume @                         continue the newest run
overside run quick --json-lines                 for programs, as it happens";
    let run_box = verb("run", "Run a box and write its report", examples);
    let run_box = run_box.args(selection()).args(options! {
        optional "box", "BOX", text, A_BOX;
        nodes;
        option "resume", "RUN", run, "Resume an incomplete run";
        preset "out", "DIR", "results", path, "Make the run's directory in DIR";
        option "name", "NAME", run_name, "Call the run NAME, for other verbs too [default: the time and the box's name]";
        either "json", "json-lines", "Print the run as JSON to stdout";
        flag "json-lines", "Print what happens as it happens to stdout, a JSON object a line";
        seed;
        option "timeout", "TIME", seconds(TIME_S_MIN..=RUN_S_MAX), "Measure for at most TIME, overriding the box's max_s";
        option "card-mode", "MODE", card_mode(), "The way through the card, where it cannot be seen from here; SM1 to SM5, as \
            the literature calls them, are on-path-1 to -5";
        flag "strict", "Exit with 104 if the emulated timing of a test is invalid";
        either "allow-scripts", "sandbox", "Run scripts and plug-ins that may change this machine without asking";
        flag "sandbox", "Confine plug-ins with bubblewrap, so that they cannot change this machine";
    });
    run_box.mut_arg("card-mode", |mode| mode.ignore_case(true))
}

fn runs() -> Command {
    let examples = "overside runs\noverside runs --last 3";
    verb("runs", "List runs, the newest first", examples).args(options! {
        preset "out", "DIR", "results", path, "Directory of the runs";
        preset "last", "N", "20", whole(1..=1024), "Show the N newest";
        json;
    })
}

fn simulate() -> Command {
    let examples = "\
overside simulate --list                                 all scenarios
overside simulate dma-primitives                         a preset
overside simulate dma --list                             a scenario's keys
overside simulate split --set cores=1,2,4 --profile bf2  a sweep";
    let about = "Model a scenario: throughput, latency, cores, bottleneck";
    verb("simulate", about, examples).args(options! {
        optional "what", "FILE|NAME", text, "A file scenario/1, a preset or a scenario; see --list";
        several "set", "KEY=VALUE[,...]", text, "Set a key; several values are a sweep";
        option "profile", "P", text, "A profile's name, or a profile file";
        option "from", "RUN", run, "This machine's costs as a run measured them, or a profile file; for kv also a run of box \
            kv-stages, or what `overside kv profile --json` printed";
        flag "list", "List scenarios and presets, or with NAME a scenario's keys";
        flag "explain", "List all that is unknown, and the published facts behind it";
        json;
    })
}

fn studies() -> Command {
    let examples = "\
overside studies       every figure: what can run here, and how long it takes
overside studies S1.7  one figure: its conditions, and what it needs";
    let about = "List the figures of published studies that have a box";
    verb("studies", about, examples).args(options! {
        optional "name", "NAME", text, "One figure only, as in S1.7 or S4.T1, or one study, as in S1 [default: all]";
        json;
    })
}

fn validate() -> Command {
    let examples = "\
overside validate quick
overside validate my-box.json  says how many of its tests can run here";
    let validate = verb("validate", "Check a box", examples);
    validate.args([place("box", "BOX", text, A_BOX), json()])
}

fn serve_table() -> Command {
    let examples = "\
overside flow serve-table ships=ships.parquet  on this machine only
overside flow serve-table ships=ships.parquet --memory 2GiB --timeout 5min";
    let about = "Serve Parquet and Arrow files as tables by Arrow Flight SQL, read-only";
    let clients = one_of(["none", "required"]);
    verb("serve-table", about, examples).args(options! {
        places "tables", "NAME=PATH", table, "A table's name in SQL, and its file, or its directory of files";
        preset "listen", "ADDRESS", "127.0.0.1:31337", address, "IP address to listen at, with or without a port";
        option "password-file", "FILE", path,
            "File whose first line is the password; required where other machines can connect";
        option "tls-keys", "DIR", path, "Directory with server.pem and server.key, and ca.pem for client certificates";
        preset "tls-clients", "WHICH", "none", clients, "required: admit only clients with a certificate that ca.pem signed";
        option "memory", "SIZE", size(64 << 20..=1 << 50),
            "Memory of all statements together, as in 2GiB [default: half of the machine's]";
        preset "timeout", "TIME", "10min", seconds(TIME_S_MIN..=DAY_S),
            "Longest time of a statement until its last row is taken";
        preset "statements", "N", "8", whole(1..=1024), "Statements at a time; others wait";
        option "threads", "N", whole(1..=1024), "Threads of all statements [default: one per core]";
        option "metrics", "IP:PORT", address, "Serve metrics for Prometheus at http://ADDRESS/metrics, to anyone who can connect";
        preset "drain", "TIME", "10s", seconds(0.0..=3600.0), "On shutdown, wait this long for clients to take their rows";
        flag "json", "Print the address as JSON";
    })
}
