//! Sums of decimal fractions, exactly.
//!
//! Redis computes `INCRBYFLOAT` with 80-bit floats and prints at most 17 decimals. Here sums are
//! exact and are rounded to 17 decimals, half to even; so the results are the same if 64 bits of
//! mantissa are enough, and differ in the last digits where they are not (19 digits and more).
//! Hexadecimal fractions are rounded to doubles first.

use crate::{Refusal, parse_double};

/// Longest text that is taken, as in Redis.
const MAX_LEN: usize = 5 << 10;
/// Maximum number of digits before the point: as many as the largest 80-bit float has.
const MAX_WHOLE_DIGITS: i64 = 4933;
/// Maximum number of zeros between the point and the first digit. A number with more counts as 0: it cannot show
/// in 17 decimals, even in sums that tie.
const MAX_DECIMALS: i64 = 5200;
const SHOWN_DECIMALS: usize = 17;

/// Digits, the least significant first; `decimals` of them are behind the point.
#[derive(Clone, Debug)]
struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    decimals: usize,
}

/// The sum as Redis prints it.
///
/// # Errors
/// `NotAFloat` if one is no decimal fraction, `NotFinite` if one is infinite or the sum too large.
pub(super) fn add(a: &[u8], b: &[u8]) -> Result<String, Refusal> {
    let (mut a, mut b) = (parse(a)?, parse(b)?);
    let decimals = a.decimals.max(b.decimals).max(SHOWN_DECIMALS);
    a.scale_to(decimals);
    b.scale_to(decimals);
    let mut sum = a.plus(b);
    sum.round();
    sum.text()
}

fn parse(text: &[u8]) -> Result<Decimal, Refusal> {
    if text.len() > MAX_LEN {
        return Err(Refusal::NotAFloat);
    }
    let (is_negative, unsigned) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    if [&b"inf"[..], b"infinity"].iter().any(|inf| unsigned.eq_ignore_ascii_case(inf)) {
        return Err(Refusal::NotFinite);
    }
    if let [b'0', b'x' | b'X', ..] = unsigned {
        let number = parse_double(text).ok_or(Refusal::NotAFloat)?;
        return match number.is_in_range {
            // Has all of its digits.
            true => parse(format!("{:.1074}", number.value).as_bytes()),
            false => Err(Refusal::NotFinite),
        };
    }
    let exponent_at = unsigned.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match exponent_at {
        Some(at) => (&unsigned[..at], parse_exponent(&unsigned[at + 1..])?),
        None => (unsigned, 0),
    };
    let point = mantissa.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &[][..]),
    };
    let mut digits: Vec<u8> = whole.iter().chain(fraction).map(|b| b.wrapping_sub(b'0')).collect();
    if digits.is_empty() || digits.iter().any(|digit| *digit > 9) {
        return Err(Refusal::NotAFloat);
    }
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..leading);
    digits.reverse();
    let decimals = fraction.len() as i64 - exponent;
    if digits.is_empty() || decimals - digits.len() as i64 > MAX_DECIMALS {
        return Ok(Decimal { is_negative: false, digits: Vec::new(), decimals: 0 });
    }
    if digits.len() as i64 - decimals > MAX_WHOLE_DIGITS {
        return Err(Refusal::NotFinite);
    }
    if decimals < 0 {
        digits.splice(..0, std::iter::repeat_n(0, -decimals as usize));
    }
    Ok(Decimal { is_negative, digits, decimals: decimals.max(0) as usize })
}

/// Clamped: exponents beyond are too large or too small anyway.
fn parse_exponent(text: &[u8]) -> Result<i64, Refusal> {
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Refusal::NotAFloat);
    }
    let fold = |value: i64, digit: &u8| (value * 10 + i64::from(digit - b'0')).min(1 << 20);
    let value = digits.iter().fold(0, fold);
    Ok(if is_negative { -value } else { value })
}

impl Decimal {
    fn scale_to(&mut self, decimals: usize) {
        let zeros = std::iter::repeat_n(0, decimals - self.decimals);
        self.digits.splice(..0, zeros);
        self.decimals = decimals;
    }

    /// Adds two numbers of the same scale.
    fn plus(mut self, mut other: Self) -> Self {
        let len = self.digits.len().max(other.digits.len()) + 1;
        self.digits.resize(len, 0);
        other.digits.resize(len, 0);
        if self.is_negative == other.is_negative {
            let mut carry = 0;
            for (a, b) in self.digits.iter_mut().zip(&other.digits) {
                let sum = *a + b + carry;
                (*a, carry) = (sum % 10, sum / 10);
            }
            return self;
        }
        if self.digits.iter().rev().lt(other.digits.iter().rev()) {
            std::mem::swap(&mut self, &mut other);
        }
        let mut borrow = 0;
        for (a, b) in self.digits.iter_mut().zip(&other.digits) {
            let difference = *a + 10 - b - borrow;
            (*a, borrow) = (difference % 10, 1 - difference / 10);
        }
        self
    }

    fn round(&mut self) {
        let cut = self.decimals - SHOWN_DECIMALS;
        if cut == 0 {
            return;
        }
        let rest = &self.digits[..cut];
        let is_odd = self.digits.get(cut).is_some_and(|digit| digit % 2 == 1);
        let is_up = match rest[cut - 1] {
            5 => is_odd || rest[..cut - 1].iter().any(|digit| *digit != 0),
            digit => digit > 5,
        };
        self.digits.drain(..cut);
        self.decimals = SHOWN_DECIMALS;
        self.digits.push(0);
        let mut carry = u8::from(is_up);
        for digit in &mut self.digits {
            let sum = *digit + carry;
            (*digit, carry) = (sum % 10, sum / 10);
        }
    }

    fn text(mut self) -> Result<String, Refusal> {
        while self.digits.len() > self.decimals && self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        if (self.digits.len() - self.decimals) as i64 > MAX_WHOLE_DIGITS {
            return Err(Refusal::NotFinite);
        }
        let (fraction, whole) = self.digits.split_at(self.decimals);
        let character = |digit: &u8| char::from(b'0' + digit);
        let skipped = fraction.iter().take_while(|digit| **digit == 0).count();
        let fraction: String = fraction[skipped..].iter().rev().map(character).collect();
        let whole: String = match whole {
            [] => "0".to_owned(),
            _ => whole.iter().rev().map(character).collect(),
        };
        let point = if fraction.is_empty() { "" } else { "." };
        let is_zero = whole == "0" && fraction.is_empty();
        let sign = if self.is_negative && !is_zero { "-" } else { "" };
        Ok(format!("{sign}{whole}{point}{fraction}"))
    }
}

#[cfg(test)]
mod tests {
    use super::add;
    use crate::Refusal;

    #[test]
    fn sums_print_as_redis_prints_them() {
        let sums = [
            ("0.1", "0.2", "0.3"),
            ("3.0e3", "200", "3200"),
            ("10.50", "0.1", "10.6"),
            ("5", "-5", "0"),
            ("-0.5", "0.25", "-0.25"),
            ("+1.", ".5", "1.5"),
            ("0", "-0", "0"),
            ("1e-17", "0", "0.00000000000000001"),
            ("1e-18", "0", "0"),
            ("-1e-18", "0", "0"),
            ("6e-18", "0", "0.00000000000000001"),
            ("1.5e-17", "0", "0.00000000000000002"),
            ("99.99999999999999999", "1e-17", "100"),
            ("0.999999999999999999", "0", "1"),
            ("1e-999999999999", "1", "1"),
            ("1000", "-999.5", "0.5"),
            ("0e99999", "2", "2"),
            ("0x10", "0x.8", "16.5"),
            ("-0x1p-1074", "1", "1"),
        ];
        for (a, b, sum) in sums {
            assert_eq!(add(a.as_bytes(), b.as_bytes()).as_deref(), Ok(sum), "{a} + {b}");
            assert_eq!(add(b.as_bytes(), a.as_bytes()).as_deref(), Ok(sum), "{b} + {a}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", ".", "-", "e5", "1e", "1 ", " 1", "1.2.3", "0x", "nan", "1e+", "--1"] {
            assert_eq!(add(text.as_bytes(), b"1"), Err(Refusal::NotAFloat), "{text}");
        }
        for text in ["inf", "-INF", "infinity", "1e5000", "9e4933"] {
            assert_eq!(add(text.as_bytes(), b"1"), Err(Refusal::NotFinite), "{text}");
        }
        assert!(add(b"1e4932", b"1").is_ok());
        let long = vec![b'1'; 6000];
        assert_eq!(add(&long, b"1"), Err(Refusal::NotAFloat));
    }
}
