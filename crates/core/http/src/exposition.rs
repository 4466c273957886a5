//! Metrics in Prometheus's text exposition format, version 0.0.4.

use std::fmt::{Display, Write};

use crate::Response;

/// Metrics whose names begin with a prefix.
#[derive(Debug)]
pub struct Exposition {
    prefix: &'static str,
    text: String,
}

impl Exposition {
    /// No metrics yet. The prefix ends with an underscore.
    #[must_use]
    pub fn new(prefix: &'static str) -> Self {
        Self { prefix, text: String::with_capacity(8 << 10) }
    }

    /// Writes the `HELP` and `TYPE` lines of a metric, which come before its samples.
    pub fn head(&mut self, name: &str, help: &str, kind: &str) {
        let prefix = self.prefix;
        // Writing to a String cannot fail, here and below.
        let _ = write!(self.text, "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}\n");
    }

    /// A value, with labels as `{name="value"}`.
    pub fn sample(&mut self, name: &str, labels: &dyn Display, value: impl Display) {
        let _ = writeln!(self.text, "{}{name}{labels} {value}", self.prefix);
    }

    /// A metric that only grows.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help, "counter");
        self.sample(name, &"", value);
    }

    /// A metric that grows and shrinks.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help, "gauge");
        self.sample(name, &"", value);
    }

    /// A metric with a value for each of these labels.
    pub fn labeled<V: Display>(
        &mut self,
        (name, help, kind): (&str, &str, &str),
        label: &str,
        values: impl IntoIterator<Item = (String, V)>,
    ) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.head(name, help, kind);
        }
        for (of, value) in values {
            let of = of.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            self.sample(name, &format_args!("{{{label}=\"{of}\"}}"), value);
        }
    }

    /// Returns the whole text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    /// Response to a collector of metrics.
    #[must_use]
    pub fn into_response(self) -> Response {
        Response { content_type: "text/plain; version=0.0.4; charset=utf-8", body: self.text }
    }
}
