//! Guarantees that every transport gives, as tests that can be run on any link.
//!
//! Each promise is a function that takes a way to make a link, with both ends in this process, and
//! panics if it is broken. Capabilities select the tests.
//! [`crate::link_conformance_suite!`] makes a test of each:
//!
//! ```ignore
//! mod tcp {
//!     fn link(host: &LinkConfig, dpu: &LinkConfig) -> link_conformance::Ends { .. }
//!     overside_testkit::link_conformance_suite!(link);
//! }
//! ```

mod data;
mod driver;
mod ends;
mod limits;
mod messages;
mod waiting;

use overside_link::verbs::{Endpoint, LinkConfig};

pub use data::*;
pub use ends::*;
pub use limits::*;
pub use messages::*;
pub use waiting::*;

/// Both ends of a link: the one that listened, and the one that connected.
pub type Ends = (Box<dyn Endpoint>, Box<dyn Endpoint>);

/// A way to make a link, each time a new one.
pub type Factory<'a> = &'a (dyn Fn(&LinkConfig, &LinkConfig) -> Ends + Sync);

/// Makes a test of each promise. With a second argument, tests do nothing where that is `false`.
#[macro_export]
macro_rules! link_conformance_suite {
    ($link:expr) => {
        $crate::link_conformance_suite! { $link, true }
    };
    ($link:expr, $is_there:expr) => {
        $crate::link_conformance_suite! { @tests $link, $is_there;
            describes_itself,
            writes_go_to_the_peer,
            reads_come_from_the_peer,
            reads_may_share_a_destination,
            either_end_initiates,
            a_write_is_there_once_a_message_says_so,
            one_sided_verbs_need_no_owner,
            sources_come_back_and_can_be_shared,
            many_pieces_at_one_doorbell,
            back_pressure_beyond_the_depth,
            large_payloads,
            inline_payloads,
            work_of_all_kinds_at_once,
            lengths_and_ranges_are_checked,
            access_is_checked,
            regions_of_other_links_are_refused,
            messages_that_are_too_long_are_refused,
            valid_work_before_a_refused_piece_is_taken,
            tokens_that_stand_for_nothing,
            withdrawn_regions,
            import_limit,
            exports_are_bounded,
            exported_memory_is_seen_through_its_handle,
            each_queue_pair_is_handed_out_once,
            messages_arrive_in_order,
            messages_of_any_length,
            messages_wait_until_they_are_received,
            a_sender_is_held_back,
            waiting_memory_makes_room,
            memory_that_waits_comes_first,
            messages_that_do_not_fit,
            events_wake,
            events_of_completions_wake,
            room_wakes,
            no_events_unless_asked_for,
            a_lost_link_wakes,
            queue_pairs_in_threads_of_their_own,
            a_closed_queue_pair_is_lost_after_what_was_sent,
            close_gives_up_waiting,
            a_dropped_end_is_lost,
            dropping_with_work_in_flight,
            dropping_both_ends_with_work_in_flight,
            processor_time_is_on_the_right_ledger,
        }
    };
    (@tests $link:expr, $is_there:expr; $($name:ident,)*) => {
        $(#[test]
        fn $name() {
            if $is_there {
                $crate::link_conformance::$name(&$link);
            }
        })*
    };
}
