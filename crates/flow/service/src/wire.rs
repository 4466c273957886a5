//! Compression of messages between services and their clients: each receiver announces the codecs
//! that it takes.
//!
//! - A client gets the codec that the headers of its call name: `overside-codec` for each buffer, as Arrow
//!   defines it, or `overside-outer` for whole messages. Without headers it gets plain Arrow.
//! - A service lists the codecs that it reads by the action `codecs`. Every reader of Arrow supports
//!   Arrow's own codecs; a client that sends messages compressed as a whole fetches that list first.

use std::fmt::Display;
use std::str::FromStr;

use arrow_flight::Action;
use overside_flow::pack::{Codec, Outer, PackOptions};
use serde::{Deserialize, Serialize};
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status};

use crate::nodes::client::Client;

/// The action.
pub(crate) const ACTION: &str = "codecs";
/// Header with the codec of each buffer: `none`, `lz4`, `zstd:LEVEL`.
const CODEC_HEADER: &str = "overside-codec";
/// Header with the codec of whole messages: `deflate`, `zstd:LEVEL`, ...
const OUTER_HEADER: &str = "overside-outer";

/// Codecs that a receiver of messages can decompress.
#[derive(Debug, Serialize, Deserialize)]
struct Codecs {
    codec: Vec<String>,
    outer: Vec<String>,
}

/// Returns the answer of the action: the codecs that this service reads, as JSON.
pub(crate) fn codecs_json() -> String {
    let codecs = Codecs {
        codec: ["none", "lz4", "zstd"].map(String::from).into(),
        outer: Outer::FORMATS.map(|format| name(Outer::new(format, None))).into(),
    };
    // Texts become JSON always.
    serde_json::to_string(&codecs).unwrap_or_default()
}

/// Returns the name of the format without its level.
fn name(outer: Outer) -> String {
    Outer::new(outer.format(), None).to_string()
}

/// Parses the headers in which a client requests the compression of answers.
///
/// # Errors
/// `INVALID_ARGUMENT`: there is no such codec, or both headers are given.
pub(crate) fn asked(headers: &MetadataMap) -> Result<PackOptions, Status> {
    let outer: Option<Outer> = header(headers, OUTER_HEADER)?;
    let options = PackOptions {
        codec: header(headers, CODEC_HEADER)?.unwrap_or_default(),
        outer,
        ..PackOptions::default()
    };
    let wrong = |reason: String| Err(Status::invalid_argument(reason));
    match outer.map(Outer::check) {
        Some(_) if options.codec != Codec::None => wrong(format!(
            "{CODEC_HEADER} is for each buffer, {OUTER_HEADER} for whole messages: ask for one of them"
        )),
        Some(Err(error)) => wrong(format!("{OUTER_HEADER}: {error}")),
        _ => Ok(options),
    }
}

fn header<T: FromStr<Err: Display>>(
    headers: &MetadataMap,
    name: &str,
) -> Result<Option<T>, Status> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let wrong = |reason: &dyn Display| Status::invalid_argument(format!("{name}: {reason}"));
    let text = value.to_str().map_err(|error| wrong(&error))?;
    text.parse().map(Some).map_err(|error| wrong(&error))
}

/// Makes a call with the headers for this compression of its answers.
pub(crate) fn request<T>(message: T, wanted: PackOptions) -> Request<T> {
    let mut request = Request::new(message);
    let codec = Some(wanted.codec).filter(|codec| *codec != Codec::None);
    let headers = [
        (CODEC_HEADER, codec.map(|codec| codec.to_string())),
        (OUTER_HEADER, wanted.outer.map(|outer| outer.to_string())),
    ];
    for (name, value) in headers {
        // Names and numbers can be headers.
        if let Some(Ok(value)) = value.map(|value| value.parse()) {
            request.metadata_mut().insert(name, value);
        }
    }
    request
}

/// Returns the compression for messages to a service: `wanted`, or none if the service does not read that.
///
/// # Errors
/// The service cannot be reached.
pub(crate) async fn settled(
    client: &mut Client,
    wanted: PackOptions,
) -> Result<PackOptions, Status> {
    let Some(outer) = wanted.outer else {
        return Ok(wanted);
    };
    let codecs = match codecs_of(client).await {
        Ok(codecs) => codecs,
        Err(status) if is_of_connection(status.code()) => return Err(status),
        Err(_) => None,
    };
    let name = name(outer);
    if codecs.is_some_and(|codecs| codecs.outer.contains(&name)) {
        return Ok(wanted);
    }
    tracing::warn!(
        "the other side does not say that it reads messages compressed as a whole by {name}: they are sent as they are"
    );
    Ok(PackOptions::default())
}

/// `None`: it answers something else.
async fn codecs_of(client: &mut Client) -> Result<Option<Codecs>, Status> {
    let action = Action { r#type: ACTION.into(), ..Action::default() };
    let mut answers = client.do_action(action).await?.into_inner();
    let answer = answers.message().await?;
    Ok(answer.and_then(|answer| serde_json::from_slice(&answer.body).ok()))
}

/// Returns `true` if a call failed because of the connection, the credentials or the load, and not
/// because the action is unknown.
fn is_of_connection(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::ResourceExhausted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_asks_for_is_read_back() {
        let with = |codec: &str, outer: Option<&str>| PackOptions {
            codec: codec.parse().unwrap(),
            outer: outer.map(|outer| outer.parse().unwrap()),
            ..PackOptions::default()
        };
        for wanted in [
            PackOptions::default(),
            with("lz4", None),
            with("zstd:9", None),
            with("none", Some("deflate")),
            with("none", Some("zstd:3")),
        ] {
            let request = request((), wanted);
            assert_eq!(asked(request.metadata()).unwrap(), wanted);
        }
        assert!(request((), PackOptions::default()).metadata().is_empty());
    }

    #[test]
    fn all_that_is_said_to_be_read_can_be_asked_for() {
        let said: Codecs = serde_json::from_str(&codecs_json()).unwrap();
        for name in said.outer {
            let outer: Outer = name.parse().unwrap();
            assert_eq!((outer.to_string(), outer.check().is_ok()), (name, true));
        }
        for name in said.codec {
            name.parse::<Codec>().unwrap();
        }
    }
}
