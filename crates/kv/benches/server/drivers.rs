//! The two drivers of the server beside each other, both of this store: epoll ("other") and io_uring ("own").

use super::{Case, Peer, case, compare_named, load};

/// Nothing is promised: one may be faster here and the other there.
const GOAL: f64 = 1.0;

const CASES: [Case; 12] = [
    case(1, 1, false, false, GOAL),
    case(1, 16, false, false, GOAL),
    case(1, 64, false, false, GOAL),
    case(16, 1, false, false, GOAL),
    case(16, 16, false, false, GOAL),
    case(16, 64, false, false, GOAL),
    case(50, 1, false, false, GOAL),
    case(50, 16, false, false, GOAL),
    case(50, 64, false, false, GOAL),
    case(50, 64, true, false, GOAL),
    case(1, 1, false, true, GOAL),
    case(50, 16, false, true, GOAL),
];

fn name(case: &Case) -> String {
    format!("io_uring {}", case.name())
}

/// Compares the drivers in the cases whose names have `filter` in them.
pub fn compare(filter: &str) {
    for busy_poll in [false, true] {
        let is_wanted = |case: &&Case| case.busy_poll == busy_poll && name(case).contains(filter);
        let cases: Vec<_> = CASES.iter().filter(is_wanted).collect();
        if cases.is_empty() {
            continue;
        }
        let how = if busy_poll { "poll" } else { "sleep" };
        let [epoll, io_uring] =
            [how.to_owned(), format!("{how},io_uring")].map(|mode| Peer::own(&mode));
        for peer in [&epoll, &io_uring] {
            load(peer.address, false);
        }
        for case in cases {
            compare_named(&name(case), case, &epoll, &io_uring);
        }
    }
}
