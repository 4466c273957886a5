//! A client that is not ours: that of the crate `arrow-flight`, with Arrow's own reader and writer.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::{Action, FlightClient, FlightDescriptor, Ticket};
use futures_util::{TryStreamExt, stream};
use overside_flow::Definition;
use overside_flow_service::{Limits, Server, Service, Settings, Work};
use tonic::transport::Endpoint;

const PIPELINE: &str = r#"
schema = "flow-pipeline/1"
name = "flow"

[[stages]]
filter = "id % 2 = 0"

[outputs.even]
to = "subscribers"
"#;
const TICKET: &str = r#"{"output": "even", "follow": false}"#;

/// A service, which ends with this.
struct Served {
    service: Arc<Service>,
    uri: String,
}

impl Served {
    fn start() -> Self {
        let definition = Definition::parse("flow.toml", PIPELINE, Path::new("")).unwrap();
        let settings = Settings {
            listen: ([127, 0, 0, 1], 0).into(),
            tls: None,
            password: None,
            metrics: None,
            threads: 2,
        };
        let work = Work::Pipeline(Box::new(definition));
        let server = Server::bind(work, Limits::default(), settings).unwrap();
        let (service, uri) = (Arc::clone(server.service()), format!("http://{}", server.address()));
        std::thread::spawn(move || server.run().unwrap());
        Self { service, uri }
    }

    async fn client(&self, headers: &[(&str, &str)]) -> FlightClient {
        let endpoint = Endpoint::from_shared(self.uri.clone()).unwrap();
        let mut client = FlightClient::new(endpoint.connect().await.unwrap());
        for (name, value) in headers {
            client.add_header(name, value).unwrap();
        }
        client
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.service.end();
    }
}

fn batch(first: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 1000));
    let names = (first..first + 1000).map(|id| format!("row {id}"));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap()
}

fn descriptor() -> FlightDescriptor {
    FlightDescriptor::new_path(vec!["flow".into()])
}

/// Two batches as its own writer makes them.
fn written() -> impl futures_util::Stream<Item = Result<arrow_flight::FlightData, FlightError>> {
    FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(descriptor()))
        .build(stream::iter([Ok(batch(0)), Ok(batch(1000))]))
}

fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches.iter().map(|batch| batch.column(0));
    columns.flat_map(|column| column.as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrows_own_client_puts_gets_and_exchanges() {
    let served = Served::start();
    let wanted: Vec<i64> = (0..2000).step_by(2).collect();
    for headers in [&[][..], &[("overside-codec", "lz4")], &[("overside-codec", "zstd")]] {
        let mut client = served.client(headers).await;
        let put = client.do_put(written()).await.unwrap();
        put.try_collect::<Vec<_>>().await.unwrap();
        let got = client.do_get(Ticket::new(TICKET)).await.unwrap();
        let got: Vec<RecordBatch> = got.try_collect().await.unwrap();
        assert_eq!(ids(&got), wanted, "{headers:?}");
        let back = client.do_exchange(written()).await.unwrap();
        let back: Vec<RecordBatch> = back.try_collect().await.unwrap();
        assert_eq!(ids(&back), wanted, "{headers:?}");
    }
    let mut client = served.client(&[]).await;
    let flights: Vec<_> = client.list_flights("").await.unwrap().try_collect().await.unwrap();
    assert_eq!(flights.len(), 2);
    let schema = client.get_schema(descriptor()).await.unwrap();
    assert_eq!(schema.fields(), batch(0).schema().fields());
    let health = client.do_action(Action::new("health", "")).await.unwrap();
    assert_eq!(health.try_collect::<Vec<_>>().await.unwrap(), ["SERVING"]);
}

/// Arrow's own client refuses a message that it cannot read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrows_own_client_refuses_what_is_compressed_as_a_whole() {
    let served = Served::start();
    let mut client = served.client(&[("overside-outer", "gzip")]).await;
    let back = client.do_exchange(written()).await.unwrap();
    let back: Result<Vec<RecordBatch>, _> = back.try_collect().await;
    back.unwrap_err();
}
