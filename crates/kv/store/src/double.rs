//! Numbers as text, as C's `strtod` reads them.

/// A number that a text is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Double {
    /// The nearest double; an infinity or zero if the number is too great or too small.
    pub value: f64,
    /// `false` if it is too great or too small.
    pub is_in_range: bool,
}

/// A text that is a decimal or hexadecimal fraction, or an infinity, and nothing else. Returns `None` for other texts,
/// and for those that are not a number by their own words.
#[must_use]
pub fn parse_double(text: &[u8]) -> Option<Double> {
    let unsigned = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+"));
    if let [b'0', b'x' | b'X', digits @ ..] = unsigned.unwrap_or(text) {
        let (value, is_in_range) = hexadecimal(digits)?;
        let value = if text[0] == b'-' { -value } else { value };
        return Some(Double { value, is_in_range });
    }
    let text = std::str::from_utf8(text).ok()?;
    let value: f64 = text.parse().ok().filter(|number: &f64| !number.is_nan())?;
    let letters = text.trim_start_matches(['+', '-']);
    let has_overflown = value.is_infinite() && !letters.starts_with(['i', 'I']);
    let mantissa = letters.split(['e', 'E']).next().unwrap_or_default();
    let has_underflown = value == 0.0 && mantissa.contains(|digit| matches!(digit, '1'..='9'));
    Some(Double { value, is_in_range: !has_overflown && !has_underflown })
}

/// Reads what follows `0x`: digits with a point, and perhaps `p` and a power of two.
fn hexadecimal(text: &[u8]) -> Option<(f64, bool)> {
    const EXPONENT_MAX: i64 = 1 << 40;
    let mut parts = text.splitn(2, |byte| matches!(byte, b'p' | b'P'));
    let digits = parts.next()?;
    let mut exponent = match parts.next() {
        None => 0,
        Some(text) => {
            let (sign, text) = match text {
                [b'-', rest @ ..] => (-1, rest),
                [b'+', rest @ ..] => (1, rest),
                _ => (1, text),
            };
            let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
            let fold =
                |value: i64, digit: &u8| (value * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX);
            sign * text.iter().fold(is_number.then_some(0)?, fold)
        }
    };
    let (mut mantissa, mut has_point, mut has_digit) = (0_u64, false, false);
    for byte in digits {
        let Some(digit) = char::from(*byte).to_digit(16) else {
            (*byte == b'.' && !has_point).then_some(())?;
            has_point = true;
            continue;
        };
        has_digit = true;
        if mantissa >> 59 == 0 {
            mantissa = mantissa << 4 | u64::from(digit);
            exponent -= if has_point { 4 } else { 0 };
        } else {
            // More digits than a double has only say whether something follows.
            mantissa |= u64::from(digit != 0);
            exponent += if has_point { 0 } else { 4 };
        }
    }
    has_digit.then_some(())?;
    let mut value = mantissa as f64;
    let mut left = exponent.clamp(-4000, 4000);
    while left != 0 {
        let step = left.clamp(-1000, 1000);
        value *= f64::from_bits(((1023 + step) as u64) << 52);
        left -= step;
    }
    Some((value, value.is_finite() && (value != 0.0 || mantissa == 0)))
}

#[cfg(test)]
mod tests {
    use super::parse_double;

    #[test]
    fn texts_are_read_as_strtod_reads_them() {
        let texts = [
            ("-1.5e3", -1500.0, true),
            ("+inf", f64::INFINITY, true),
            ("-Infinity", f64::NEG_INFINITY, true),
            ("0.0e5", 0.0, true),
            ("5.", 5.0, true),
            ("+.5", 0.5, true),
            ("3.0e-320", 3.0e-320, true),
            ("1e400", f64::INFINITY, false),
            ("-1e-400", 0.0, false),
            ("0x10", 16.0, true),
            ("-0X.8p1", -1.0, true),
            ("0xAp-1", 5.0, true),
            ("0x0", 0.0, true),
            ("0x1.fffffffffffff8p0", 2.0, true),
            ("0x1.fffffffffffff7fffffffffp0", 1.999_999_999_999_999_8, true),
            ("0x1000000000000000000000000000000p-120", 1.0, true),
            ("0x1p-1074", 5e-324, true),
            ("0x1p1024", f64::INFINITY, false),
            ("0x1p-9999999999999999999", 0.0, false),
        ];
        for (text, value, is_in_range) in texts {
            let read = parse_double(text.as_bytes()).unwrap();
            assert_eq!((read.value, read.is_in_range), (value, is_in_range), "{text}");
        }
        let others = [
            "", "nan", "-nan", " 1", "1 ", "one", "1e", "0x", "0x.", "0x1p", "0x1p+", "0x1.2.3",
            "0xg", "(1", "1_0", "--1", "0b1", "0x-1",
        ];
        for text in others {
            assert_eq!(parse_double(text.as_bytes()), None, "{text}");
        }
    }
}
