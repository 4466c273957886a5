//! Datagrams of the key-value store: its requests as bytes, and the client.

use std::io;
use std::net::ToSocketAddrs;
use std::sync::Mutex;

use overside_base::lock;
use overside_kv_datagram::client::{ClientError, DatagramClient, ExchangeError, ExchangeOptions};
use overside_kv_protocol::datagram::{
    BUSY, DATAGRAM_MAX_BYTES, HEADER_BYTES, REPEATED, Reply, TOO_LONG,
};
use overside_kv_store::codec::{decode, encode};
use overside_kv_store::{Answer, Expiry, KeyHasher, Operation, Request, SetOptions};
use pyo3::exceptions::{PyConnectionError, PyOSError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use rustix::io::Errno;

use crate::output::Signals;
use crate::{guarded, refused};

/// A request as bytes, and `true` if it may be executed twice.
type Record = (Vec<u8>, bool);

fn record(key: &[u8], operation: Operation<'_>) -> Record {
    let is_repeatable = operation.is_repeatable();
    let mut bytes = Vec::new();
    // The hash is no part of it.
    let request = Request { key, hash: 0, operation };
    encode(&request, &mut bytes);
    (bytes, is_repeatable)
}

#[pyfunction]
pub(crate) fn kv_get(key: &[u8]) -> Record {
    record(key, Operation::Get)
}

#[pyfunction]
#[pyo3(signature = (key, value, expires_at_ms))]
pub(crate) fn kv_set(key: &[u8], value: &[u8], expires_at_ms: Option<u64>) -> Record {
    let options = SetOptions {
        expiry: expires_at_ms.map_or(Expiry::Never, Expiry::At),
        ..SetOptions::default()
    };
    record(key, Operation::Set { value, options })
}

#[pyfunction]
pub(crate) fn kv_delete(key: &[u8]) -> Record {
    record(key, Operation::Delete { version: None })
}

#[pyfunction]
pub(crate) fn kv_increment(key: &[u8], delta: i64) -> Record {
    record(key, Operation::Increment { delta })
}

/// The partition of `count` that has a key.
#[pyfunction]
pub(crate) fn kv_partition_of(key: &[u8], count: usize) -> PyResult<usize> {
    guarded(|| Ok(overside_kv_store::partition_of(key, count)))
}

/// A client of one server. It belongs to one thread at a time.
#[pyclass(frozen, module = "overside._core")]
pub(crate) struct KvDatagramClient {
    /// `None`: it was closed.
    client: Mutex<Option<DatagramClient>>,
    hasher: KeyHasher,
}

/// The protocol's number of an outcome, and its operands.
type Outcome = (i16, Vec<Operand>);

/// Outcome of a request without a reply in time.
const NO_ANSWER: i16 = -1;

#[derive(IntoPyObject)]
enum Operand {
    Bytes(Vec<u8>),
    Unsigned(u64),
    Signed(i64),
    Score(f64),
    Time(Option<u64>),
}

fn outcome(reply: Option<Reply<'_>>) -> Outcome {
    let answer = match reply {
        None => return (NO_ANSWER, Vec::new()),
        Some(Reply::TooLong) => return (TOO_LONG.into(), Vec::new()),
        Some(Reply::Busy) => return (BUSY.into(), Vec::new()),
        Some(Reply::Repeated) => return (REPEATED.into(), Vec::new()),
        Some(Reply::Answer(answer)) => answer,
    };
    use Operand::{Bytes, Score, Signed, Time, Unsigned};
    let operands = match answer {
        Answer::Value(value) => vec![
            Bytes(value.data.to_vec()),
            Unsigned(value.flags.into()),
            Unsigned(value.version),
            Time(value.expires_at_ms),
        ],
        Answer::Stored { version } => vec![Unsigned(version)],
        Answer::Number(number) => vec![Signed(number)],
        Answer::Counter { value, version } => vec![Unsigned(value), Unsigned(version)],
        Answer::Score(score) => vec![Score(score)],
        Answer::Metadata(found) => vec![
            Unsigned(found.kind.number().into()),
            Unsigned(found.flags.into()),
            Unsigned(found.version),
            Time(found.expires_at_ms),
            Unsigned(found.len),
            Unsigned(found.memory_bytes),
        ],
        Answer::List(list) => vec![Unsigned(list.len() as u64), Bytes(list.as_bytes().to_vec())],
        Answer::Refused(refusal) => vec![Unsigned(refusal.number().into())],
        Answer::Missing | Answer::Done | Answer::NotStored | Answer::VersionDiffers => Vec::new(),
    };
    (answer.number().into(), operands)
}

#[pymethods]
impl KvDatagramClient {
    #[new]
    fn new(
        py: Python<'_>,
        host: &str,
        port: u16,
        tries: u32,
        datagram_bytes: usize,
    ) -> PyResult<Self> {
        let connect = || {
            let address = (host, port).to_socket_addrs()?.next();
            let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
            let bytes = datagram_bytes.clamp(HEADER_BYTES + 1, DATAGRAM_MAX_BYTES);
            let options = ExchangeOptions {
                datagram_bytes: bytes,
                answer_bytes: bytes,
                tries,
                ..ExchangeOptions::default()
            };
            DatagramClient::connect(address, options)
        };
        guarded(|| {
            Ok(Self {
                client: Mutex::new(Some(py.detach(connect)?)),
                hasher: KeyHasher::with_seeds([0; 4]),
            })
        })
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(lock(&self.client).take()));
    }

    /// Outcomes of encoded requests, in their order.
    fn execute(&self, py: Python<'_>, records: Vec<PyBackedBytes>) -> PyResult<Vec<Outcome>> {
        let requests = records.iter().map(|record| self.request(record));
        let requests = requests.collect::<PyResult<Vec<_>>>()?;
        guarded(|| py.detach(|| self.outcomes(&requests)))
    }
}

impl KvDatagramClient {
    fn request<'a>(&self, record: &'a [u8]) -> PyResult<Request<'a>> {
        let mut rest = record;
        let request = decode(&mut rest, &self.hasher).map_err(refused)?;
        if record.len() + HEADER_BYTES > DATAGRAM_MAX_BYTES {
            let key = request.key[..request.key.len().min(40)].escape_ascii();
            let error = "longer than a datagram; use a connection for it";
            return Err(refused(format!("'{key}': {error}")));
        }
        Ok(request)
    }

    fn outcomes(&self, requests: &[Request<'_>]) -> PyResult<Vec<Outcome>> {
        let mut client = lock(&self.client);
        let client = client.as_mut().ok_or(io::Error::from(Errno::BADF))?;
        let mut outcomes: Vec<_> = requests.iter().map(|_| outcome(None)).collect();
        let (mut signals, mut raised) = (Signals::new(), None);
        let mut check = || {
            signals.check().map_err(|error| {
                raised = Some(error);
                io::ErrorKind::Interrupted.into()
            })
        };
        let replies = &mut |index, reply: Option<Reply<'_>>| outcomes[index] = outcome(reply);
        let result = client.execute_while(requests, replies, &mut check);
        match (raised, result) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(outcomes),
            (None, Err(ClientError::Socket(error))) => Err(error.into()),
            (None, Err(ClientError::Exchange(error @ ExchangeError::Version(_)))) => {
                Err(PyConnectionError::new_err(error.to_string()))
            }
            (None, Err(error)) => Err(PyOSError::new_err(error.to_string())),
        }
    }
}
