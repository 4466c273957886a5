//! Tests of the metadata that clients send with their data.

use overside_flow_service::metadata::{AcknowledgementMetadata, BatchMetadata};

#[test]
fn metadata_of_others_is_ignored_and_that_of_ours_checked() {
    let parse = |text: &str| BatchMetadata::parse(text.as_bytes());
    for others in ["", "text", "{", "[1]", "{\"row\": 1}", "\u{1}"] {
        assert_eq!(parse(others), Ok(None), "{others}");
    }
    let named = parse("{\"producer\": \"p\", \"sequence\": 7, \"more\": [1]}");
    let named = named.unwrap().unwrap();
    assert_eq!((named.producer.as_deref(), named.sequence), (Some("p"), Some(7)));
    assert_eq!(BatchMetadata::parse(&named.to_bytes()), Ok(Some(named)));
    for wrong in [
        "{\"sequence\": -1}",
        "{\"sequence\": \"7\"}",
        "{\"sequence\": 18446744073709551615}",
        "{\"sequence\": 1, \"producer\": \"\"}",
        "{\"sequence\": 1, \"producer\": \"a\\nb\"}",
        "{\"sequence\": 1, \"producer\": 5}",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    let long = format!("{{\"sequence\": 1, \"producer\": \"{}\"}}", "p".repeat(300));
    assert!(parse(&long).is_err());
    let alone = parse("{\"producer\": \"p\"}").unwrap().unwrap();
    assert_eq!((alone.producer.as_deref(), alone.sequence), (Some("p"), None));
    let long = |key: &str| parse(&format!("{{\"more\": \"{}\", \"{key}\": 1}}", "x".repeat(5000)));
    assert!(long("sequence").unwrap_err().to_string().contains("are the most"));
    assert_eq!(long("row"), Ok(None));
}

#[test]
fn acknowledgements_are_json() {
    let one = AcknowledgementMetadata { producer: Some("p".into()), acknowledged: 3 };
    let bytes = one.to_bytes();
    assert_eq!(bytes, b"{\"producer\":\"p\",\"acknowledged\":3}");
    assert_eq!(AcknowledgementMetadata::parse(&bytes), Some(one));
    assert_eq!(AcknowledgementMetadata::parse(b"{}"), None);
}
