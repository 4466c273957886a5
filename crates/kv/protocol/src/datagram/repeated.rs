//! Answers datagrams whose writes are not executed, because they were executed before or that is
//! unknown. Their reads are executed.

use crate::ServerContext;
use overside_kv_store::Request;
use overside_kv_store::codec::encode_answer;

/// Answers requests in order, writes by `marker`. Returns the number of executed requests.
pub(super) fn answer(
    requests: &[Request<'_>],
    marker: u8,
    now_ms: u64,
    server: &mut dyn ServerContext,
    mut add: impl FnMut(&[u8]),
) -> u64 {
    let mut records: Vec<Vec<u8>> = vec![vec![marker]; requests.len()];
    let reads = requests.iter().enumerate();
    let reads = reads.filter(|(_, request)| !request.operation.is_write());
    let (numbers, reads): (Vec<usize>, Vec<Request<'_>>) =
        reads.map(|(number, read)| (number, read.clone())).unzip();
    server.engine().execute(&reads, now_ms, &mut |index, answer| {
        let record = &mut records[numbers[index]];
        record.clear();
        encode_answer(&answer, record);
    });
    records.iter().for_each(|record| add(record));
    reads.len() as u64
}
