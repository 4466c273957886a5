//! A stream into the service, compared with a bare Flight stream: the same client sends the same batches over loopback
//! to two servers in processes of their own, which take turns. The bare one unpacks the batches and drops them; the
//! service does the same and has a filter drop the rows, with queue, numbers and acknowledgements.
//!
//!     cargo bench -p overside-flow-service --bench ingest -- [ROUNDS [MB]]
//!
//! Throughput is of the batches in memory; CPU time is of the process of each side.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use overside_flow::Definition;
use overside_flow::generate::Generated;
use overside_flow_service::{Limits, Server, Settings, Work};
use tokio_stream::Stream;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status, Streaming};

const BATCH_ROWS: usize = 64 << 10;
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
const FRAME_BYTES: u32 = 1 << 20;

const PIPELINE: &str = "schema = \"flow-pipeline/1\"\nname = \"bench\"\n[[stages]]\nfilter = \"id < 0\"\n\
                        [outputs.all]\nto = \"subscribers\"\n";

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    match words.first().map(String::as_str) {
        Some("bare") => serve_bare(),
        Some("service") => serve_service(),
        _ => {
            let number = |index: usize, usual| {
                words
                    .get(index)
                    .and_then(|word| word.parse().ok())
                    .unwrap_or(usual)
            };
            compare(number(0, 6), number(1, 500));
        }
    }
}

/// A server in a process of its own.
struct ServerProcess {
    child: Child,
    address: String,
}

impl ServerProcess {
    fn start(kind: &str) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        let mut child = (command.arg(kind).stdout(Stdio::piped()).spawn()).expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("its address");
        Self {
            child,
            address: line.trim().into(),
        }
    }

    /// CPU time so far in seconds (proc_pid_stat(5)).
    fn cpu_s(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let fields: Vec<&str> = text
            .rsplit(')')
            .next()
            .expect("fields")
            .split(' ')
            .collect();
        let ticks = |index: usize| fields[index].parse::<f64>().expect("a number");
        // In hundredths of a second on Linux.
        (ticks(12) + ticks(13)) / 100.0
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Throughput of one stream, and the CPU time of both sides.
#[derive(Clone, Copy)]
struct Sample {
    gb_per_s: f64,
    client_s_per_gb: f64,
    server_s_per_gb: f64,
}

fn compare(rounds: usize, megabytes: usize) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let batches = batches(megabytes * 1_000_000);
    let bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    println!(
        "{} batches of particles, {:.0} MB, {rounds} rounds",
        batches.len(),
        bytes as f64 / 1e6
    );
    let servers = ["bare", "service"].map(ServerProcess::start);
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            let sample = runtime.block_on(send(&servers[side], &batches, bytes as f64 / 1e9));
            // The first round warms up.
            if round > 0 {
                samples[side].push(sample);
            }
        }
    }
    for (name, samples) in ["bare Flight", "service"].iter().zip(&samples) {
        let [rate, client, server] = [
            median(samples.iter().map(|one| one.gb_per_s)),
            median(samples.iter().map(|one| one.client_s_per_gb)),
            median(samples.iter().map(|one| one.server_s_per_gb)),
        ];
        println!(
            "{name:12} {rate:.2} GB/s   client {client:.2} s/GB   server {server:.2} s/GB CPU"
        );
    }
    let ratios = samples[1]
        .iter()
        .zip(&samples[0])
        .map(|(one, other)| one.gb_per_s / other.gb_per_s);
    let ratios: Vec<f64> = ratios.collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    println!(
        "ratio        {:.2} ({least:.2} to {most:.2})",
        median(ratios.into_iter())
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

fn batches(bytes: usize) -> Vec<RecordBatch> {
    let mut found = Vec::new();
    let mut sum = 0;
    for batch in Generated::Particles.snapshots(100_000, 1) {
        for begin in (0..batch.num_rows()).step_by(BATCH_ROWS) {
            let part = batch.slice(begin, BATCH_ROWS.min(batch.num_rows() - begin));
            // Of its own memory, as a producer makes it.
            let indices = arrow_array::UInt32Array::from_iter_values(0..part.num_rows() as u32);
            let part = arrow_select::take::take_record_batch(&part, &indices).expect("all rows");
            sum += part.get_array_memory_size();
            found.push(part);
        }
        if sum >= bytes {
            break;
        }
    }
    found
}

async fn send(server: &ServerProcess, batches: &[RecordBatch], gigabytes: f64) -> Sample {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).expect("an address");
    let endpoint = (endpoint.initial_stream_window_size(STREAM_WINDOW_BYTES))
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES);
    let channel = endpoint.connect().await.expect("it listens");
    let mut client = FlightServiceClient::new(channel).max_encoding_message_size(usize::MAX);
    let input = stream::iter(batches.to_vec()).map(Ok::<_, FlightError>);
    let data = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(FlightDescriptor::new_path(vec!["bench".into()])))
        // Batches are sent as they are.
        .with_max_flight_data_size(usize::MAX)
        .build(input)
        .map(|message| message.expect("a batch can be encoded"));
    let (begin, client_s, server_s) = (Instant::now(), own_cpu_s(), server.cpu_s());
    let mut results = client.do_put(data).await.expect("it takes it").into_inner();
    while results.message().await.expect("it goes well").is_some() {}
    let seconds = begin.elapsed().as_secs_f64();
    Sample {
        gb_per_s: gigabytes / seconds,
        client_s_per_gb: (own_cpu_s() - client_s) / gigabytes,
        server_s_per_gb: (server.cpu_s() - server_s) / gigabytes,
    }
}

fn own_cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn announce(address: std::net::SocketAddr) {
    println!("{address}");
    std::io::stdout().flush().expect("somebody reads it");
}

fn serve_service() {
    let definition = Definition::parse("bench", PIPELINE, std::path::Path::new("."));
    let definition = definition.expect("a pipeline");
    let settings = Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        tls: None,
        password: None,
        metrics: None,
        threads: std::thread::available_parallelism().map_or(1, |count| count.get()),
    };
    let work = Work::Pipeline(Box::new(definition));
    let server = Server::bind(work, Limits::default(), settings).expect("it listens");
    announce(server.address());
    server.run().expect("it serves");
}

fn serve_bare() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("it listens");
        announce(listener.local_addr().expect("an address"));
        let service = FlightServiceServer::new(Bare).max_decoding_message_size(usize::MAX);
        tonic::transport::Server::builder()
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .serve_with_incoming(service, TcpListenerStream::new(listener))
            .await
            .expect("it serves");
    });
}

/// Unpacks streams and drops them.
struct Bare;

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn none<T>() -> Result<T, Status> {
    Err(Status::unimplemented("DoPut only"))
}

#[tonic::async_trait]
impl FlightService for Bare {
    type HandshakeStream = BoxStream<HandshakeResponse>;
    type ListFlightsStream = BoxStream<FlightInfo>;
    type DoGetStream = BoxStream<FlightData>;
    type DoPutStream = BoxStream<PutResult>;
    type DoExchangeStream = BoxStream<FlightData>;
    type DoActionStream = BoxStream<arrow_flight::Result>;
    type ListActionsStream = BoxStream<ActionType>;

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let messages = request.into_inner().map_err(FlightError::from);
        let mut batches = FlightRecordBatchStream::new_from_flight_data(messages);
        while let Some(batch) = batches.next().await {
            let batch = batch.map_err(|error| Status::internal(error.to_string()))?;
            std::hint::black_box(Arc::new(batch));
        }
        Ok(Response::new(Box::pin(stream::empty())))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        none()
    }
    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        none()
    }
    async fn get_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        none()
    }
    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        none()
    }
    async fn get_schema(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        none()
    }
    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        none()
    }
    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        none()
    }
    async fn do_action(
        &self,
        _: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        none()
    }
    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        none()
    }
}
