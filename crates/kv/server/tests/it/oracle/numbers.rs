//! Numbers that are kept as text.

use overside_kv::Refusal;
use overside_kv_store::parse_double;

/// Parses a signed number as Redis does: no plus sign, no leading zero, no -0.
pub(super) fn signed(text: &[u8]) -> Option<i64> {
    let number: i64 = str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

pub(super) fn unsigned(text: &[u8]) -> Option<u64> {
    let is_decimal = text.len() <= 20 && text.iter().all(u8::is_ascii_digit);
    let text = str::from_utf8(text).ok().filter(|_| is_decimal)?;
    text.parse().ok()
}

const FRACTION_DIGITS: usize = 17;

/// Parses a fraction in units of 10^-17, without rounding; tests use no longer ones.
pub(super) fn fixed_point(text: &[u8]) -> Result<i128, Refusal> {
    let text = str::from_utf8(text).map_err(|_| Refusal::NotAFloat)?;
    let letters = text.trim_start_matches(['+', '-']);
    if letters.eq_ignore_ascii_case("inf") {
        return Err(Refusal::NotFinite);
    }
    if letters.starts_with("0x") {
        let number = parse_double(text.as_bytes()).ok_or(Refusal::NotAFloat)?;
        return fixed_point(format!("{:.17}", number.value).as_bytes());
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().map_err(|_| Refusal::NotAFloat)?;
    let unsigned = mantissa.strip_prefix(['+', '-']).unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::NotAFloat);
    }
    let digits: i128 = digits.parse().map_err(|_| Refusal::NotAFloat)?;
    let shift = FRACTION_DIGITS as i32 - fraction.len() as i32 + exponent;
    // In these tests, a number below its unit is far below.
    let value = u32::try_from(shift).map_or(0, |shift| digits * 10_i128.pow(shift));
    let sign = if mantissa.starts_with('-') { -1 } else { 1 };
    Ok(sign * value)
}

pub(super) fn fixed_point_text(value: i128) -> String {
    let unit = 10_u128.pow(FRACTION_DIGITS as u32);
    let (whole, fraction) = (value.unsigned_abs() / unit, value.unsigned_abs() % unit);
    let text = format!("{whole}.{fraction:017}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{text}")
}
