//! Queries of trees that outputs feed, by Flight: DoGet with a query as ticket.
//!
//! - A ticket is `{"output": "NAME", "tracks": {"ids": ["4b1814"], "from": "...", "to": "..."}}`. All parts
//!   of the query may be left out.
//! - The rows arrive by id and time, and then the stream ends.
//! - GetFlightInfo with the ticket as command has the columns, and in `app_metadata` the names of the id
//!   and the time: `{"id": "icao24", "time": "timestamp"}`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_flight::{FlightDescriptor, Ticket};
use arrow_schema::SchemaRef;
use overside_base::lock;
use overside_flow::Error as FlowError;
use overside_flow::operators::parts;
use overside_flow::pack::{PackOptions, UnpackOptions};
use overside_flow::tree::{
    Gathered, TREES_AT_ONCE, TrackQuery, TrackSource, TreeReader, TreeUnion, TreeWriter, at_once,
};
use overside_flow::{Destination, Packing};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::OwnedRwLockReadGuard;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Status};

use crate::cpu_time::CpuTime;
use crate::error::status_of;
use crate::input::opening::Opening;
use crate::nodes::client::{Client, Target};
use crate::output::Output;
use crate::output::encoder::{DataSender, FlightEncoder, send_one};
use crate::service::Service;

/// Longest ticket in bytes: a hundred ids.
const TICKET_BYTES_MAX: usize = 64 << 10;
/// Error message for a tree that no batch has reached yet.
const NOT_MADE: &str = "the tree is made with the first batch that comes";
/// Longest time that a query waits for rows that are not yet in the tree or with its next nodes.
/// `LOOK` is the interval of its checks.
const PASSING: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);
/// Rows of a message.
const BATCH_ROWS: usize = 64 << 10;

/// Query of a tree, as ticket or command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracksTicket {
    /// The output that feeds it.
    pub output: String,
    /// Query of rows.
    pub tracks: TrackQuery,
}

impl TracksTicket {
    /// Reads a ticket, or the command of a descriptor. Returns `None` if it is another request.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Status> {
        if bytes.first() != Some(&b'{') || bytes.len() > TICKET_BYTES_MAX {
            return Ok(None);
        }
        let object = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(bytes);
        match object {
            Ok(object) if object.contains_key("tracks") => {
                let wrong = |error| {
                    Status::invalid_argument(format!(
                        "{error}; a query is {{\"output\": \"NAME\", \"tracks\": {{\"ids\": [\"ID\"], \"from\": \
                         \"TIME\", \"to\": \"TIME\"}}}}"
                    ))
                };
                serde_json::from_value(object.into()).map(Some).map_err(wrong)
            }
            _ => Ok(None),
        }
    }
}

crate::input::metadata::json_messages!(TracksTicket; parsed);

/// Columns of the id and the time.
#[derive(Serialize, Deserialize)]
struct Roles {
    id: String,
    time: String,
}

/// Opens the tree of an output.
///
/// # Errors
/// `NOT_FOUND`: the output has no tree; `FAILED_PRECONDITION`: no rows have arrived yet.
fn open(service: &Service, output: &Output) -> Result<TreeReader, Status> {
    let definition = &output.definition;
    let (Some(_), Destination::Directory(directory)) = (&definition.tree, &definition.to) else {
        return Err(Status::not_found(format!("output {:?} is no tree", output.name)));
    };
    if TreeWriter::options(directory).map_err(status_of)?.is_none() {
        return Err(Status::failed_precondition(NOT_MADE));
    }
    TreeReader::open(directory, service.packing.unpack.pool()).map_err(status_of)
}

/// The columns of the tree, and which are the id and the time.
///
/// # Errors
/// As [`open`] and [`caught_up`].
pub(crate) async fn describe(
    service: &Service,
    output: &Output,
) -> Result<(SchemaRef, Vec<u8>), Status> {
    caught_up(service, output).await?;
    let tree = tokio::task::block_in_place(|| open(service, output))?;
    let (id, time) = TrackSource::roles(&tree);
    let roles = Roles { id: id.into(), time: time.into() };
    let roles = serde_json::to_vec(&roles).unwrap_or_default();
    Ok((Arc::clone(tree.schema()), roles))
}

/// Sends the results of a query.
pub(crate) async fn serve(
    service: &Arc<Service>,
    output: Arc<Output>,
    mut query: TrackQuery,
    (data, options): (DataSender, PackOptions),
) -> Result<(), Status> {
    let hosted = service.hosted.as_ref();
    let memory = hosted.map_or(0, |hosted| hosted.pipeline.definition().memory_bytes());
    query.bytes_max = query.bytes_max.min(memory);
    caught_up(service, &output).await?;
    // What they gather is bounded for each.
    let turn = Arc::clone(&service.queries).acquire_owned().await;
    let (root, still) = settled(service, &output, &query).await?;
    let (asked, runtime) = (Arc::clone(service), Handle::current());
    let found = tokio::task::spawn_blocking(move || {
        let _held = (turn, still);
        let tree = whole(root, &asked, &output, &query, &runtime);
        let mut tree = tree.map_err(of_next)?;
        let threads = asked.packing.unpack.pool().threads();
        let rows = tree.query(&query, threads).map_err(of_next)?;
        Ok::<_, Status>((Arc::clone(tree.schema()), rows))
    });
    let (schema, rows) = found.await.map_err(|error| Status::internal(error.to_string()))??;
    let (mut encoder, first) = FlightEncoder::new(&schema, options, &service.packing)?;
    for message in first {
        send_one(&data, message).await?;
    }
    for rows in rows {
        for part in parts(&rows, BATCH_ROWS) {
            for message in encoder.rows(&part, Vec::new())? {
                send_one(&data, message).await?;
            }
        }
    }
    Ok(())
}

/// Waits until the tree of an output has all rows that were acknowledged before: a spilled batch is
/// acknowledged before the tree has it.
///
/// # Errors
/// `UNAVAILABLE`: the tree cannot be written to, or that takes too long.
async fn caught_up(service: &Service, output: &Output) -> Result<(), Status> {
    let Some(hosted) = &service.hosted else {
        return Ok(());
    };
    let deadline = Instant::now() + PASSING;
    let input = hosted.input.saved_until(0..u64::MAX);
    if let Some(end) = input {
        let routed = || hosted.routed.load(Ordering::Acquire);
        let is_routed = || hosted.input.saved_until(routed()..end).is_none();
        until(output, deadline, is_routed).await?;
    }
    // What came of these batches need not be on disk any more.
    let end = match input {
        Some(_) => output.queue.end(),
        None => output.queue.saved_until(0..u64::MAX).unwrap_or(0),
    };
    let is_there = || output.committed.load(Ordering::Acquire) >= end;
    until(output, deadline, is_there).await
}

async fn until(
    output: &Output,
    deadline: Instant,
    is_done: impl Fn() -> bool,
) -> Result<(), Status> {
    while !is_done() {
        let reason = lock(&output.link.last_error).clone();
        if reason.is_some() || Instant::now() >= deadline {
            let what = "rows that were acknowledged are not in the tree yet";
            return Err(Status::unavailable(format!("{what}: {}", later(reason))));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// The tree of an output once each row that is wanted is either in it or with a next node, as it stays for as long
/// as the lock is held.
async fn settled(
    service: &Service,
    output: &Output,
    query: &TrackQuery,
) -> Result<(TreeReader, OwnedRwLockReadGuard<()>), Status> {
    let deadline = Instant::now() + PASSING;
    loop {
        let still = Arc::clone(&output.passing).read_owned();
        let Ok(still) = timeout_at(deadline, still).await else {
            return Err(on_their_way(&output.next, None));
        };
        let root = tokio::task::block_in_place(|| open(service, output))?;
        let Some(passed) = root.passed() else {
            return Ok((root, still));
        };
        let wanted = root.leaves_of(query).map_err(status_of)?;
        // With those of rows without an id.
        let all = || (0..=output.next.len() as u32).collect();
        let mut missing = wanted.unwrap_or_else(all);
        missing.retain(|child| !passed.contains(child));
        if missing.is_empty() {
            // The next nodes have all that is here of these objects.
            return Ok((root.without_rows(), still));
        }
        let missing: BTreeSet<usize> =
            missing.into_iter().map(|child| output.next_of(child as usize)).collect();
        let missing = missing.iter().filter_map(|index| output.next.get(*index));
        let reason = lock(&output.link.last_error).clone();
        if reason.is_some() || Instant::now() >= deadline {
            return Err(on_their_way(missing, reason));
        }
        drop(still);
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the status for a query whose rows are still on their way to next nodes.
fn on_their_way<'t>(to: impl IntoIterator<Item = &'t Target>, reason: Option<String>) -> Status {
    let to: Vec<String> = to.into_iter().map(ToString::to_string).collect();
    let why = later(reason);
    Status::unavailable(format!("rows are on their way to {}: {why}", to.join(", ")))
}

fn later(reason: Option<String>) -> String {
    match reason {
        Some(reason) => format!("{reason}; once it takes them, ask again"),
        None => format!("and not there after {} s; ask again later", PASSING.as_secs()),
    }
}

/// Returns the status that a client receives for an error of its query, including an error of a
/// next node.
fn of_next(error: FlowError) -> Status {
    match error {
        FlowError::Away { .. } => Status::unavailable(format!(
            "next node {error}; the query needs it: start it again, or ask for objects of other nodes"
        )),
        other => status_of(other),
    }
}

/// The tree of an output with the parts of a query's rows on next nodes.
fn whole(
    root: TreeReader,
    service: &Service,
    output: &Output,
    query: &TrackQuery,
    runtime: &Handle,
) -> Result<TreeUnion, FlowError> {
    let wanted = root.leaves_of(query)?;
    let is_wanted = |index: usize| {
        let is_it = |leaves: &Vec<u32>| leaves.contains(&(index as u32));
        wanted.as_ref().is_none_or(is_it)
    };
    let next = (output.next.iter().enumerate()).filter(|(index, _)| is_wanted(*index));
    let next: Vec<Target> = next.map(|(_, target)| target.clone()).collect();
    let find = |target| RemoteTree::find(target, &service.packing, runtime);
    let mut trees: Vec<Box<dyn TrackSource>> = vec![Box::new(root)];
    for tree in at_once(next, TREES_AT_ONCE, find)?.into_iter().flatten() {
        trees.push(Box::new(tree));
    }
    TreeUnion::of(trees)
}

/// A tree that another process serves.
pub struct RemoteTree {
    target: Target,
    schema: SchemaRef,
    roles: Roles,
    packing: Arc<Packing>,
    runtime: Handle,
}

impl RemoteTree {
    /// Requests the tree's columns from the service at an address, whose path is the output.
    ///
    /// # Errors
    /// [`FlowError::Refused`], with the reason.
    pub fn open(
        target: Target,
        packing: &Arc<Packing>,
        runtime: &Handle,
    ) -> Result<Self, FlowError> {
        let name = target.to_string();
        let none = || FlowError::Refused(format!("{name}: {NOT_MADE}"));
        Self::find(target, packing, runtime)?.ok_or_else(none)
    }

    /// Opens a remote tree like [`RemoteTree::open`]; `None` as long as no batch has reached it.
    fn find(
        target: Target,
        packing: &Arc<Packing>,
        runtime: &Handle,
    ) -> Result<Option<Self>, FlowError> {
        let asking = async {
            let mut client = connect(&target).await?;
            let command = ticket(&target, &TrackQuery::default());
            let descriptor = FlightDescriptor::new_cmd(command);
            let info = client.get_flight_info(descriptor).await?.into_inner();
            let roles = serde_json::from_slice(&info.app_metadata);
            let roles = roles.map_err(|_| Status::not_found("it is no tree"))?;
            let schema = info.try_decode_schema();
            let schema = schema.map_err(|error| Status::internal(error.to_string()))?;
            Ok::<_, Status>((schema, roles))
        };
        let (schema, roles): (_, Roles) = match runtime.block_on(asking) {
            Ok(said) => said,
            Err(status) if status.code() == Code::FailedPrecondition => return Ok(None),
            Err(status) => return Err(target.error(&status)),
        };
        Ok(Some(Self {
            target,
            schema: Arc::new(schema),
            roles,
            packing: Arc::clone(packing),
            runtime: runtime.clone(),
        }))
    }

    async fn ask(
        &self,
        query: &TrackQuery,
        gathered: &Gathered,
    ) -> Result<Vec<RecordBatch>, Status> {
        let mut client = connect(&self.target).await?;
        let ticket = Ticket { ticket: ticket(&self.target, query).into() };
        let mut messages = client.do_get(ticket).await?.into_inner();
        let opening = Opening::read(&mut messages).await?;
        let options = UnpackOptions::default();
        let mut decoder = opening.decoder(&mut messages, options, &self.packing).await?;
        let mut found = Vec::new();
        while let Some(message) = messages.message().await? {
            if let Some(batch) = decoder.unpack(message)? {
                gathered.add(&batch).map_err(status_of)?;
                found.push(batch);
            }
        }
        Ok(found)
    }
}

impl TrackSource for RemoteTree {
    fn name(&self) -> String {
        self.target.to_string()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn roles(&self) -> (&str, &str) {
        (&self.roles.id, &self.roles.time)
    }

    fn query(
        &mut self,
        query: &TrackQuery,
        gathered: &Gathered,
        _threads: usize,
    ) -> Result<Vec<RecordBatch>, FlowError> {
        let found = self.runtime.block_on(self.ask(query, gathered));
        found.map_err(|status| self.target.error(&status))
    }
}

async fn connect(target: &Target) -> Result<Client, Status> {
    target.connect(&CpuTime::default()).await
}

fn ticket(target: &Target, query: &TrackQuery) -> Vec<u8> {
    let ticket = TracksTicket { output: target.path.clone(), tracks: query.clone() };
    ticket.to_bytes()
}
