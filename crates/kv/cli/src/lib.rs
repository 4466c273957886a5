//! `overside kv`, and an agent's part in it.

mod access;
pub mod agent;
mod announcement;
mod bench;
mod card;
mod cluster;
mod cores;
mod design;
mod directory;
mod dpdk;
mod dpu_side;
mod durability;
mod endpoints;
mod limits;
mod operation;
mod plan;
mod profile;
mod replica;
mod serve;
mod store;

use std::process::ExitCode;

/// Serve a key-value store to Redis and memcached clients, and measure such servers
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: KvCommand,
}

#[derive(clap::Subcommand)]
enum KvCommand {
    Bench(Box<bench::Arguments>),
    Cluster(Box<cluster::Arguments>),
    Endpoints(Box<endpoints::Arguments>),
    Profile(Box<profile::Arguments>),
    Serve(Box<serve::Arguments>),
}

/// Runs the command, and returns its exit code.
pub fn run(arguments: &Arguments) -> ExitCode {
    match &arguments.command {
        KvCommand::Bench(arguments) => bench::run(arguments),
        KvCommand::Cluster(arguments) => cluster::run(arguments),
        KvCommand::Endpoints(arguments) => endpoints::run(arguments),
        KvCommand::Profile(arguments) => profile::run(arguments),
        KvCommand::Serve(arguments) => serve::run(arguments),
    }
}
