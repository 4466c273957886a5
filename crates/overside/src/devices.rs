//! `overside devices`.

use std::process::ExitCode;

use overside_backends::Described;
use overside_command::{complain, exit, line, logging::Verbosity};
use overside_config::units;
use overside_link::listing::{self, LinkListing};
use overside_link::verbs::Mover;
use overside_log::LevelFilter;
use serde::Serialize;

/// List devices and links, and what they can do
#[derive(clap::Args)]
#[command(after_help = "\
Devices are this machine's, emulated ones, and those of agents that `overside agents` knows. Links \
are devices of the task `dma`.

Examples:
  overside devices
  overside devices --json
  sudo overside devices --compile dpdk --compile ucx")]
pub(crate) struct Arguments {
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Compile the code that connects this Overside with the DPDK or UCX installed here
    #[arg(long, value_name = "LIBRARY", value_parser = ["dpdk", "ucx"])]
    compile: Vec<String>,
    #[command(flatten)]
    verbosity: Verbosity,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let verbosity = arguments.verbosity.clone();
    if let Err(code) = verbosity.start("devices", LevelFilter::WARN, exit::USAGE) {
        return code;
    }
    if !arguments.compile.is_empty() {
        return compile(&arguments.compile);
    }
    let devices = overside_backends::list_all();
    let links = listing::list();
    if !arguments.json {
        return overside_command::print(&text(&devices, &links));
    }
    let devices = devices.into_iter().map(Entry::Device);
    let links = links.into_iter().map(|link| Entry::Link { link, capabilities: [] });
    let all = Listing { schema: "devices/1", devices: devices.chain(links).collect() };
    match serde_json::to_string_pretty(&all) {
        Ok(text) => overside_command::print(&(text + "\n")),
        Err(error) => {
            complain!("overside devices: {error}");
            ExitCode::from(exit::INTERNAL)
        }
    }
}

/// Compiles the shims of these names for the libraries of this machine. A package that was built
/// elsewhere cannot contain them.
fn compile(names: &[String]) -> ExitCode {
    let shims = [&overside_backends::DPDK_SHIM, overside_link::ucx::shim()];
    for shim in (shims.iter()).filter(|shim| names.iter().any(|name| name == shim.name())) {
        match shim.compile() {
            Ok((version, path)) => {
                complain!("compiled for {} {version}: {}", shim.title(), path.display());
            }
            Err(error) => {
                complain!("overside devices: {error}");
                return ExitCode::from(exit::ABSENT);
            }
        }
    }
    ExitCode::SUCCESS
}

#[derive(Serialize)]
struct Listing {
    schema: &'static str,
    devices: Vec<Entry>,
}

/// An element of the list.
#[derive(Serialize)]
#[serde(untagged)]
enum Entry {
    /// Device that runs jobs.
    Device(Described),
    /// Link: moves bytes between two sides and runs no jobs, so it has no capabilities for operations.
    Link {
        #[serde(flatten)]
        link: LinkListing,
        capabilities: [(); 0],
    },
}

fn text(devices: &[Described], links: &[LinkListing]) -> String {
    let describe_each = (devices.iter()).map(|device| {
        let mut text = String::new();
        describe(device, &mut text);
        text
    });
    let paragraphs: Vec<String> = describe_each.chain(links.iter().map(link)).collect();
    paragraphs.join("\n")
}

fn link(link: &LinkListing) -> String {
    let Some(about) = &link.about else {
        let reason = link.unavailable.as_deref().unwrap_or_default();
        return format!("{}: not available: {reason}\n", link.name);
    };
    let can = &about.link;
    let mut text = format!("{}: {}\n", link.name, about.description);
    let verbs = [("read", &can.read), ("write", &can.write), ("send", &can.send)];
    for (verb, limits) in verbs {
        let (most, by) = (units::size(limits.max_bytes as f64), mover(limits.mover));
        line!(text, "  {verb:<23} up to {most:>7}  by {by}");
    }
    let reaped = match &about.carried_by_events {
        Some(carrier) if *carrier == about.carried_by => "polled for or waited for".into(),
        Some(carrier) => format!("polled for, or over {carrier} waited for"),
        None => "polled for".into(),
    };
    line!(
        text,
        "  inline up to {}; {} operations in flight on each of {} queue pairs; completions are \
         {reaped}",
        units::size(can.max_inline_bytes as f64),
        can.max_depth,
        can.queue_pairs,
    );
    if !about.variants.is_empty() {
        line!(text, "  variants: {}", about.variants.join(", "));
    }
    text
}

fn mover(mover: Mover) -> &'static str {
    match mover {
        Mover::Caller => "the initiator",
        Mover::Engine => "a thread that stands for a DMA engine",
        Mover::Nic => "a network card, or what UCX takes in its place",
    }
}

fn describe(device: &Described, text: &mut String) {
    if let Some(reason) = &device.unavailable {
        line!(text, "{}: not available: {reason}", device.name);
        return;
    }
    match &device.info {
        Some(info) => line!(text, "{}: {}", device.name, info.description),
        None => line!(text, "{}", device.name),
    }
    let mut missing: Vec<&str> = Vec::new();
    for capability in &device.capabilities {
        line!(
            text,
            "  {:<23} up to {:>7}  {}",
            capability.operation.to_string(),
            units::size(capability.max_source_bytes as f64),
            capability.variants.join(", ")
        );
        for term in &capability.missing {
            if !missing.contains(&term.as_str()) {
                missing.push(term);
            }
        }
    }
    if !missing.is_empty() {
        line!(text, "  not published, so its times are lower bounds:");
        for term in missing {
            line!(text, "    {term}");
        }
    }
}
