//! Figures as people read them, in messages, tables and reports alike.
//!
//! Three significant digits; sizes in binary units (KiB is 1024 bytes), rates in decimal ones (MB/s
//! is 10^6 bytes a second), times in SI units. docs/measure/report.md documents this.

/// A number with `digits` significant digits and commas between thousands: `0.0412`, `4.80`,
/// `1,240`; a dash for NaN and infinity.
pub fn number(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let digits = digits.clamp(1, 17);
    let exponent = |value: f64| value.abs().log10().floor() as i32;
    let rounded = round(value, digits - 1 - exponent(value));
    if !(1e-4..1e12).contains(&rounded.abs()) {
        return scientific(value, (digits - 1) as usize);
    }
    // Rounding can carry into another digit: 9.996 is 10.0, not 10.00.
    let places = digits - 1 - exponent(rounded);
    grouped(&format!("{rounded:.*}", places.max(0) as usize))
}

/// Rounds to `places` decimals, or before the decimal point if `places` is negative.
fn round(value: f64, places: i32) -> f64 {
    if places >= 0 {
        let text = format!("{value:.*}", places.min(330) as usize);
        return text.parse().unwrap_or(value);
    }
    let step = 10_f64.powi(-places);
    (value / step).round_ties_even() * step
}

/// `1.23e+12`.
fn scientific(value: f64, places: usize) -> String {
    let text = format!("{value:.places$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// Commas between thousands.
fn grouped(text: &str) -> String {
    let (sign, text) = match text.strip_prefix('-') {
        Some(text) => ("-", text),
        None => ("", text),
    };
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// A whole number: `1,240`.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// Bytes in binary units: `64 KiB`, `1.50 GiB`; all of them where they are few and no whole number of
/// units, as limits are: `16,383 B`.
pub fn size(bytes: f64) -> String {
    const EXACT_BELOW: f64 = 100.0 * 1024.0;
    if !bytes.is_finite() {
        return "–".into();
    }
    let is_whole = |amount: f64| amount.trunc() == amount;
    let exact = bytes < EXACT_BELOW && is_whole(bytes) && !is_whole(bytes / 1024.0);
    let units = [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.into_iter().find(|(_, factor)| bytes >= *factor as f64);
    match unit {
        Some((unit, factor)) if !exact => {
            let amount = bytes / factor as f64;
            if is_whole(amount) && amount < 10_000.0 {
                format!("{amount} {unit}")
            } else {
                format!("{} {unit}", number(amount, 3))
            }
        }
        _ => format!("{} B", grouped(&bytes.trunc().to_string())),
    }
}

/// Bytes a second in decimal units: `4.80 GB/s`.
pub fn rate(bytes_per_s: f64) -> String {
    if !bytes_per_s.is_finite() {
        return "–".into();
    }
    let units = [("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)];
    let (unit, factor) = (units.into_iter())
        .find(|(_, factor)| bytes_per_s.abs() >= *factor * 0.9995)
        .unwrap_or(("B/s", 1.0));
    format!("{} {unit}", number(bytes_per_s / factor, 3))
}

/// Seconds: `850 ms`, `12 s`, `2 min 5 s`, `10 min`.
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "–".into();
    }
    match seconds {
        _ if seconds < 1e-6 => format!("{} ns", number(seconds * 1e9, 3)),
        _ if seconds < 1e-3 => format!("{} µs", number(seconds * 1e6, 3)),
        _ if seconds < 1.0 => format!("{} ms", number(seconds * 1e3, 3)),
        _ if seconds < 10.0 => format!("{} s", number(seconds, 3)),
        _ if seconds < 90.0 => format!("{} s", number(seconds, 2)),
        _ => {
            let whole = seconds.round_ties_even() as u64;
            let (first, rest, units) = match whole / 60 {
                minutes @ 60.. => (minutes / 60, minutes % 60, ["h", "min"]),
                minutes => (minutes, whole % 60, ["min", "s"]),
            };
            match rest {
                0 => format!("{first} {}", units[0]),
                rest => format!("{first} {} {rest} {}", units[0], units[1]),
            }
        }
    }
}
