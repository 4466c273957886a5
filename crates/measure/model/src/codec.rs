//! Closed forms of compression offload: a context that is set up again for each input, and the
//! input size from which that pays.
//!
//! An input of `n` bytes takes `T = c + n / r`: `c` to let the old context go and set the new one
//! up, `r` the engine's rate. In the static setting `c` is zero.

pub(crate) mod rates;

/// Nanoseconds for `bytes` on an engine of `rate` bytes a second behind a context that costs
/// `context_ns`.
pub fn offload_ns(context_ns: f64, bytes: f64, rate: f64) -> f64 {
    context_ns + bytes / rate * 1e9
}

/// Returns the rate of an offload, in bytes a second, as its caller sees it.
pub fn offload_rate(context_ns: f64, bytes: f64, rate: f64) -> f64 {
    bytes / offload_ns(context_ns, bytes, rate) * 1e9
}

/// The input size in bytes from which a device is faster that takes `fixed_ns` and then
/// `device_ns` a byte where a CPU takes `cpu_ns`; `None` if it never is. All break-evens are this.
pub fn break_even_bytes(fixed_ns: f64, device_ns: f64, cpu_ns: f64) -> Option<f64> {
    (cpu_ns > device_ns).then(|| fixed_ns / (cpu_ns - device_ns))
}

/// Jobs that `bytes` become if one job takes no more than `largest_bytes`.
pub fn jobs(bytes: f64, largest_bytes: f64) -> f64 {
    (bytes / largest_bytes).ceil().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_break_even_both_are_as_fast() {
        let bytes = break_even_bytes(110e6, 0.5, 1e3 / 60.0).unwrap();
        assert!((offload_rate(110e6, bytes, 2e9) / 60e6 - 1.0).abs() < 1e-12);
        assert!(offload_rate(110e6, bytes * 2.0, 2e9) > 60e6);
        assert_eq!(break_even_bytes(110e6, 20.0, 1e3 / 60.0), None);
    }

    #[test]
    fn without_a_context_to_set_up_the_engine_is_seen_at_its_rate() {
        assert!((offload_rate(0.0, 5000.0, 2e9) - 2e9).abs() < 1.0);
        assert_eq!(jobs(5_345_280.0, 2_097_152.0), 3.0);
        assert_eq!(jobs(0.0, 2_097_152.0), 1.0);
    }
}
