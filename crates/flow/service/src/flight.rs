//! The calls of Arrow Flight.

use std::pin::Pin;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaAsIpc,
    SchemaResult, Ticket,
};
use arrow_ipc::writer::IpcWriteOptions;
use arrow_schema::{Schema, SchemaRef};
use overside_flow::pack::PackOptions;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::access;
use crate::descriptor::{Subscribe, check_path};
use crate::input::opening::Opening;
use crate::input::put;
use crate::nodes::node;
use crate::output::Output;
use crate::output::encoder::DataSender;
use crate::output::exchange;
use crate::output::get;
use crate::output::tracks;
use crate::output::tracks::TracksTicket;
use crate::pipeline_host::PipelineHost;
use crate::service::Service;
use crate::statistics;
use crate::wire;

/// Messages that wait for the transport: the next one.
const AHEAD: usize = 1;
const STREAMS_REMEDY: &str = "the definition's `streams`, or --streams, allows more";
const SUBSCRIBERS_REMEDY: &str = "--max-subscribers takes more";
/// Names of the actions, with their descriptions for clients.
const ACTIONS: [(&str, &str); 3] = [
    ("health", "SERVING, or DRAINING while the service ends"),
    ("statistics", "throughput, backlog, memory and lag as JSON"),
    (wire::ACTION, "what messages may be compressed with, as JSON"),
];

/// The calls, for a service.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// The service.
    pub service: Arc<Service>,
}

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Endpoint {
    /// The pipeline; a node has none.
    fn hosted(&self) -> Result<&PipelineHost, Status> {
        let hosted = self.service.hosted.as_ref();
        hosted.ok_or_else(|| {
            Status::unimplemented("a node has no pipeline; it takes DoExchange only")
        })
    }

    /// Refuses new streams while the service ends, and beyond `limit`.
    fn admit(&self, limit: &Arc<Semaphore>, remedy: &str) -> Result<OwnedSemaphorePermit, Status> {
        if self.service.is_ending() {
            return Err(Status::unavailable("the service is shutting down"));
        }
        (Arc::clone(limit).try_acquire_owned())
            .map_err(|_| Status::resource_exhausted(format!("too many streams; {remedy}")))
    }

    fn output(&self, name: &str) -> Result<Arc<Output>, Status> {
        let hosted = self.hosted()?;
        let known = || {
            let all = hosted.outputs.iter();
            listed(all.filter(|output| output.has_subscribers()))
        };
        let found = hosted.output(name).filter(|output| output.has_subscribers());
        found.cloned().ok_or_else(|| {
            Status::not_found(format!(
                "no output for subscribers is called {name:?}; there are: {}",
                known()
            ))
        })
    }

    /// Returns the output that a subscriber requests, if it can ever have the partition.
    fn subscribed(&self, wanted: &Subscribe) -> Result<Arc<Output>, Status> {
        let output = self.output(&wanted.output)?;
        let Some(partition) = wanted.partition else {
            return Ok(output);
        };
        // The last partition has the rows without a key.
        let all = self.hosted()?.pipeline.definition().partitions();
        let takes = |all| partition <= all && output.definition.takes(Some(partition), all);
        match all.is_some_and(takes) {
            true => Ok(output),
            false => Err(Status::not_found(format!(
                "output {:?} has no partition {partition}; see the pipeline's stage `partition`, and \
                 `partitions` of the output",
                wanted.output
            ))),
        }
    }

    /// Returns the output of a queried tree, by its name, or by the input's name if there is only one tree.
    fn tree(&self, ticket: &TracksTicket) -> Result<Arc<Output>, Status> {
        let hosted = self.hosted()?;
        let outputs = hosted.outputs.iter();
        let trees: Vec<_> = (outputs.filter(|output| output.definition.tree.is_some())).collect();
        let found = match &trees[..] {
            [one] if ticket.output == hosted.pipeline.definition().flight_path() => Some(one),
            all => all.iter().find(|output| *output.name == *ticket.output),
        };
        found.map(|output| Arc::clone(output)).ok_or_else(|| {
            Status::not_found(format!(
                "no output with a tree is called {:?}; there are: {}",
                ticket.output,
                listed(trees.iter().copied())
            ))
        })
    }

    /// Returns the columns of a tree, and the ticket that queries it.
    async fn tracks_info(
        &self,
        descriptor: &FlightDescriptor,
        ticket: &TracksTicket,
    ) -> Result<FlightInfo, Status> {
        let output = self.tree(ticket)?;
        let (schema, roles) = tracks::describe(&self.service, &output).await?;
        let info = info_of(descriptor, Some(&schema), Some(ticket.to_bytes()))?;
        Ok(FlightInfo { ordered: true, app_metadata: roles.into(), ..info })
    }

    /// Serves an exchange by its descriptor: a stage for another service, the pipeline, or an
    /// output for a subscriber that acknowledges.
    async fn exchange(
        &self,
        mut messages: Streaming<FlightData>,
        channel: (DataSender, PackOptions),
        permit: OwnedSemaphorePermit,
    ) -> Result<(), Status> {
        let opening = Opening::read(&mut messages).await?;
        drop(permit);
        let descriptor = opening.descriptor.as_ref();
        let command = descriptor.map_or(&[][..], |descriptor| &descriptor.cmd);
        let service = &self.service;
        let stream = || self.admit(&service.streams, STREAMS_REMEDY);
        match (node::parse_command(command), &service.hosted) {
            (Some(stage), _) => {
                let _permit = stream()?;
                node::serve(service, stage, opening, messages, channel).await
            }
            (None, None) => Err(Status::invalid_argument(
                "a node takes one stage: the command of the descriptor is {\"stage\": \"TOML\"}",
            )),
            (None, Some(hosted)) if command.is_empty() => {
                check_path(descriptor, hosted)?;
                let _permit = stream()?;
                exchange::serve(service, hosted, opening, messages, channel).await
            }
            (None, Some(hosted)) => {
                let wanted = Subscribe::parse(command)?;
                let output = self.subscribed(&wanted)?;
                let _permit = self.admit(&service.subscribers, SUBSCRIBERS_REMEDY)?;
                get::serve(service, hosted, &output, &wanted, channel, Some(messages)).await
            }
        }
    }

    /// Returns the schema of an output or of the input, and for an output the ticket to subscribe
    /// with.
    fn info(&self, descriptor: &FlightDescriptor) -> Result<FlightInfo, Status> {
        let hosted = self.hosted()?;
        let known = hosted.schemas.known();
        match &descriptor.path[..] {
            [_] => {
                check_path(Some(descriptor), hosted)?;
                info_of(descriptor, known.input.as_ref(), None)
            }
            [_, name] => {
                let output = self.output(name)?.name.to_string();
                let ticket = Subscribe { output, partition: None, follow: true };
                info_of(descriptor, known.output.as_ref(), Some(ticket.to_bytes()))
            }
            _ => Err(Status::not_found("a path is PIPELINE, or PIPELINE and OUTPUT")),
        }
    }
}

/// Returns what a client learns of data: the schema, and the ticket to get them with, if it can.
fn info_of(
    descriptor: &FlightDescriptor,
    schema: Option<&SchemaRef>,
    ticket: Option<Vec<u8>>,
) -> Result<FlightInfo, Status> {
    let endpoint = ticket.map(|ticket| FlightEndpoint {
        ticket: Some(Ticket { ticket: ticket.into() }),
        ..FlightEndpoint::default()
    });
    Ok(FlightInfo {
        schema: schema_bytes(schema)?,
        flight_descriptor: Some(descriptor.clone()),
        endpoint: endpoint.into_iter().collect(),
        // The number of records is not known in advance.
        total_records: -1,
        total_bytes: -1,
        ..FlightInfo::default()
    })
}

/// A schema as Flight has it; that of nothing as long as it is not known.
fn schema_bytes(schema: Option<&SchemaRef>) -> Result<bytes::Bytes, Status> {
    let empty = Arc::new(Schema::empty());
    let options = IpcWriteOptions::default();
    let result: Result<SchemaResult, _> =
        SchemaAsIpc::new(schema.unwrap_or(&empty), &options).try_into();
    let result = result.map_err(|error| Status::internal(error.to_string()))?;
    Ok(result.schema)
}

fn stream_of<T: Send + 'static>(items: Vec<T>) -> BoxStream<T> {
    Box::pin(tokio_stream::iter(items.into_iter().map(Ok)))
}

/// Serves a call in the background until it is done or its client is gone. The client gets the error.
fn served<F>(serve: impl FnOnce(DataSender) -> F) -> Response<BoxStream<FlightData>>
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let (data, receiver) = mpsc::channel(AHEAD);
    let serving = serve(data.clone());
    tokio::spawn(async move {
        let served = tokio::select! {
            served = serving => served,
            () = data.closed() => Ok(()),
        };
        if let Err(status) = served {
            // It may be gone.
            let _ = data.send(Err(status)).await;
        }
    });
    Response::new(Box::pin(ReceiverStream::new(receiver)))
}

#[tonic::async_trait]
impl FlightService for Endpoint {
    type HandshakeStream = BoxStream<HandshakeResponse>;
    type ListFlightsStream = BoxStream<FlightInfo>;
    type DoGetStream = BoxStream<FlightData>;
    type DoPutStream = BoxStream<PutResult>;
    type DoExchangeStream = BoxStream<FlightData>;
    type DoActionStream = BoxStream<ActionResult>;
    type ListActionsStream = BoxStream<ActionType>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        // The caller has already given the password.
        let bearer = access::bearer(request.metadata());
        let answer = HandshakeResponse { protocol_version: 0, payload: Vec::new().into() };
        let mut response = Response::new(stream_of(vec![answer]));
        if let Some(Ok(value)) = bearer.map(|bearer| bearer.parse()) {
            response.metadata_mut().insert("authorization", value);
        }
        Ok(response)
    }

    async fn list_flights(
        &self,
        _request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        let Some(hosted) = &self.service.hosted else {
            return Ok(Response::new(stream_of(Vec::new())));
        };
        let input = hosted.pipeline.definition().flight_path().to_owned();
        let outputs = hosted.outputs.iter().filter(|output| output.has_subscribers());
        let paths = outputs.map(|output| vec![input.clone(), output.name.to_string()]);
        let infos = std::iter::once(vec![input.clone()]).chain(paths);
        let infos = infos.map(|path| self.info(&FlightDescriptor::new_path(path)));
        Ok(Response::new(stream_of(infos.collect::<Result<_, _>>()?)))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let descriptor = request.get_ref();
        match TracksTicket::parse(&descriptor.cmd)? {
            Some(ticket) => {
                let info = self.tracks_info(descriptor, &ticket).await;
                info.map(Response::new)
            }
            None => self.info(descriptor).map(Response::new),
        }
    }

    async fn poll_flight_info(
        &self,
        _request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented("use GetFlightInfo"))
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let schema = self.info(request.get_ref())?.schema;
        let known = self.hosted()?.schemas.known();
        let is_input = request.get_ref().path.len() == 1;
        if (if is_input { known.input } else { known.output }).is_none() {
            return Err(Status::failed_precondition(
                "the schema is known once the first stream has come",
            ));
        }
        Ok(Response::new(SchemaResult { schema }))
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        let options = wire::asked(request.metadata())?;
        let ticket = &request.get_ref().ticket;
        let admit = || self.admit(&self.service.subscribers, SUBSCRIBERS_REMEDY);
        let service = Arc::clone(&self.service);
        if let Some(ticket) = TracksTicket::parse(ticket)? {
            let output = self.tree(&ticket)?;
            let permit = admit()?;
            return Ok(served(|data| async move {
                let _permit = permit;
                tracks::serve(&service, output, ticket.tracks, (data, options)).await
            }));
        }
        let wanted = Subscribe::parse(ticket)?;
        let output = self.subscribed(&wanted)?;
        let permit = admit()?;
        let endpoint = self.clone();
        Ok(served(|data| async move {
            let _permit = permit;
            let hosted = endpoint.hosted()?;
            get::serve(&service, hosted, &output, &wanted, (data, options), None).await
        }))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        self.hosted()?;
        let permit = self.admit(&self.service.streams, STREAMS_REMEDY)?;
        let (results, receiver) = mpsc::channel(AHEAD);
        let service = Arc::clone(&self.service);
        tokio::spawn(put::serve(service, request.into_inner(), results, permit));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        let options = wire::asked(request.metadata())?;
        // Until its first message says what it is for, it counts where there is room.
        let service = &self.service;
        let opening = (self.admit(&service.streams, STREAMS_REMEDY))
            .or_else(|_| self.admit(&service.subscribers, SUBSCRIBERS_REMEDY))?;
        // The answer begins before the first message has come: some clients wait for it.
        let (endpoint, messages) = (self.clone(), request.into_inner());
        Ok(served(
            |data| async move { endpoint.exchange(messages, (data, options), opening).await },
        ))
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        let body = match request.get_ref().r#type.as_str() {
            "health" if self.service.is_ending() => "DRAINING".into(),
            "health" => "SERVING".into(),
            "statistics" => statistics::json(&self.service),
            wire::ACTION => wire::codecs_json(),
            other => {
                return Err(Status::invalid_argument(format!(
                    "no action is called {other:?}; there are: health, statistics, codecs"
                )));
            }
        };
        let result = ActionResult { body: body.into_bytes().into() };
        Ok(Response::new(stream_of(vec![result])))
    }

    async fn list_actions(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        let actions = ACTIONS.map(|(name, description)| ActionType {
            r#type: name.into(),
            description: description.into(),
        });
        Ok(Response::new(stream_of(actions.into())))
    }
}

/// The names of outputs, for a message.
fn listed<'o>(outputs: impl Iterator<Item = &'o Arc<Output>>) -> String {
    let names: Vec<&str> = outputs.map(|output| &*output.name).collect();
    match names.is_empty() {
        true => "none".into(),
        false => names.join(", "),
    }
}
