//! A node that is another service: a stage runs there by one DoExchange.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_flight::{FlightData, FlightDescriptor};
use arrow_schema::SchemaRef;
use overside_base::lock;
use overside_flow::pack::{PackOptions, UnpackOptions};
use overside_flow::{
    Completions, Node, NodeDefinition, NodeError, NodeResult, NodeStage, Packing, PartitionedBatch,
    StageDefinition,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::cpu_time::CpuTime;
use crate::input::opening::FlightDecoder;
use crate::nodes::client::Target;
use crate::nodes::metadata::{PieceMetadata, StageCommand};
use crate::output::encoder::FlightEncoder;
use crate::wire;

/// Messages that wait for the transport.
const AHEAD: usize = 2;

/// Another service, as a node.
pub struct RemoteNode {
    target: Target,
    definition: NodeDefinition,
    packing: Arc<Packing>,
    runtime: Handle,
}

impl RemoteNode {
    /// The node at an address, with the window, the time limit and the compression of its definition. Threads and
    /// devices are those of `packing`; their work for the node counts among the cost of its stages.
    pub fn new(
        target: Target,
        definition: &NodeDefinition,
        packing: &Packing,
        runtime: &Handle,
    ) -> Self {
        Self {
            target,
            definition: definition.clone(),
            packing: Arc::new(packing.apart()),
            runtime: runtime.clone(),
        }
    }
}

impl Node for RemoteNode {
    fn open(
        &self,
        stage: &StageDefinition,
        schema: &SchemaRef,
        completions: Completions,
    ) -> Result<Box<dyn NodeStage>, NodeError> {
        let (submit, batches) = mpsc::channel(self.definition.window());
        let session = Session {
            target: self.target.clone(),
            stage: stage.to_toml(),
            schema: Arc::clone(schema),
            timeout: Duration::from_nanos(self.definition.timeout().0),
            options: self.definition.message_options(),
            packing: Arc::clone(&self.packing),
            sent: Mutex::default(),
            cpu_time: CpuTime::default(),
        };
        let cpu_time = session.cpu_time.clone();
        self.runtime.spawn(cpu_time.count(async move {
            let lost = match session.run(batches, &completions).await {
                Ok(()) => return,
                Err(status) => status,
            };
            completions.lost(NodeError::new(lost.message()));
        }));
        Ok(Box::new(RemoteStage(submit)))
    }
}

/// A stage that is open there.
struct RemoteStage(mpsc::Sender<Submitted>);

/// A batch that was handed over.
struct Submitted {
    number: u64,
    pieces: Vec<PartitionedBatch>,
}

impl NodeStage for RemoteStage {
    fn submit(&mut self, number: u64, pieces: Vec<PartitionedBatch>) -> Result<(), NodeError> {
        let sent = self.0.try_send(Submitted { number, pieces });
        sent.map_err(|_| NodeError::new("the connection is lost, or it has too many batches"))
    }
}

/// A connection to the node.
struct Session {
    target: Target,
    stage: String,
    schema: SchemaRef,
    timeout: Duration,
    /// Compression of messages in both directions that the definition requests.
    options: PackOptions,
    packing: Arc<Packing>,
    /// Batches that were sent and not answered.
    sent: Mutex<BTreeSet<u64>>,
    /// CPU time on this host of all this work, with the connection.
    cpu_time: CpuTime,
}

impl Session {
    /// Serves until the stage is closed here.
    async fn run(
        &self,
        batches: mpsc::Receiver<Submitted>,
        completions: &Completions,
    ) -> Result<(), Status> {
        let connected =
            tokio::time::timeout(self.timeout, self.target.connect(&self.cpu_time)).await;
        let mut client = connected.map_err(|_| late())??;
        let settled = wire::settled(&mut client, self.options);
        let settled = tokio::time::timeout(self.timeout, settled).await;
        let options = settled.map_err(|_| late())??;
        let (messages, receiver) = mpsc::channel(AHEAD);
        let receiving = async {
            let call = wire::request(ReceiverStream::new(receiver), options);
            let answers = client.do_exchange(call).await;
            self.receive(answers?.into_inner(), completions).await
        };
        tokio::select! {
            sent = self.send(batches, messages, options) => sent,
            received = receiving => received,
        }
    }

    async fn send(
        &self,
        mut batches: mpsc::Receiver<Submitted>,
        messages: mpsc::Sender<FlightData>,
        options: PackOptions,
    ) -> Result<(), Status> {
        let gone = |_| Status::unavailable("the connection is lost");
        let command = StageCommand { stage: self.stage.clone() };
        let command = serde_json::to_vec(&command);
        let command = command.map_err(|error| Status::internal(error.to_string()))?;
        let command = FlightDescriptor::new_cmd(command);
        let (mut encoder, first) =
            FlightEncoder::of_call(command, &self.schema, options, &self.packing)?;
        for message in first {
            messages.send(message).await.map_err(gone)?;
        }
        while let Some(Submitted { number, pieces }) = batches.recv().await {
            let encoded = self.cpu_time.add_helpers(|| {
                let before = encoder.time();
                let encoded = self.encode(&mut encoder, number, pieces);
                (encoded, encoder.time().since(before).cpu_ns)
            });
            for message in encoded? {
                messages.send(message).await.map_err(gone)?;
            }
        }
        Ok(())
    }

    fn encode(
        &self,
        encoder: &mut FlightEncoder,
        number: u64,
        pieces: Vec<PartitionedBatch>,
    ) -> Result<Vec<FlightData>, Status> {
        let mut messages = Vec::new();
        let count = pieces.len();
        for (index, piece) in pieces.into_iter().enumerate() {
            let metadata = PieceMetadata {
                number,
                partition: piece.partition,
                last: index + 1 == count,
                ..PieceMetadata::default()
            };
            messages.extend(encoder.rows(&piece.batch, metadata.to_bytes())?);
        }
        if count == 0 {
            let metadata = PieceMetadata { number, last: true, ..PieceMetadata::default() };
            messages.push(FlightData {
                app_metadata: metadata.to_bytes().into(),
                ..FlightData::default()
            });
        }
        lock(&self.sent).insert(number);
        Ok(messages)
    }

    async fn receive(
        &self,
        mut answers: tonic::Streaming<FlightData>,
        completions: &Completions,
    ) -> Result<(), Status> {
        let mut decoder: Option<FlightDecoder> = None;
        let mut pieces = Vec::new();
        loop {
            let waits = !lock(&self.sent).is_empty();
            let answer = match tokio::time::timeout(self.timeout, answers.message()).await {
                Ok(answer) => answer?,
                Err(_) if waits && !lock(&self.sent).is_empty() => return Err(late()),
                Err(_) => continue,
            };
            let answer = answer.ok_or_else(|| Status::unavailable("it ended the stream"))?;
            let metadata = PieceMetadata::parse(&answer.app_metadata);
            if !answer.data_header.is_empty() {
                let partition = metadata.as_ref().and_then(|metadata| metadata.partition);
                let batch = self.unpack(&mut decoder, answer)?;
                pieces.extend(batch.map(|batch| PartitionedBatch { partition, batch }));
            }
            let Some(metadata) = metadata.filter(|metadata| metadata.last) else {
                continue;
            };
            lock(&self.sent).remove(&metadata.number);
            let result = match metadata.failed {
                Some(reason) => Err(NodeError::new(reason)),
                None => Ok(NodeResult {
                    pieces: std::mem::take(&mut pieces),
                    queued_ns: metadata.queued_ns,
                    run_ns: metadata.run_ns,
                    cpu_ns: metadata.cpu_ns,
                    host_cpu_ns: self.cpu_time.take_ns(),
                }),
            };
            pieces.clear();
            completions.done(metadata.number, result);
        }
    }

    fn unpack(
        &self,
        decoder: &mut Option<FlightDecoder>,
        answer: FlightData,
    ) -> Result<Option<arrow_array::RecordBatch>, Status> {
        let Some(decoder) = decoder else {
            let options = UnpackOptions::default();
            let new = FlightDecoder::new(&answer.data_header, options, &self.packing)?;
            *decoder = Some(new);
            return Ok(None);
        };
        self.cpu_time.add_helpers(|| {
            let before = decoder.time();
            let batch = decoder.unpack(answer);
            (batch, decoder.time().since(before).cpu_ns)
        })
    }
}

fn late() -> Status {
    Status::deadline_exceeded("it does not answer")
}
