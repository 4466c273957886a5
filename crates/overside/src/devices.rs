//! `overside devices`.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

use overside_backends::Described;

use crate::exit;

const HELP: &str = "\
Lists devices and what they can do: this machine's, emulated ones, and those of agents that
`overside agents` knows.

Usage: overside devices [--json]

  --json  everything, for programs
";

pub fn main(arguments: &[OsString]) -> ExitCode {
    let mut json = false;
    for argument in arguments {
        match argument.to_str() {
            Some("--json") => json = true,
            Some("--help" | "-h") => return crate::print(HELP),
            _ => {
                complain!("overside devices: {argument:?} is not understood\n\n{HELP}");
                return ExitCode::from(exit::USAGE);
            }
        }
    }
    let mut devices = overside_backends::list();
    devices.extend(overside_backends::list_dpdk());
    devices.extend(overside_backends::agents::list());
    if !json {
        return crate::print(&for_people(&devices));
    }
    match serde_json::to_string_pretty(&devices) {
        Ok(text) => crate::print(&(text + "\n")),
        Err(error) => {
            complain!("overside devices: {error}");
            ExitCode::from(exit::INTERNAL)
        }
    }
}

fn for_people(devices: &[Described]) -> String {
    let mut text = String::new();
    for (number, device) in devices.iter().enumerate() {
        if number > 0 {
            text.push('\n');
        }
        describe(device, &mut text);
    }
    text
}

fn describe(device: &Described, text: &mut String) {
    let mut line = |args: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{args}");
    };
    if let Some(reason) = &device.unavailable {
        line(format_args!("{}: not available: {reason}", device.name));
        return;
    }
    match &device.info {
        Some(info) => line(format_args!("{}: {}", device.name, info.description)),
        None => line(format_args!("{}", device.name)),
    }
    let mut missing: Vec<&str> = Vec::new();
    for capability in &device.capabilities {
        line(format_args!(
            "  {:<23} up to {:>7}  {}",
            capability.operation.to_string(),
            size(capability.max_source_bytes),
            capability.variants.join(", ")
        ));
        for term in &capability.missing {
            if !missing.contains(&term.as_str()) {
                missing.push(term);
            }
        }
    }
    if !missing.is_empty() {
        line(format_args!(
            "  not published, so its times are lower bounds:"
        ));
        for term in missing {
            line(format_args!("    {term}"));
        }
    }
}

/// Bytes in the largest binary unit that keeps them whole, or at a hundred or more.
fn size(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes, "B");
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if value < 1024 || (value % 1024 != 0 && value < 100 * 1024) {
            break;
        }
        value /= 1024;
        unit = larger;
    }
    format!("{value} {unit}")
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_short_and_small_ones_are_exact() {
        let sizes = [0, 1023, 1024, 2 << 20, 16383, 128 << 20, (200 << 20) + 1];
        let texts = sizes.map(size);
        assert_eq!(
            texts,
            [
                "0 B", "1023 B", "1 KiB", "2 MiB", "16383 B", "128 MiB", "200 MiB"
            ]
        );
    }
}
