//! Summary of the verification of devices' results.

use overside_placement::Report;

/// Returns a sentence with the number of verified results and the CPU time for it; `None` if the
/// devices had no results.
pub(crate) fn text(report: &Report) -> Option<String> {
    let verification = &report.verification;
    let all = verification.chunks + verification.unverified;
    let devices: Vec<&str> = (report.devices.iter()).map(|device| device.device.as_str()).collect();
    (all > 0).then(|| {
        format!(
            "{} of {all} results of {} verified in {:.1} ms of CPU time",
            verification.chunks,
            devices.join(" and "),
            verification.cpu_time.host_ns as f64 / 1e6
        )
    })
}
