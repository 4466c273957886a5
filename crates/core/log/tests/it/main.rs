//! Tests of overside-log, through its public interface.

use overside_log::{Filter, Format, LevelFilter, Log};
use serde_json::Value;

#[test]
fn filters_are_levels_and_levels_of_parts() {
    let filter: Filter = "info".parse().unwrap();
    assert_eq!(filter, LevelFilter::INFO.into());
    let filter: Filter = "link=debug, ERROR".parse().unwrap();
    assert_eq!(filter.level(), LevelFilter::ERROR);
    assert_eq!("overside_link=debug,error".parse::<Filter>().unwrap(), filter);
    let parts: Filter = "backend-remote=off".parse().unwrap();
    assert!(parts.level() == LevelFilter::WARN && !parts.is_off());
    assert_eq!(parts.level_of("backend-remote"), LevelFilter::OFF);
    assert_eq!(parts.level_of("python"), LevelFilter::WARN);
    assert!("off,link=off".parse::<Filter>().unwrap().is_off());
    for refused in ["", "wran", "link", "link=", "=info", "info,,", "link=3"] {
        assert!(refused.parse::<Filter>().is_err(), "{refused}");
    }
}

/// A process has one log, so that one test has to do.
#[test]
fn events_are_json_lines_with_their_spans_and_others_are_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    std::fs::write(&path, "{\"before\": 1}\n").unwrap();
    let log = Log {
        filter: Some("info,link=debug".parse().unwrap()),
        format: Some(Format::Json),
        file: Some(path.clone()),
    };
    log.clone().start(LevelFilter::OFF).unwrap();
    {
        let span = tracing::info_span!(target: "overside_link", "connection", peer = "192.0.2.1");
        let _entered = span.entered();
        tracing::warn!(missed = 3, "heartbeat missed");
        tracing::debug!(target: "overside_link::ring", "kept");
        tracing::info!(target: "overside_kv::server", "kept too");
        // Libraries of others only warn.
        tracing::info!(target: "h2::codec", "left out");
        tracing::debug!(target: "overside_kv", "left out");
    }
    // Another start changes nothing.
    log.start(LevelFilter::TRACE).unwrap();
    tracing::trace!(target: "overside_link", "left out");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> =
        (text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4, "{text}");
    let event = &lines[1];
    assert_eq!(event["level"], "WARN");
    assert_eq!((&event["message"], &event["missed"]), (&"heartbeat missed".into(), &3.into()));
    let span = &event["spans"][0];
    assert_eq!((&span["name"], &span["peer"]), (&"connection".into(), &"192.0.2.1".into()));
    assert!(event["timestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(lines[2]["message"], "kept");
    assert_eq!(lines[3]["message"], "kept too");
}

#[test]
fn a_log_that_cannot_be_written_is_refused() {
    let log = Log {
        filter: Some(LevelFilter::INFO.into()),
        file: Some("/proc/no/such/log".into()),
        ..Log::default()
    };
    let refused = log.start(LevelFilter::OFF).unwrap_err().to_string();
    assert!(refused.contains("/proc/no/such/log"), "{refused}");
}
