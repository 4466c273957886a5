//! Shared memory keeps every promise of the verbs, with a copy engine and without.

use std::time::{Duration, Instant};

use overside_link::shm::{self, EngineOptions, Path, Shape, ShmOptions};
use overside_link::verbs::LinkConfig;
use overside_testkit::link_conformance::Ends;

fn link(host: &LinkConfig, dpu: &LinkConfig, engine: Option<EngineOptions>) -> Ends {
    let options = ShmOptions { engine };
    let deadline = Instant::now() + Duration::from_secs(10);
    let [first, second] = shm::pair([host, dpu], [&options; 2], deadline).expect("a link");
    (Box::new(first), Box::new(second))
}

mod caller_copies {
    overside_testkit::link_conformance_suite!(|host, dpu| super::link(host, dpu, None));
}

mod engine_copies {
    use super::*;

    overside_testkit::link_conformance_suite!(|host, dpu| {
        link(host, dpu, Some(EngineOptions::default()))
    });
}

/// Completions at the times of a made-up card.
mod paced_engine_copies {
    use super::*;

    overside_testkit::link_conformance_suite!(|host, dpu| {
        let path = Path { latency_ns: 2_000, busy_ns: 500 };
        let shape = Shape { read: path, write: path, missing: Vec::new() };
        let engine = EngineOptions { core: None, shape: Some(shape) };
        link(host, dpu, Some(engine))
    });
}
