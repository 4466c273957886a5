//! `overside kv`.

mod access;
mod serve;

use std::process::ExitCode;

/// Serve a key-value store to Redis clients
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: KvCommand,
}

#[derive(clap::Subcommand)]
enum KvCommand {
    Serve(Box<serve::Arguments>),
}

pub fn run(arguments: &Arguments) -> ExitCode {
    match &arguments.command {
        KvCommand::Serve(arguments) => serve::run(arguments),
    }
}
