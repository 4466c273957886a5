//! Checks that must hold for any bytes that clients send or that are on disk.

use overside_flow::pack::{Codec, Outer};
use overside_flow_service::batch::Batch;
use overside_flow_service::descriptor::Subscribe;
use overside_flow_service::metadata::{AcknowledgementMetadata, BatchMetadata};
use overside_flow_service::node::{PieceMetadata, parse_command};
use overside_flow_service::{Target, TracksTicket};

/// Metadata, tickets, commands and spilled batches are read as they were written, or refused.
pub(crate) fn service(data: &[u8]) {
    if let Ok(Some(ticket)) = TracksTicket::parse(data) {
        let again = TracksTicket::parse(&ticket.to_bytes());
        assert_eq!(again.ok(), Some(Some(ticket)));
    }
    if let Ok(Some(metadata)) = BatchMetadata::parse(data) {
        let again = BatchMetadata::parse(&metadata.to_bytes());
        assert_eq!(again, Ok(Some(metadata)));
    }
    if let Some(metadata) = AcknowledgementMetadata::parse(data) {
        let again = AcknowledgementMetadata::parse(&metadata.to_bytes());
        assert_eq!(again, Some(metadata));
    }
    if let Some(metadata) = PieceMetadata::parse(data) {
        let again = PieceMetadata::parse(&metadata.to_bytes());
        assert_eq!(again, Some(metadata));
    }
    // Refused or not, it returns.
    let _ = parse_command(data);
    if let Ok(wanted) = Subscribe::parse(data) {
        assert_eq!(Subscribe::parse(&wanted.to_bytes()).ok(), Some(wanted));
    }
    if let Ok(text) = std::str::from_utf8(data) {
        words(text);
    }
    if let Ok(batch) = Batch::from_record(data) {
        let mut record = Vec::new();
        if batch.write_record(&mut record).is_ok() {
            let again = Batch::from_record(&record).expect("what was written can be read");
            assert_eq!(again.sequence, batch.sequence);
            assert_eq!(again.data.num_rows(), batch.data.num_rows());
        }
    }
}

/// Addresses, and the codecs that headers name.
fn words(text: &str) {
    if let Ok(target) = Target::new(text, None, None) {
        let again = Target::new(&target.to_string(), None, None);
        assert_eq!(again.ok().map(|again| again.to_string()), Some(target.to_string()));
    }
    if let Ok(codec) = text.parse::<Codec>() {
        assert_eq!(codec.to_string().parse::<Codec>().ok(), Some(codec));
    }
    if let Ok(outer) = text.parse::<Outer>() {
        assert_eq!(outer.to_string().parse::<Outer>().ok(), Some(outer));
    }
}
