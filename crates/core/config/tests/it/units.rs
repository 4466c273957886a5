//! Figures as people read them.

use overside_config::units::{count, duration, number, rate, size};
use proptest::prelude::*;

#[test]
fn numbers_have_three_significant_digits() {
    let shown = [0.0, 0.0412, 4.8, 9.996, 1_239.6, 12_345.0, -0.5, 1.23e13, 1e-5, f64::NAN]
        .map(|value| number(value, 3));
    assert_eq!(
        shown,
        ["0", "0.0412", "4.80", "10.0", "1,240", "12,300", "-0.500", "1.23e+13", "1.00e-05", "–"]
    );
    assert_eq!(number(9.96, 2), "10");
    assert_eq!(count(1_234_567), "1,234,567");
}

#[test]
fn sizes_are_binary_and_rates_decimal() {
    let sizes = [0.0, 999.0, 1024.0, 16_383.0, 1536.5, 65_536.0, 12_345_678_901.0, 2_f64.powi(41)]
        .map(size);
    assert_eq!(
        sizes,
        ["0 B", "999 B", "1 KiB", "16,383 B", "1.50 KiB", "64 KiB", "11.5 GiB", "2 TiB"]
    );
    let rates = [0.5, 999.6, 2_500_000.0, 1e9, 40e9 / 8.0].map(rate);
    assert_eq!(rates, ["0.500 B/s", "1.00 kB/s", "2.50 MB/s", "1.00 GB/s", "5.00 GB/s"]);
}

#[test]
fn times_are_told_in_the_unit_that_fits() {
    let times = [5e-9, 12e-6, 0.85, 1.5, 12.3, 125.0, 7_260.0, -1.0].map(duration);
    assert_eq!(
        times,
        ["5.00 ns", "12.0 µs", "850 ms", "1.50 s", "12 s", "2 min 5 s", "2 h 1 min", "–"]
    );
}

proptest! {
    #[test]
    fn a_number_reads_back_within_its_digits(value in prop::num::f64::NORMAL, digits in 1..8_i32) {
        let text = number(value, digits).replace(',', "");
        let read: f64 = text.parse().unwrap();
        // The largest of all may be rounded to one that is none.
        prop_assume!(read.is_finite());
        let error = (read / value - 1.0).abs();
        prop_assert!(error <= 0.5000001 * 10_f64.powi(1 - digits), "{value} {text}");
    }
}
