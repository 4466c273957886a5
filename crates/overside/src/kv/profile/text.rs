//! What `overside kv profile` prints.

use overside_config::units::{count, number};
use overside_kv::stages::Stage;
use serde_json::{Value, json};

use super::Report;
use super::breakdown::WORKING;
use crate::kv::bench::text::{conditions, conditions_json};

impl Report {
    pub fn to_text(&self) -> String {
        let all = &self.breakdown;
        let mut text = String::new();
        line!(
            text,
            "{:<8} {:>8} {:>12} {:>12}  [measured]",
            "stage",
            "share",
            "ns/batch",
            "ns/command"
        );
        let mut row = |name: &str, ns: f64| {
            let shown = |value: Option<f64>| value.map_or("-".into(), |value| number(value, 3));
            let share = format!("{:.1} %", 100.0 * all.share(ns));
            let (batch, command) = (shown(all.per_batch(ns)), shown(all.per_command(ns)));
            line!(text, "{name:<8} {share:>8} {batch:>12} {command:>12}");
        };
        for (stage, ns) in self.stages() {
            row(stage.name(), ns);
        }
        row("all", all.busy_ns());
        line!(text, "");
        if let Some(commands) = all.per_batch(all.commands as f64) {
            line!(
                text,
                "{} commands a batch, {} batches in {} turns",
                number(commands, 3),
                count(all.batches),
                count(all.turns)
            );
        }
        line!(
            text,
            "idle {:.1} % of {} s",
            100.0 * all.idle(),
            number(all.elapsed_ns / 1e9, 3)
        );
        let off_cpu = all.off_cpu_ns / all.elapsed_ns.max(1.0);
        if off_cpu > 0.01 {
            line!(
                text,
                "not running {:.1} % of the time, which the stages include: others had the core, or the \
                 disk was slow",
                100.0 * off_cpu
            );
        }
        line!(text, "{} requests/s", number(self.point.throughput().0, 3));
        line!(
            text,
            "the load generator took {} ns a command",
            number(self.client_ns(), 3)
        );
        line!(
            text,
            "hashing a key takes {} ns of parsing",
            number(self.hash_ns, 3)
        );
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

    pub fn to_json(&self) -> String {
        let all = &self.breakdown;
        let stages = self.stages().map(|(stage, ns)| {
            let value = json!({
                "share": all.share(ns),
                "ns": ns,
                "ns_per_batch": all.per_batch(ns),
                "ns_per_command": all.per_command(ns),
            });
            (stage.name().to_owned(), value)
        });
        let (median, least, most) = self.point.throughput();
        let mut value = conditions_json(&self.settings);
        value["stages"] = Value::Object(stages.into_iter().collect());
        value["batches"] = json!(all.batches);
        value["commands"] = json!(all.commands);
        value["turns"] = json!(all.turns);
        value["commands_per_batch"] = json!(all.per_batch(all.commands as f64));
        value["elapsed_ns"] = json!(all.elapsed_ns);
        value["busy_ns"] = json!(all.busy_ns());
        value["cpu_ns"] = json!(all.cpu_ns);
        value["off_cpu_ns"] = json!(all.off_cpu_ns);
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
        value["idle"] = json!(all.idle());
        value["requests_per_s"] = json!({"median": median, "min": least, "max": most});
        format!("{value:#}")
    }

    /// CPU time of the load generator's threads for a command.
    fn client_ns(&self) -> f64 {
        1e9 * self.point.client_cpu_s / self.point.answered.max(1) as f64
    }

    fn stages(&self) -> [(Stage, f64); WORKING.len()] {
        std::array::from_fn(|at| (WORKING[at], self.breakdown.stages_ns[at]))
    }
}
