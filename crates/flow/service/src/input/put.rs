//! DoPut: a producer's stream into the pipeline, and acknowledgements back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow_flight::{FlightData, PutResult};
use overside_base::{lock, random_bytes};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::{Status, Streaming};

use crate::descriptor::check_path;
use crate::input::batch::Batch;
use crate::input::metadata::{AcknowledgementMetadata, BatchMetadata};
use crate::input::opening::{FlightDecoder, Opening};
use crate::input::producers::{Acknowledgements, Admission, Failure, Producer};
use crate::pipeline_host::PipelineHost;
use crate::service::{Counters, Service};

/// Channel through which a producer receives acknowledgements and errors.
pub(crate) type Results = mpsc::Sender<Result<PutResult, Status>>;

/// A stream of a producer.
struct PutStream<'s> {
    service: &'s Service,
    hosted: &'s PipelineHost,
    inbox: Arc<Acknowledgements>,
    /// Producers of this stream.
    sent: Mutex<HashMap<Arc<str>, Sent>>,
    /// No more batches will be taken.
    is_read: AtomicBool,
    /// `true` if the stream was cut because the service ends.
    is_cut: AtomicBool,
    /// Name of this stream, which is the producer of batches that name none.
    own_name: Arc<str>,
}

/// Last number that a producer sent by a stream, and last number that was acknowledged to it.
struct Sent {
    /// `true` if it numbers its batches itself.
    is_numbered: bool,
    last: u64,
    acknowledged: Option<u64>,
}

/// Serves a stream until its producer has sent everything and knows that it is safe.
pub(crate) async fn serve(
    service: Arc<Service>,
    mut messages: Streaming<FlightData>,
    results: Results,
    permit: OwnedSemaphorePermit,
) {
    let counters = &service.counters;
    Counters::add(&counters.put_streams, 1);
    counters.open_put_streams.fetch_add(1, Ordering::Relaxed);
    if let Some(hosted) = &service.hosted {
        let stream = PutStream {
            service: &service,
            hosted,
            inbox: Arc::default(),
            sent: Mutex::default(),
            is_read: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            own_name: random_name(),
        };
        let served = tokio::select! {
            served = stream.acknowledge(&results) => served,
            failed = stream.receive(&mut messages) => failed,
            () = results.closed() => Ok(()),
        };
        if let Err(status) = served {
            // It may be gone.
            let _ = results.send(Err(status)).await;
        }
    }
    counters.open_put_streams.fetch_sub(1, Ordering::Relaxed);
    drop(permit);
}

impl PutStream<'_> {
    /// Takes batches until there are no more, or the service ends; returns after an error only.
    async fn receive(&self, messages: &mut Streaming<FlightData>) -> Result<(), Status> {
        let received = self.batches(messages).await;
        received?;
        self.is_read.store(true, Ordering::Release);
        self.inbox.wake();
        std::future::pending().await
    }

    async fn batches(&self, messages: &mut Streaming<FlightData>) -> Result<(), Status> {
        let _producing = self.hosted.producer();
        let opening = Opening::read(messages).await?;
        check_path(opening.descriptor.as_ref(), self.hosted)?;
        let (options, packing) = (self.service.unpack_options(), &self.service.packing);
        let mut decoder = opening.decoder(messages, options, packing).await?;
        let definition = self.hosted.pipeline.definition();
        self.hosted.schemas.take_input(definition, decoder.schema())?;
        loop {
            let message = tokio::select! {
                message = messages.message() => message?,
                () = self.service.ending() => {
                    self.is_cut.store(true, Ordering::Release);
                    return Ok(());
                }
            };
            match message {
                Some(message) => self.take(&mut decoder, message).await?,
                None => return Ok(()),
            }
        }
    }

    /// Takes a message.
    async fn take(&self, decoder: &mut FlightDecoder, message: FlightData) -> Result<(), Status> {
        let counters = &self.service.counters;
        let metadata = BatchMetadata::parse(&message.app_metadata);
        let metadata = metadata.map_err(|error| Status::invalid_argument(error.to_string()))?;
        if message.data_header.is_empty() {
            // A message of metadata alone.
            return Ok(());
        }
        let bytes = message.data_header.len() + message.data_body.len();
        Counters::add(&counters.received_bytes, bytes as u64);
        let Some(data) = decoder.unpack(message)? else {
            return Ok(());
        };
        Counters::add(&counters.received_batches, 1);
        Counters::add(&counters.received_rows, data.num_rows() as u64);
        let (name, sequence) = match metadata {
            Some(metadata) => (metadata.producer, metadata.sequence),
            None => (None, None),
        };
        let name: Arc<str> = name.map_or_else(|| Arc::clone(&self.own_name), Arc::from);
        let producer = self.service.producers.get(&name);
        let sequence = self.note(&producer, sequence)?;
        let _turn = producer.turn.lock().await;
        match producer.admit(sequence, &self.inbox) {
            // The stream ends with the failure.
            Admission::Late => {}
            Admission::Duplicate => Counters::add(&counters.duplicates, 1),
            Admission::New(receipt) => {
                let batch = Batch { producer: name, sequence, partition: None, data };
                self.hosted.input.push(batch, receipt).await?;
            }
        }
        Ok(())
    }

    /// Records a batch that must be acknowledged before the stream ends. Returns its number: the given one, or its
    /// position among the batches of its producer in this stream.
    fn note(&self, producer: &Producer, sequence: Option<u64>) -> Result<u64, Status> {
        let mut sent = lock(&self.sent);
        if let Some(sent) = sent.get_mut(&producer.name) {
            if sent.is_numbered != sequence.is_some() {
                return Err(Status::invalid_argument(format!(
                    "some batches of {} have a \"sequence\" and others have none: give one to all, or to none",
                    producer.name
                )));
            }
            let sequence = sequence.unwrap_or(sent.last + 1);
            sent.last = sent.last.max(sequence);
            return Ok(sequence);
        }
        let new = Sent {
            is_numbered: sequence.is_some(),
            last: sequence.unwrap_or(0),
            acknowledged: None,
        };
        sent.insert(Arc::clone(&producer.name), new);
        drop(sent);
        producer.subscribe(&self.inbox);
        Ok(sequence.unwrap_or(0))
    }

    /// Returns `true` if everything that was sent is safe. Batches without a producer's name do not
    /// count if they wait for subscribers: their producer may be the one that subscribes next.
    fn may_end(&self) -> bool {
        let sent = lock(&self.sent);
        let is_safe = |sent: &Sent| sent.acknowledged.is_some_and(|number| number >= sent.last);
        let waits = |name: &Arc<str>| *name != self.own_name || self.hosted.delivers_by_itself();
        sent.iter().all(|(name, sent)| is_safe(sent) || !waits(name))
    }

    /// Sends acknowledgements to the producer, until it has sent everything and knows that.
    async fn acknowledge(&self, results: &Results) -> Result<(), Status> {
        loop {
            let new = self.inbox.take().map_err(|failure| refused(&failure))?;
            for (producer, acknowledged) in new {
                if let Some(sent) = lock(&self.sent).get_mut(&producer) {
                    sent.acknowledged = Some(acknowledged);
                }
                let name = (producer != self.own_name).then(|| producer.to_string());
                let metadata = AcknowledgementMetadata { producer: name, acknowledged };
                let result = PutResult { app_metadata: metadata.to_bytes().into() };
                if results.send(Ok(result)).await.is_err() {
                    return Ok(());
                }
            }
            if self.is_read.load(Ordering::Acquire) && self.may_end() {
                return match self.is_cut.load(Ordering::Acquire) {
                    false => Ok(()),
                    true => Err(Status::unavailable(
                        "the service is shutting down: send what is not acknowledged again later",
                    )),
                };
            }
            self.inbox.changed().await;
        }
    }
}

/// A name that no other stream has.
pub(crate) fn random_name() -> Arc<str> {
    // It cannot fail on a system that has started.
    let bytes = random_bytes().unwrap_or_default();
    format!("stream-{:016x}", u64::from_le_bytes(bytes)).into()
}

/// Returns the status that a producer receives for a batch that cannot be processed.
fn refused(failure: &Failure) -> Status {
    Status::invalid_argument(format!(
        "batch {} of {} cannot be processed: {}",
        failure.sequence, failure.producer, failure.reason
    ))
}
