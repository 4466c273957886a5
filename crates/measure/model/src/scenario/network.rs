//! Networks: TCP that ends on a machine's cores or passes a card, and RDMA's detour through one.

use overside_config::Error;

use super::{Point, Row};
use crate::dma::of;
use crate::fallback::FallbackEvidence;
use crate::network::{self, Submode, Verb};
use crate::{Library, Outcome};

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let machine = point.word("profile");
    let fallback = FallbackEvidence::of(library, &[machine]);
    let port = network::port(library, machine);
    let within_port = |answer| network::within_port(answer, port.as_ref());
    let tcp = |answer| Some(point.metric("TCP", answer));
    if point.word("path") == "ends" {
        let threads = point.number("threads");
        let near = network::ending_closeness(&fallback, machine, threads);
        let ending = fallback.predict(near, |values| network::tcp_ending(values, machine, threads));
        let remote = |name: &str, parameter: &str| {
            let answer = fallback.own(|values| values.get(&of(machine, parameter)));
            point.metric(name, answer)
        };
        let connections = fallback.own(|values| network::rdma_connections(values, machine));
        return Ok(vec![Row {
            throughput: tcp(within_port(ending)),
            more: vec![
                remote("TCP latency over a host's", "tcp.remote.latency"),
                remote("RDMA latency over a host's", "rdma.remote.latency"),
                remote("RDMA rate over a host's", "rdma.remote.rate"),
                point.metric("RDMA connections", connections),
            ],
            notes: vec![
                "\"over a host's\": from afar, to the card's cores over to a host's".into(),
            ],
            ..Row::default()
        }]);
    }
    let submode: Submode = point.choice("path");
    let cores_or_hosts = if submode.is_slow_path() { "the card's cores" } else { "the hosts" };
    let near = network::through_closeness(&fallback, machine, submode);
    let through = within_port(fallback.predict(near, |values| {
        Ok(Outcome {
            value: network::tcp_through(values, machine, submode)?,
            bottleneck: Some(cores_or_hosts.into()),
        })
    }));
    let mut row = Row { throughput: tcp(through), ..Row::default() };
    if submode == Submode::Sm4 {
        let long = point.number("bytes") >= crate::dma::SHORT_BYTES;
        for (name, verb) in [
            ("RDMA read longer by", Verb::Read),
            ("RDMA write longer by", Verb::Write),
            ("RDMA send longer by", Verb::SendRecv),
        ] {
            let near = network::detour_closeness(&fallback, machine, verb, long);
            let longer =
                fallback.predict(near, |values| network::rdma_detour(values, machine, verb, long));
            row.more.push(point.metric(name, longer));
        }
    }
    Ok(vec![row])
}
