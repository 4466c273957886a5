//! Numbers as text, parsed and written as by Redis 7.0.

use std::hash::{BuildHasher, Hasher, RandomState};

use overside_kv_store::parse_double;

/// Returns a number that nobody can foresee.
pub(super) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Parses a signed decimal number in its canonical form: no spaces, plus signs or leading zeros.
#[inline]
pub(super) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        _ => (false, text),
    };
    match digits.first()? {
        b'0' => return (digits.len() == 1 && !is_negative).then_some(0),
        b'1'..=b'9' if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut number = 0_u64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // 19 digits fit.
        number = number * 10 + u64::from(digit);
    }
    if is_negative { 0_i64.checked_sub_unsigned(number) } else { i64::try_from(number).ok() }
}

/// Parses a fraction or an infinity, unless it is out of the range of a double.
pub(super) fn parse_f64(text: &[u8]) -> Option<f64> {
    let number = parse_double(text).filter(|number| number.is_in_range);
    number.map(|number| number.value)
}

/// Appends a number in the format `%.17g` of C.
pub(super) fn write_f64(number: f64, out: &mut Vec<u8>) {
    const WHOLE_MAX: f64 = 1e15;
    if number.is_infinite() {
        out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" });
        return;
    }
    if number.trunc() == number
        && number.abs() < WHOLE_MAX
        && !(number == 0.0 && number.is_sign_negative())
    {
        out.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
        return;
    }
    let text = format!("{number:.16e}");
    // The format above always has an exponent.
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    out.extend_from_slice(sign.as_bytes());
    out.extend_from_slice(with_exponent(digits, exponent).as_bytes());
}

/// Writes the significant digits of a number whose first digit has this exponent.
fn with_exponent(digits: &str, exponent: i32) -> String {
    const PRECISION: i32 = 17;
    let digits = if digits.is_empty() { "0" } else { digits };
    if !(-4..PRECISION).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{first}{point}{rest}e{sign}{:02}", exponent.abs());
    }
    let Ok(whole) = usize::try_from(exponent + 1) else {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("0.{zeros}{digits}");
    };
    if whole == 0 {
        format!("0.{digits}")
    } else if digits.len() <= whole {
        format!("{digits:0<whole$}")
    } else {
        let (whole, fraction) = digits.split_at(whole);
        format!("{whole}.{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_i64, write_f64};

    #[test]
    fn whole_numbers_have_one_way_to_be_written() {
        let pairs = [
            ("0", 0),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ];
        for (text, number) in pairs {
            assert_eq!(parse_i64(text.as_bytes()), Some(number), "{text}");
        }
        for text in [
            "",
            "-",
            "-0",
            "01",
            "+1",
            " 1",
            "1 ",
            "1a",
            "9223372036854775808",
            "18446744073709551616",
            "-9223372036854775809",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn fractions_have_seventeen_digits() {
        let texts = [
            (0.1, "0.10000000000000001"),
            (-2.5, "-2.5"),
            (3.0, "3"),
            (-0.0, "-0"),
            (1e15, "1000000000000000"),
            (1.5e16, "15000000000000000"),
            (1e17, "1e+17"),
            (1.25e-5, "1.2500000000000001e-05"),
            (0.000_125, "0.000125"),
            (12_345.678, "12345.678"),
            (f64::NEG_INFINITY, "-inf"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
        ];
        for (number, text) in texts {
            let mut out = Vec::new();
            write_f64(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
