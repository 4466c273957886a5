//! Patterns of `LIKE` and regular expressions, matched by the engines of `overside-ops`. These engines search
//! lines, so the values of a batch become lines of one buffer.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::DataType;
use overside_ops::{Config, Kernel, MatchKind, Operation, Prepared, prepare};
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
    ValueWithSpan,
};

use super::{refused, unsupported};
use crate::Error;

/// Maximum number of bytes of values that are matched at a time, unless one value is longer.
const BUFFER_BYTES: usize = 4 << 20;

/// Prepared pattern.
pub(super) struct Pattern {
    /// Pattern as the user wrote it, for messages.
    text: String,
    /// `true` for a pattern of `LIKE`, which treats a line break in a value like any other
    /// character.
    is_like: bool,
    /// `true` if values are compared in lower case.
    is_case_ignored: bool,
    prepared: Arc<Prepared>,
    kernel: Mutex<Option<Box<dyn Kernel>>>,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl Pattern {
    fn new(text: &str, regex: String, is_like: bool) -> Result<Self, Error> {
        let mut config = Config::new(Operation::Match(MatchKind::Bitmap));
        config.patterns = vec![regex];
        let prepared = prepare(&config);
        Ok(Self {
            text: text.to_owned(),
            is_like,
            is_case_ignored: false,
            prepared: prepared
                .map_err(|error| refused(format!("the pattern {text:?}: {error}")))?,
            kernel: Mutex::new(None),
        })
    }

    /// Prepares a pattern of `LIKE`, a text literal in which `%` is any text and `_` any character, unless a
    /// backslash or the chosen escape character precedes it.
    pub(super) fn like(
        pattern: &Expr,
        escape: Option<&ValueWithSpan>,
        is_case_ignored: bool,
    ) -> Result<Self, Error> {
        let text = literal(pattern)?;
        let escape = match escape.map(|escape| &escape.value) {
            None => Some('\\'),
            Some(Value::SingleQuotedString(one)) => {
                let mut letters = one.chars();
                let first = letters.next();
                if letters.next().is_some() {
                    return Err(refused(format!("ESCAPE {one:?} is more than one character")));
                }
                first
            }
            Some(other) => return Err(unsupported(&format!("ESCAPE {other}"))),
        };
        let folded: String;
        let (text, escape) = match is_case_ignored {
            true => {
                folded = text.chars().map(lower).collect();
                (folded.as_str(), escape.map(lower))
            }
            false => (text, escape),
        };
        let mut regex = String::from("^");
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                letter if Some(letter) == escape => match letters.next() {
                    Some(letter) => push_literal(letter, &mut regex),
                    None => {
                        return Err(refused(format!("{text:?} ends with its escape character")));
                    }
                },
                '%' => regex.push_str(".*"),
                '_' => regex.push_str(CHARACTER),
                letter => push_literal(letter, &mut regex),
            }
        }
        regex.push('$');
        let pattern = Self::new(text, regex, true)?;
        Ok(Self { is_case_ignored, ..pattern })
    }

    /// Prepares the pattern of `~`, `~*` and their negations; `None` for other operators.
    pub(super) fn operator(
        op: &BinaryOperator,
        right: &Expr,
    ) -> Result<Option<(Self, bool)>, Error> {
        use BinaryOperator as Op;
        let (is_case_ignored, negated) = match op {
            Op::PGRegexMatch => (false, false),
            Op::PGRegexIMatch => (true, false),
            Op::PGRegexNotMatch => (false, true),
            Op::PGRegexNotIMatch => (true, true),
            _ => return Ok(None),
        };
        let text = literal(right)?;
        let regex = match is_case_ignored {
            true => format!("(?i){text}"),
            false => text.to_owned(),
        };
        Ok(Some((Self::new(text, regex, false)?, negated)))
    }

    /// Prepares the pattern of `regexp_like(value, pattern)` and similar functions. Also returns the value.
    pub(super) fn function(function: &Function) -> Result<(&Expr, Self), Error> {
        let name = function.name.to_string().to_ascii_lowercase();
        let is_full = match name.as_str() {
            "regexp_like" | "regexp_matches" => false,
            "regexp_full_match" => true,
            _ => return Err(unsupported(&format!("{name}()"))),
        };
        let is_plain = function.over.is_none()
            && function.filter.is_none()
            && function.within_group.is_empty()
            && function.null_treatment.is_none();
        let FunctionArguments::List(list) = &function.args else {
            return Err(unsupported(&function.to_string()));
        };
        let argument = |at: usize| match list.args.get(at) {
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => Some(expr),
            _ => None,
        };
        match (argument(0), argument(1), list.args.len()) {
            (Some(value), Some(pattern), 2) if is_plain => {
                let text = literal(pattern)?;
                let regex = match is_full {
                    true => format!("^(?:{text})$"),
                    false => text.to_owned(),
                };
                Ok((value, Self::new(text, regex, false)?))
            }
            _ => Err(refused(format!("{name}() takes a value and a pattern"))),
        }
    }

    /// Returns for each value whether it contains the pattern; null where the value is null.
    pub(super) fn matches(&self, values: &ArrayRef) -> Result<BooleanArray, Error> {
        let rows = values.len();
        let value = |row: usize| -> &[u8] {
            match values.data_type() {
                _ if values.is_null(row) => &[],
                DataType::Utf8 => values.as_string::<i32>().value(row).as_bytes(),
                DataType::LargeUtf8 => values.as_string::<i64>().value(row).as_bytes(),
                _ => values.as_string_view().value(row).as_bytes(),
            }
        };
        let mut kernel = self.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let kernel = match &mut *kernel {
            Some(kernel) => kernel,
            none => none.insert(self.prepared.kernel()?),
        };
        let (mut bits, mut lines) = (Vec::with_capacity(rows), Vec::new());
        let mut begin = 0;
        while begin < rows {
            lines.clear();
            let mut end = begin;
            while end < rows && (end == begin || lines.len() + value(end).len() < BUFFER_BYTES) {
                self.push_line(value(end), &mut lines)?;
                end += 1;
            }
            let mut bitmap = vec![0; (end - begin).div_ceil(8)];
            kernel.run(&[&lines], &mut bitmap)?;
            let found = BooleanBuffer::new(Buffer::from_vec(bitmap), 0, end - begin);
            bits.extend(found.iter());
            begin = end;
        }
        Ok(BooleanArray::new(bits.into(), values.nulls().cloned()))
    }

    /// Appends a value as a line.
    fn push_line(&self, value: &[u8], lines: &mut Vec<u8>) -> Result<(), Error> {
        let begin = lines.len();
        match std::str::from_utf8(value) {
            Ok(text) if self.is_case_ignored => {
                lines.extend_from_slice(text.chars().map(lower).collect::<String>().as_bytes());
            }
            _ => lines.extend_from_slice(value),
        }
        for byte in &mut lines[begin..] {
            if *byte != b'\n' {
                continue;
            }
            // To `LIKE` it is a character like others, unless the pattern contains it.
            if !self.is_like
                || self.text.contains(['\n', LINE_BREAK])
                || value.contains(&(LINE_BREAK as u8))
            {
                return Err(refused(format!(
                    "the pattern {:?} meets a value with a line break, which is not supported",
                    self.text
                )));
            }
            *byte = LINE_BREAK as u8;
        }
        lines.push(b'\n');
        Ok(())
    }
}

/// Regular expression of one UTF-8 character, for engines that match bytes.
const CHARACTER: &str = r"[^\x80-\xbf][\x80-\xbf]*";

/// Returns a character in lower case, as DuckDB's `ILIKE` compares them: one to one, by Unicode's simple
/// mapping.
fn lower(letter: char) -> char {
    // For the only letter whose mapping has two characters, the first one is the simple mapping.
    letter.to_lowercase().next().unwrap_or(letter)
}

/// Character that replaces a line break within a value while it is matched.
const LINE_BREAK: char = '\u{1e}';

fn push_literal(letter: char, regex: &mut String) {
    if letter.is_ascii()
        && !letter.is_ascii_alphanumeric()
        && !letter.is_ascii_control()
        && letter != ' '
    {
        regex.push('\\');
    }
    regex.push(letter);
}

fn literal(pattern: &Expr) -> Result<&str, Error> {
    match pattern {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Ok(text),
            other => Err(unsupported(&format!("the pattern {other}"))),
        },
        Expr::Nested(pattern) => literal(pattern),
        other => Err(unsupported(&format!("the pattern {other}, which is no text"))),
    }
}
