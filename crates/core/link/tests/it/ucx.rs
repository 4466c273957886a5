//! Links over UCX pass the suite of all transports, on the transports that need no hardware. The
//! tests are skipped without UCX.

use overside_link::ucx::{self, UcxOptions};
use overside_link::verbs::LinkConfig;
use overside_testkit::link_conformance::Ends;

fn is_there() -> bool {
    let version = ucx::version();
    if let Err(reason) = &version {
        eprintln!("skipped: {reason}");
    }
    version.is_ok()
}

fn link(host: &LinkConfig, dpu: &LinkConfig, transports: &str) -> Ends {
    let options = UcxOptions { transports: Some(transports.into()), ..UcxOptions::default() };
    let (host, dpu) = ucx::pair(host, dpu, &options).expect("a link");
    (Box::new(host), Box::new(dpu))
}

mod over_shared_memory {
    use super::*;

    overside_testkit::link_conformance_suite!(
        |host: &_, dpu: &_| link(host, dpu, "posix,cma,self"),
        is_there()
    );
}

mod over_tcp {
    use super::*;

    overside_testkit::link_conformance_suite!(
        |host: &_, dpu: &_| link(host, dpu, "tcp,self"),
        is_there()
    );
}

/// Loading UCX leaves the process's signals as they were.
#[test]
fn loading_changes_no_signal_handler() {
    if !is_there() {
        return;
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("this system has it");
    let caught =
        status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask of signals");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("a number");
    // Rust itself catches the two of an overflowing stack, and the C library some above 31.
    let of_rust = 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1);
    assert_eq!(caught & 0x7fff_ffff & !of_rust, 0, "{caught:x}");
}
