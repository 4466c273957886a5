//! Splits an inline command into words, quoted as in Redis: `"..."` with escapes of C and `\xHH`,
//! `'...'` with `\'`. A quote ends its word.

/// Result of splitting a line into words.
#[derive(Debug)]
pub(super) enum Words {
    /// The words are parts of the line and have been appended.
    Plain,
    /// Words of a line with quotes.
    Quoted(Vec<Vec<u8>>),
    /// A quote is not closed, or another character follows the closing one.
    Unbalanced,
}

pub(super) fn split<'a>(line: &'a [u8], words: &mut Vec<&'a [u8]>) -> Words {
    if memchr::memchr2(b'"', b'\'', line).is_none() {
        words.extend(line.split(|b| is_space(*b)).filter(|word| !word.is_empty()));
        return Words::Plain;
    }
    unquote(line).map_or(Words::Unbalanced, Words::Quoted)
}

fn is_space(byte: u8) -> bool {
    // `isspace` of C also includes the vertical tab; in Redis a zero byte ends the line.
    byte.is_ascii_whitespace() || byte == 0x0b || byte == 0
}

fn unquote(mut line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    loop {
        let start = line.iter().position(|b| !is_space(*b));
        let Some(start) = start else {
            return Some(words);
        };
        line = &line[start..];
        let mut word = Vec::new();
        loop {
            match line.split_first() {
                None => break,
                Some((quote @ (b'"' | b'\''), rest)) => {
                    line = quoted(rest, *quote, &mut word)?;
                    if line.first().is_some_and(|b| !is_space(*b)) {
                        return None;
                    }
                    break;
                }
                Some((byte, _)) if is_space(*byte) => break,
                Some((byte, rest)) => {
                    word.push(*byte);
                    line = rest;
                }
            }
        }
        words.push(word);
    }
}

/// Appends the quoted text to `word`. Returns the rest of the line behind the closing quote.
fn quoted<'a>(mut rest: &'a [u8], quote: u8, word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        if byte == quote {
            return Some(rest);
        }
        if byte != b'\\' {
            word.push(byte);
            continue;
        }
        match (quote, rest) {
            (b'"', [b'x', high, low, after @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            (b'"', [escaped, after @ ..]) => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = after;
            }
            (_, [b'\'', after @ ..]) => {
                word.push(b'\'');
                rest = after;
            }
            _ => word.push(b'\\'),
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::{Words, split};

    fn words(line: &str) -> Option<Vec<String>> {
        let mut plain = Vec::new();
        let words = match split(line.as_bytes(), &mut plain) {
            Words::Plain => plain.into_iter().map(<[u8]>::to_vec).collect(),
            Words::Quoted(words) => words,
            Words::Unbalanced => return None,
        };
        let text = |word| String::from_utf8(word).unwrap();
        Some(words.into_iter().map(text).collect())
    }

    #[test]
    fn words_end_at_spaces_and_at_quotes() {
        assert_eq!(words("  set  a\tb ").unwrap(), ["set", "a", "b"]);
        assert_eq!(words(r#"set "a b" 'c d'"#).unwrap(), ["set", "a b", "c d"]);
        assert_eq!(words(r#"echo "\x41\n\"" '\'\n'"#).unwrap(), ["echo", "A\n\"", "'\\n"]);
        assert_eq!(words(r#"echo a"b c""#).unwrap(), ["echo", "ab c"]);
        assert_eq!(words(r#"echo """#).unwrap(), ["echo", ""]);
        assert_eq!(words(r#"echo "a"b"#), None);
        assert_eq!(words(r#"echo "a"#), None);
        assert_eq!(words(r#"echo 'a\'"#), None);
        assert_eq!(words(" ").unwrap(), Vec::<String>::new());
    }
}
