//! Types and text formats (*forms*) of the columns of comma-separated values. A form is only chosen
//! if each value is restored to the same text.
//!
//! A column has a form if each of its values has it: `00501` is not an integer, `1.50` is a decimal with two
//! digits beside `2.25` and text beside `2.5`, and a column of times with different offsets is text. If the
//! form is not the usual one, the field's metadata contains it for the writer of CSV.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Date32Type, Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, NullArray, PrimitiveArray, StringArray};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::parse::Parser;
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};

use crate::types::has_leap_second;

/// Key of a field's metadata for the form of its values; absent for the usual form.
const FORM: &str = "overside.csv.form";
/// Precision of inferred decimals.
const DIGITS: u8 = 38;
/// Number of decimal digits that a 64-bit float always preserves.
const FLOAT_DIGITS: usize = 15;
/// Units of times, by the number of digits of their fractions.
const UNITS: [(u8, TimeUnit); 4] = [
    (0, TimeUnit::Second),
    (3, TimeUnit::Millisecond),
    (6, TimeUnit::Microsecond),
    (9, TimeUnit::Nanosecond),
];

/// Form of floats in which whole numbers have no point: `1` for `1.0`.
const SHORT: &str = "short";

/// Text format of a time such as `2018-08-01T12:00:00.250+02:00`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeLayout {
    separator: char,
    /// Number of digits of the fraction: 0, 3, 6 or 9.
    digits: u8,
    /// `true` if each value has as few digits as it needs, `false` if all have the same number.
    is_least: bool,
    /// Time zone: empty, `Z` or an offset.
    zone: String,
}

/// Type, and the text format of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Boolean,
    Integer,
    /// Floats; `true` if whole numbers have no point.
    Float(bool),
    Decimal(i8),
    Date,
    Time(TimeLayout),
    /// Type that the user named.
    Named(DataType),
}

/// Parsed time: the instant, and its text format.
struct TimeText<'a> {
    separator: u8,
    /// Seconds since 1970: in UTC, or local ones if there is no zone.
    seconds: i64,
    fraction: i64,
    /// Number of digits of the fraction.
    digits: u8,
    /// Time zone: empty, `Z` or an offset.
    zone: &'a str,
}

impl<'a> TimeText<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let bytes = text.as_bytes();
        let two = |at: usize| match bytes.get(at..at + 2) {
            Some([tens @ b'0'..=b'9', ones @ b'0'..=b'9']) => {
                Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
            }
            _ => None,
        };
        let is_mark =
            |at: usize, marks: &[u8]| bytes.get(at).is_some_and(|byte| marks.contains(byte));
        if !is_mark(10, b"T ") || !is_mark(13, b":") || !is_mark(16, b":") {
            return None;
        }
        let (hours, minutes, seconds) = (two(11)?, two(14)?, two(17)?);
        if hours > 23 || minutes > 59 || seconds > 59 {
            return None;
        }
        let fraction = match is_mark(19, b".") {
            true => bytes[20..].iter().take_while(|byte| byte.is_ascii_digit()).count(),
            false => 0,
        };
        let end = match (is_mark(19, b"."), fraction) {
            (false, _) => 19,
            (true, 3 | 6 | 9) => 20 + fraction,
            _ => return None,
        };
        let zone = text.get(end..)?;
        let offset = match zone.as_bytes() {
            [] | [b'Z'] => 0,
            [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
                let (hours, minutes) = (two(end + 1)?, two(end + 4)?);
                if hours > 23 || minutes > 59 || zone == "-00:00" {
                    return None;
                }
                let offset = 3600 * hours + 60 * minutes;
                if *sign == b'-' { -offset } else { offset }
            }
            _ => return None,
        };
        let days = i64::from(date(text.get(..10)?)?);
        Some(Self {
            separator: bytes[10],
            seconds: 86_400 * days + 3600 * hours + 60 * minutes + seconds - offset,
            fraction: bytes[end - fraction..end]
                .iter()
                .fold(0, |sum, digit| 10 * sum + i64::from(digit - b'0')),
            digits: fraction as u8,
            zone,
        })
    }

    /// Returns `true` if the fraction has as few groups of three digits as it needs.
    fn is_least(&self) -> bool {
        self.digits == 0 || self.fraction % 1000 != 0
    }

    /// Returns the instant in the unit with that number of digits.
    fn value(&self, digits: u8) -> Option<i64> {
        let fraction = self.fraction * 10_i64.pow((digits - self.digits).into());
        self.seconds.checked_mul(10_i64.pow(digits.into()))?.checked_add(fraction)
    }
}

impl TimeLayout {
    fn of(text: &str, is_least: bool) -> Option<Self> {
        let time = TimeText::of(text)?;
        let layout = Self {
            separator: char::from(time.separator),
            digits: time.digits,
            is_least,
            zone: time.zone.to_owned(),
        };
        layout.value(text).map(|_| layout)
    }

    /// Parses a text in this layout to a number in the unit of the layout.
    fn value(&self, text: &str) -> Option<i64> {
        let time = TimeText::of(text)?;
        let has_fraction = match self.is_least {
            true => time.digits <= self.digits && time.is_least(),
            false => time.digits == self.digits,
        };
        let is_such = char::from(time.separator) == self.separator && time.zone == self.zone;
        (is_such && has_fraction).then(|| time.value(self.digits))?
    }

    fn kind(&self) -> DataType {
        let unit = UNITS.iter().find(|(digits, _)| *digits == self.digits);
        let zone = match self.zone.as_str() {
            "" => None,
            "Z" => Some("UTC".into()),
            offset => Some(offset.into()),
        };
        DataType::Timestamp(unit.map_or(TimeUnit::Second, |(_, unit)| *unit), zone)
    }

    /// Returns the layout for `chrono`; `None` if it is that of Arrow's writer.
    fn pattern(&self) -> Option<String> {
        let (separator, digits) = (self.separator, self.digits);
        let zone = match self.zone.as_str() {
            "" | "Z" => self.zone.as_str(),
            _ => "%:z",
        };
        let fraction = match self.is_least {
            true => "%.f".to_owned(),
            false => format!("%.{digits}f"),
        };
        let is_usual = separator == 'T' && self.is_least && zone != "%:z";
        (!is_usual).then(|| format!("%Y-%m-%d{separator}%H:%M:%S{fraction}{zone}"))
    }
}

impl Form {
    /// Returns the possible forms of a value, the best first.
    pub(super) fn all_of(text: &str) -> Vec<Self> {
        let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let mut forms = vec![Self::Boolean, Self::Integer];
        forms.extend([false, true].map(Self::Float));
        forms.extend([Self::Decimal(scale.min(DIGITS.into()) as i8), Self::Date]);
        let layouts =
            [true, false].into_iter().filter_map(|is_least| TimeLayout::of(text, is_least));
        forms.extend(layouts.map(Self::Time));
        forms.retain(|form| form.has(text));
        forms
    }

    /// Returns the form of a column with this form after adding the value; `None` if there is none.
    pub(super) fn with(mut self, text: &str) -> Option<Self> {
        if let (Self::Time(layout), Some(time)) = (&mut self, TimeText::of(text))
            && layout.is_least
        {
            layout.digits = layout.digits.max(time.digits);
        }
        self.has(text).then_some(self)
    }

    fn has(&self, text: &str) -> bool {
        match self {
            Self::Boolean => matches!(text, "true" | "false"),
            Self::Integer => integer(text).is_some(),
            Self::Float(is_short) => float(text, *is_short).is_some(),
            Self::Decimal(scale) => decimal(text, *scale).is_some(),
            Self::Date => date(text).is_some(),
            Self::Time(layout) => layout.value(text).is_some(),
            Self::Text | Self::Named(_) => true,
        }
    }

    /// Returns the field of a column of that name.
    pub(super) fn field(&self, name: &str) -> Field {
        let (kind, form) = match self {
            Self::Text => (DataType::Utf8, None),
            Self::Boolean => (DataType::Boolean, None),
            Self::Integer => (DataType::Int64, None),
            Self::Float(is_short) => (DataType::Float64, is_short.then(|| SHORT.to_owned())),
            Self::Decimal(scale) => (DataType::Decimal128(DIGITS, *scale), None),
            Self::Date => (DataType::Date32, None),
            Self::Time(layout) => (layout.kind(), layout.pattern()),
            Self::Named(kind) => (kind.clone(), None),
        };
        let form = form.map(|form| (FORM.to_owned(), form));
        Field::new(name, kind, true).with_metadata(form.into_iter().collect())
    }

    /// Parses the values of a column. The error is the index of a row whose value does not have the form.
    pub(super) fn parse(&self, array: &ArrayRef) -> Result<ArrayRef, usize> {
        let text = array.as_string::<i32>();
        Ok(match self {
            Self::Text => ArrayRef::clone(array),
            Self::Boolean => {
                match text.iter().position(|text| text.is_some_and(|text| !self.has(text))) {
                    Some(row) => return Err(row),
                    None => Arc::new(
                        text.iter()
                            .map(|text| text.map(|text| text == "true"))
                            .collect::<BooleanArray>(),
                    ),
                }
            }
            Self::Integer => Arc::new(values::<Int64Type>(text, integer)?),
            Self::Float(is_short) => {
                Arc::new(values::<Float64Type>(text, |text| float(text, *is_short))?)
            }
            Self::Decimal(scale) => {
                let values = values::<Decimal128Type>(text, |text| decimal(text, *scale))?;
                Arc::new(values.with_precision_and_scale(DIGITS, *scale).map_err(|_| 0_usize)?)
            }
            Self::Date => Arc::new(values::<Date32Type>(text, date)?),
            Self::Time(layout) => {
                let times = values::<Int64Type>(text, |text| layout.value(text))?;
                cast(&times, &layout.kind()).map_err(|_| 0_usize)?
            }
            Self::Named(DataType::Null) => Arc::new(NullArray::new(array.len())),
            Self::Named(kind) => {
                let cut = |text: &str| !is_kept(text, kind);
                if let Some(row) = text.iter().position(|text| text.is_some_and(cut)) {
                    return Err(row);
                }
                let cast = cast(array, kind).map_err(|_| 0_usize)?;
                match (0..array.len()).find(|row| array.is_valid(*row) && cast.is_null(*row)) {
                    Some(row) => return Err(row),
                    None => cast,
                }
            }
        })
    }
}

fn values<T: ArrowPrimitiveType>(
    text: &StringArray,
    value: impl Fn(&str) -> Option<T::Native>,
) -> Result<PrimitiveArray<T>, usize> {
    let mut values = Vec::with_capacity(text.len());
    for (row, text) in text.iter().enumerate() {
        let value = text.map(|text| value(text).ok_or(row)).transpose()?;
        values.push(value.unwrap_or_default());
    }
    Ok(PrimitiveArray::new(values.into(), text.nulls().cloned()))
}

/// Returns `true` if Arrow's cast to the type that the user named loses nothing of the value.
fn is_kept(text: &str, kind: &DataType) -> bool {
    let fraction = text.rsplit_once('.').map_or("", |(_, fraction)| fraction);
    let end = fraction.find(|letter: char| !letter.is_ascii_digit());
    let fraction = fraction[..end.unwrap_or(fraction.len())].trim_end_matches('0');
    let time = text.get(10..).unwrap_or_default();
    let has_offset = time.contains(['+', '-']) || time.ends_with(['Z', 'z']);
    match kind {
        DataType::Decimal128(_, scale) => fraction.len() <= usize::from(scale.unsigned_abs()),
        DataType::Date32 => !text.contains(':'),
        DataType::Timestamp(_, None) if has_offset => false,
        DataType::Timestamp(unit, _) | DataType::Time64(unit) => {
            let digits = UNITS.iter().find(|(_, one)| one == unit);
            let has_room = digits.is_some_and(|(digits, _)| fraction.len() <= usize::from(*digits));
            has_room && !has_leap_second(text)
        }
        _ => true,
    }
}

/// A number without an exponent and without zeros in front of it.
struct Plain {
    is_negative: bool,
    /// Digits without the point.
    digits: u64,
    /// Number of the digits.
    count: usize,
    /// Number of the digits behind the point; `None` without a point.
    fraction: Option<usize>,
}

/// Most digits of [`Plain`].
const PLAIN_DIGITS: usize = 18;
const POWERS: [u64; PLAIN_DIGITS + 1] = {
    let mut powers = [1; PLAIN_DIGITS + 1];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = 10 * powers[at - 1];
        at += 1;
    }
    powers
};

impl Plain {
    fn of(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let is_negative = bytes.first() == Some(&b'-');
        let number = &bytes[usize::from(is_negative)..];
        if number.len() > PLAIN_DIGITS {
            return None;
        }
        let (mut digits, mut point) = (0, None);
        for (at, byte) in number.iter().enumerate() {
            match byte {
                b'0'..=b'9' => digits = 10 * digits + u64::from(byte - b'0'),
                b'.' if point.is_none() => point = Some(at),
                _ => return None,
            }
        }
        let whole = point.unwrap_or(number.len());
        (whole == 1 || (whole > 1 && number[0] != b'0')).then_some(Self {
            is_negative,
            digits,
            count: number.len() - usize::from(point.is_some()),
            fraction: point.map(|point| number.len() - point - 1),
        })
    }
}

/// `true` for digits of a whole number without zeros in front of it.
fn is_whole(digits: &str) -> bool {
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    !digits.is_empty() && are_digits && (digits.len() == 1 || !digits.starts_with('0'))
}

fn integer(text: &str) -> Option<i64> {
    if let Some(plain) = Plain::of(text) {
        let value = plain.digits as i64;
        let value = if plain.is_negative { -value } else { value };
        return (plain.fraction.is_none() && (value != 0 || !plain.is_negative)).then_some(value);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    is_whole(digits).then(|| text.parse().ok())?
}

fn decimal(text: &str, scale: i8) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = is_whole(whole) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let is_such = fraction.len() == scale as usize && digits.contains('.') == (scale > 0);
    if !is_number || !is_such || whole.len() + fraction.len() > DIGITS.into() {
        return None;
    }
    let value = match Plain::of(text) {
        Some(plain) => plain.digits.into(),
        None => (whole.bytes().chain(fraction.bytes()))
            .fold(0, |sum, digit| 10 * sum + i128::from(digit - b'0')),
    };
    match text.starts_with('-') {
        true => (value != 0).then_some(-value),
        false => Some(value),
    }
}

/// Days since 1970 of a date such as 2018-08-01.
fn date(text: &str) -> Option<i32> {
    let is_such = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    let has_layout = text.len() == 10 && text.bytes().enumerate().all(is_such);
    has_layout.then(|| Date32Type::parse(text))?
}

/// Parses a float if it would be written as the same text.
fn float(text: &str, is_short: bool) -> Option<f64> {
    // Numbers of so few digits are all different floats, so that the digits come back: what is left is their layout. The
    // digits and the power of ten are floats without rounding, and so their quotient is the nearest float.
    if let Some(plain) = Plain::of(text)
        && plain.count <= FLOAT_DIGITS
        && (plain.digits == 0 || plain.count < 5 || plain.digits >= POWERS[plain.count - 5])
    {
        let has_layout = match plain.fraction {
            None => is_short,
            Some(0) => false,
            Some(1) if plain.digits % 10 == 0 => !is_short,
            Some(_) => plain.digits % 10 != 0,
        };
        let value = plain.digits as f64 / POWERS[plain.fraction.unwrap_or(0)] as f64;
        return has_layout.then_some(if plain.is_negative { -value } else { value });
    }
    let value = text.parse().ok()?;
    let mut buffer = ryu::Buffer::new();
    (written(value, is_short, &mut buffer) == text).then_some(value)
}

fn written(value: f64, is_short: bool, buffer: &mut ryu::Buffer) -> &str {
    let text = buffer.format(value);
    match is_short {
        true => text.strip_suffix(".0").unwrap_or(text),
        false => text,
    }
}

/// Returns the column as text in the form of its field; `None` if that is the usual form.
pub(crate) fn as_text(field: &Field, array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    let Some(form) = field.metadata().get(FORM) else {
        return Ok(None);
    };
    let mut text = Vec::with_capacity(array.len());
    match array.data_type() {
        DataType::Float64 if form == SHORT => {
            let mut buffer = ryu::Buffer::new();
            for value in array.as_primitive::<Float64Type>() {
                text.push(value.map(|value| written(value, true, &mut buffer).to_owned()));
            }
        }
        DataType::Timestamp(..) if form.starts_with("%Y-") => {
            let form = Some(form.as_str());
            let options =
                FormatOptions::new().with_timestamp_format(form).with_timestamp_tz_format(form);
            let formatter = ArrayFormatter::try_new(array, &options)?;
            for row in 0..array.len() {
                let value = array.is_valid(row).then(|| formatter.value(row).try_to_string());
                text.push(value.transpose()?);
            }
        }
        _ => return Ok(None),
    }
    Ok(Some(Arc::new(StringArray::from(text))))
}
