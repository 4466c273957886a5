//! Output of a dry run: the design, and the memory of both sides.

use std::path::PathBuf;

use overside_kv::server::{Addresses, Settings};
use overside_kv_offload::design::{ClientMemory, Layout, SideMemory, Threads};
use overside_link::verbs::Side;
use serde_json::{Map, Value, json};

use super::announcement::{endpoints, listed, texts};
use super::card::CardMode;
use super::design::{DesignArguments, mib};
use overside_command::{line, messages::shown};

/// A server that is not started.
pub(super) struct Plan<'a> {
    pub design: &'a DesignArguments,
    pub layout: Layout,
    pub settings: &'a Settings,
    pub store_bytes: u64,
    /// Memory for clients of the host, and of the DPU.
    pub clients: [ClientMemory; 2],
    pub directory: Option<&'a PathBuf>,
    /// The card that carries the DPU's side, if it is known.
    pub card: Option<CardMode>,
    /// Changes that are kept for replicas; 0: it can have none.
    pub backlog_bytes: u64,
}

impl Plan<'_> {
    /// Maximum memory that a side takes: for each part its name in JSON, its description, and its bytes.
    fn memory(&self, side: Side) -> [(&'static str, &'static str, u64); 7] {
        let clients = match side {
            Side::Host => self.clients[0],
            Side::Dpu => self.clients[1],
        };
        let SideMemory { store, connections, links, channels, request_regions, dpdk_port } =
            self.layout.memory(side, self.store_bytes, clients);
        [
            ("store", "store, index included", store),
            ("connections", "connections", connections),
            ("links", "links", links),
            ("channels", "channels between cores", channels),
            ("request_regions", "request regions of clients (--herd)", request_regions),
            ("replica_backlog", "changes for replicas", self.backlog(side)),
            ("dpdk_port", "DPDK and its port", dpdk_port),
        ]
    }

    pub(super) fn json(&self) -> String {
        let side = |side| {
            let parts = self.memory(side);
            let mut memory: Map<_, _> =
                (parts.iter()).map(|(name, _, bytes)| ((*name).to_owned(), json!(bytes))).collect();
            memory.insert("total".into(), json!(total(&parts)));
            memory
        };
        let there = self.dpu_listen();
        let mut plan = endpoints(&self.settings.addresses);
        plan["schema"] = json!("kv-plan/1");
        plan["design"] = json!(self.design.design.name());
        plan["dpu"] = json!(self.design.node());
        plan["card"] = json!(self.card.as_ref().map(CardMode::to_string));
        let there = there.as_ref();
        plan["dpu_listen"] = json!(there.map_or(Vec::new(), |there| texts(&there.tcp)));
        plan["dpu_endpoints"] = json!(there.map(endpoints));
        plan["partitions"] = json!(self.layout.partitions());
        plan["threads"] = json!({
            "host": threads_json(self.layout.host),
            "dpu": threads_json(self.layout.dpu),
        });
        plan["links"] = json!(self.layout.links().count());
        plan["directory"] = json!(self.directory);
        plan["memory_bytes"] = json!({"host": side(Side::Host), "dpu": side(Side::Dpu)});
        format!("{plan}\n")
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        line!(text, "design: {}", self.design.design.name());
        line!(text, "  on the host: {}", threads_text(self.layout.host));
        if let Some(node) = self.design.node() {
            line!(text, "  on {node}: {}", threads_text(self.layout.dpu));
            if let Some(card) = &self.card {
                line!(text, "  card: {card}");
            }
            line!(text, "  links between them: {}", self.layout.links().count());
        }
        let here = listed(&self.settings.addresses);
        let there = self.dpu_listen().map(|there| listed(&there));
        match self.layout.host.serving() {
            0 => line!(text, "listens on the DPU at: {here}"),
            _ => match there {
                None => line!(text, "listens at: {here}"),
                Some(there) => line!(text, "listens at: {here}, on the DPU at {there}"),
            },
        }
        match self.directory {
            Some(directory) => {
                let there = match self.layout.dpu.partitions() {
                    0 => "",
                    _ => ", and on the DPU",
                };
                line!(text, "keeps everything in: {}{there}", shown(directory));
            }
            None => line!(text, "keeps nothing when it ends (--dir DIR does)"),
        }
        self.memory_text(&mut text, "host", Side::Host);
        if self.design.node().is_some() {
            self.memory_text(&mut text, "DPU", Side::Dpu);
        }
        text
    }

    /// Addresses at which clients connect to the DPU; `None` unless both sides have clients.
    fn dpu_listen(&self) -> Option<Addresses> {
        let [host, dpu] = [self.layout.host, self.layout.dpu].map(Threads::serving);
        (host > 0 && dpu > 0).then(|| self.design.dpu_addresses(&self.settings.addresses))
    }

    /// Returns the memory of a side for changes that replicas may request, in bytes.
    fn backlog(&self, side: Side) -> u64 {
        match side {
            Side::Host => self.backlog_bytes,
            Side::Dpu => 0,
        }
    }

    fn memory_text(&self, text: &mut String, name: &str, side: Side) {
        let parts = self.memory(side);
        line!(text, "memory of the {name}, at most: {}", mib(total(&parts)));
        for (_, what, bytes) in parts {
            if bytes > 0 {
                line!(text, "  {what}: {}", mib(bytes));
            }
        }
    }
}

fn total(parts: &[(&str, &str, u64)]) -> u64 {
    parts.iter().map(|(_, _, bytes)| bytes).sum()
}

fn threads_json(threads: Threads) -> Value {
    json!({
        "complete": threads.complete,
        "communication": threads.communication,
        "processing": threads.processing,
    })
}

fn threads_text(threads: Threads) -> String {
    let keys = match threads.partitions() {
        1 => "the keys",
        _ => "a part of the keys",
    };
    let all = [
        (threads.complete, "clients and a part of the keys"),
        (threads.processing, keys),
        (threads.communication, "clients"),
    ];
    let counted = |(count, what): (usize, &str)| match count {
        0 => None,
        1 => Some(format!("1 core, with {what}")),
        _ => Some(format!("{count} cores, each with {what}")),
    };
    let counted: Vec<_> = all.into_iter().filter_map(counted).collect();
    match counted.is_empty() {
        true => "nothing".into(),
        false => counted.join(", "),
    }
}
