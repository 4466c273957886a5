//! Text and JSON that `overside kv profile` prints.

use overside_command::line;
use overside_config::units::{count, number};
use overside_kv::stages::Stage;
use serde_json::{Map, Value, json};

use super::Report;
use super::breakdown::{Breakdown, WORKING};
use crate::bench::text::{conditions, conditions_json};

impl Report {
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        match &self.keys {
            None => self.breakdown.lines(&mut text, "stage"),
            Some(keys) => {
                self.breakdown.lines(&mut text, "clients");
                line!(text, "");
                keys.lines(&mut text, "keys");
            }
        }
        line!(text, "{} requests/s", number(self.point.throughput().0, 3));
        line!(text, "the load generator took {} ns a command", number(self.client_ns(), 3));
        line!(text, "hashing a key takes {} ns of parsing", number(self.hash_ns, 3));
        if let Some(link) = &self.link {
            line!(
                text,
                "a link would add {} ns a command where requests are parsed and {} ns where they are executed \
                 (shared memory, {} a message)",
                number(link.communication_ns, 3),
                number(link.processing_ns, 3),
                link.batch
            );
        }
        line!(text, "{}", conditions(&self.settings));
        text
    }

    pub(super) fn to_json(&self) -> String {
        let (median, least, most) = self.point.throughput();
        let mut value = conditions_json(&self.settings);
        for (name, figure) in self.breakdown.to_json() {
            value[name] = figure;
        }
        value["keys"] = json!(self.keys.as_ref().map(Breakdown::to_json));
        value["client_ns_per_command"] = json!(self.client_ns());
        value["hash_ns_per_command"] = json!(self.hash_ns);
        value["link"] = match &self.link {
            None => Value::Null,
            Some(link) => json!({
                "batch": link.batch,
                "communication_ns_per_command": link.communication_ns,
                "processing_ns_per_command": link.processing_ns,
            }),
        };
        value["requests_per_s"] = json!({"median": median, "min": least, "max": most});
        format!("{value:#}")
    }

    /// CPU time of the load generator's threads for a command.
    fn client_ns(&self) -> f64 {
        1e9 * self.point.client_cpu_s / self.point.answered.max(1) as f64
    }
}

impl Breakdown {
    fn stages(&self) -> [(Stage, f64); WORKING.len()] {
        std::array::from_fn(|at| (WORKING[at], self.stages_ns[at]))
    }

    /// A table of the stages, with its notes.
    fn lines(&self, text: &mut String, head: &str) {
        line!(text, "{head:<8} {:>8} {:>12} {:>12}  [measured]", "share", "ns/batch", "ns/command");
        let mut row = |name: &str, ns: f64| {
            let shown = |value: Option<f64>| value.map_or("-".into(), |value| number(value, 3));
            let share = format!("{:.1} %", 100.0 * self.share(ns));
            let (batch, command) = (shown(self.per_batch(ns)), shown(self.per_command(ns)));
            line!(text, "{name:<8} {share:>8} {batch:>12} {command:>12}");
        };
        for (stage, ns) in self.stages() {
            row(stage.name(), ns);
        }
        row("all", self.busy_ns());
        line!(text, "");
        if let Some(commands) = self.per_batch(self.commands as f64) {
            line!(
                text,
                "{} commands a batch, {} batches in {} turns",
                number(commands, 3),
                count(self.batches),
                count(self.turns)
            );
        }
        line!(text, "idle {:.1} % of {} s", 100.0 * self.idle(), number(self.elapsed_ns / 1e9, 3));
        let off_cpu = self.off_cpu_ns / self.elapsed_ns.max(1.0);
        if off_cpu > 0.01 {
            line!(
                text,
                "not running {:.1} % of the time, which the stages include: others had the core, or the \
                 disk was slow",
                100.0 * off_cpu
            );
        }
    }

    fn to_json(&self) -> Map<String, Value> {
        let stages: Map<_, _> = (self.stages().into_iter())
            .map(|(stage, ns)| {
                let value = json!({
                    "share": self.share(ns),
                    "ns": ns,
                    "ns_per_batch": self.per_batch(ns),
                    "ns_per_command": self.per_command(ns),
                });
                (stage.name().to_owned(), value)
            })
            .collect();
        let figures = [
            ("stages", Value::Object(stages)),
            ("batches", json!(self.batches)),
            ("commands", json!(self.commands)),
            ("turns", json!(self.turns)),
            ("commands_per_batch", json!(self.per_batch(self.commands as f64))),
            ("elapsed_ns", json!(self.elapsed_ns)),
            ("busy_ns", json!(self.busy_ns())),
            ("cpu_ns", json!(self.cpu_ns)),
            ("off_cpu_ns", json!(self.off_cpu_ns)),
            ("idle", json!(self.idle())),
        ];
        let figures = figures.into_iter();
        figures.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
