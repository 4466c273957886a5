//! Shared memory keeps every promise of the verbs.

mod driver;
mod ends;
mod memory;
mod one_sided;
mod two_sided;
mod waiting;

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_link::shm::{self, EngineOptions, Path, Shape, ShmOptions};
use overside_link::verbs::{Endpoint, LinkConfig};

/// The two connected ends of a link; the first one's configuration counted.
type Ends = [Arc<dyn Endpoint>; 2];

/// A way to make a link, each time a new one.
type Factory<'a> = &'a (dyn Fn([&LinkConfig; 2]) -> Ends + Sync);

/// One test for each promise, named after it.
macro_rules! suite {
    ($factory:expr) => {
        suite! { @tests $factory;
            one_sided::describes_itself,
            one_sided::a_write_arrives_and_nothing_else,
            one_sided::a_read_fetches_and_nothing_else,
            one_sided::inline_is_like_any_other,
            one_sided::every_tag_comes_back_once,
            one_sided::depth_is_bounded,
            one_sided::a_refused_piece_stays_and_those_before_it_go,
            memory::work_that_cannot_be_is_refused,
            memory::another_links_memory_is_refused,
            memory::tokens_that_are_none_are_refused,
            memory::withdrawn_memory_is_not_imported,
            memory::imports_are_bounded,
            memory::exports_are_bounded,
            memory::exported_memory_is_seen_by_both,
            two_sided::messages_come_in_order,
            two_sided::messages_of_any_length,
            two_sided::a_full_link_takes_less_and_loses_nothing,
            two_sided::posted_receives_come_first,
            two_sided::a_message_that_does_not_fit,
            two_sided::a_write_is_there_when_the_message_is,
            waiting::messages_wake,
            waiting::completions_wake,
            waiting::room_wakes,
            waiting::polling_only_has_no_events,
            waiting::a_lost_link_wakes,
            ends::queue_pairs_are_opened_once,
            ends::queue_pairs_do_not_mix,
            ends::what_was_sent_before_closing_arrives,
            ends::closing_gives_up_receives,
            ends::a_dropped_peer_is_lost,
            ends::drop_with_work_in_flight,
        }
    };
    (@tests $factory:expr; $($module:ident::$name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                crate::$module::$name(&$factory);
            }
        )*
    };
}

fn link(configs: [&LinkConfig; 2], options: &ShmOptions) -> Ends {
    let deadline = Instant::now() + Duration::from_secs(10);
    let ends = shm::pair(configs, [options, options], deadline).expect("a link");
    ends.map(|end| Arc::new(end) as Arc<_>)
}

mod tcp {
    use super::*;

    suite!(|configs: [&LinkConfig; 2]| -> Ends {
        let (first, second) = overside_link::tcp::pair(configs[0], configs[1]).expect("a link");
        [Arc::new(first), Arc::new(second)]
    });
}

mod caller_copies {
    use super::*;

    suite!(|configs| link(configs, &ShmOptions::default()));
}

mod engine_copies {
    use super::*;

    suite!(|configs| {
        let engine = Some(EngineOptions::default());
        link(configs, &ShmOptions { engine })
    });
}

mod shaped_engine_copies {
    use super::*;

    suite!(|configs| {
        let path = Path {
            latency_ns: 2_000,
            bytes_per_s: 10_000_000_000.try_into().ok(),
            packet_bytes: 256.try_into().ok(),
            packet_overhead_bytes: 24,
            ..Path::default()
        };
        let shape = Shape {
            read: path.clone(),
            write: path,
            missing: Vec::new(),
        };
        let engine = EngineOptions {
            core: None,
            shape: Some(shape),
        };
        link(
            configs,
            &ShmOptions {
                engine: Some(engine),
            },
        )
    });
}
