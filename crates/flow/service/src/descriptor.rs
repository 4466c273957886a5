//! Requests of clients: paths of descriptors, and tickets.

use arrow_flight::FlightDescriptor;
use serde::{Deserialize, Serialize};
use tonic::Status;

use crate::pipeline_host::PipelineHost;

/// Longest ticket or command of a subscriber in bytes.
const TICKET_BYTES_MAX: usize = 4 << 10;

/// Request of a subscriber: JSON, or `OUTPUT` or `OUTPUT/PARTITION`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribe {
    /// The output.
    pub output: String,
    /// The only partition that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    /// `true` to wait for more batches once everything that came in has been taken.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub follow: bool,
}

fn yes() -> bool {
    true
}

impl Subscribe {
    /// Reads a ticket.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`.
    pub fn parse(ticket: &[u8]) -> Result<Self, Status> {
        let wrong = |why: &str| {
            Status::invalid_argument(format!(
                "{why}; a ticket is OUTPUT, OUTPUT/PARTITION or {{\"output\": \"NAME\", \"partition\": N, \
                 \"follow\": false}}"
            ))
        };
        if ticket.len() > TICKET_BYTES_MAX {
            return Err(wrong("the ticket is too long"));
        }
        if ticket.first() == Some(&b'{') {
            return serde_json::from_slice(ticket).map_err(|error| wrong(&error.to_string()));
        }
        let text = std::str::from_utf8(ticket).map_err(|_| wrong("the ticket is no text"))?;
        let (output, partition) = match text.rsplit_once('/') {
            Some((output, partition)) => match partition.parse() {
                Ok(partition) => (output, Some(partition)),
                Err(_) => (text, None),
            },
            None => (text, None),
        };
        Ok(Self { output: output.into(), partition, follow: true })
    }
}

crate::input::metadata::json_messages!(Subscribe; parsed);

/// Checks that a descriptor names the pipeline's input.
///
/// # Errors
/// `NOT_FOUND`, with the valid path.
pub fn check_path(
    descriptor: Option<&FlightDescriptor>,
    hosted: &PipelineHost,
) -> Result<(), Status> {
    let input = hosted.pipeline.definition().flight_path();
    let path = descriptor.map_or(&[][..], |descriptor| &descriptor.path);
    match path {
        [one] if one == input => Ok(()),
        _ => Err(Status::not_found(format!(
            "this service takes streams under the path {input:?}; a descriptor with {path:?} came"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::Subscribe;

    #[test]
    fn tickets_are_words_or_json() {
        let ticket = |text: &str| Subscribe::parse(text.as_bytes()).unwrap();
        let plain = Subscribe { output: "near".into(), partition: None, follow: true };
        assert_eq!(ticket("near"), plain);
        assert_eq!(ticket("near/3").partition, Some(3));
        assert_eq!(ticket("near/by").output, "near/by");
        let whole = r#"{"output": "near", "partition": 2, "follow": false}"#;
        let whole = ticket(whole);
        assert_eq!((whole.partition, whole.follow), (Some(2), false));
        assert_eq!(ticket(&String::from_utf8(whole.to_bytes()).unwrap()), whole);
        for wrong in [&b"{\"output\": 1}"[..], b"\xff", b"{}", &[b'a'; 5000]] {
            assert!(Subscribe::parse(wrong).is_err());
        }
    }
}
