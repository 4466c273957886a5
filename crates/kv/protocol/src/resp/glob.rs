//! Patterns of `SCAN`, `KEYS` and `CONFIG GET`: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a literal
//! character.

use super::reply::ErrorReply;

/// Number of bytes of the longest pattern.
const PATTERN_MAX_BYTES: usize = 1 << 10;

/// Returns a client's pattern, or an error if it is too long to be matched with every key.
pub(super) fn pattern(bytes: &[u8]) -> Result<&[u8], ErrorReply> {
    match bytes.len() <= PATTERN_MAX_BYTES {
        true => Ok(bytes),
        false => Err(ErrorReply::new("ERR pattern is longer than 1024 bytes")),
    }
}

/// Returns `true` if the whole text matches. The time is at most proportional to the product of
/// both lengths: after a mismatch, only the last `*` is extended by one byte.
pub(super) fn matches(pattern: &[u8], text: &[u8], ignores_case: bool) -> bool {
    let (mut p, mut t) = (pattern, text);
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = p {
            star = Some((rest, t));
            p = rest;
            if p.is_empty() {
                return true;
            }
            continue;
        }
        match (t.split_first(), p.is_empty()) {
            (None, true) => return true,
            (Some((byte, rest)), false) => {
                if let Some(after) = match_one(p, *byte, ignores_case) {
                    (p, t) = (after, rest);
                    continue;
                }
            }
            _ => {}
        }
        match star {
            Some((after_star, [_, longer @ ..])) => {
                star = Some((after_star, longer));
                (p, t) = (after_star, longer);
            }
            _ => return false,
        }
    }
}

/// Matches a byte with the front of a pattern that is not empty. Returns the rest of the pattern.
fn match_one(pattern: &[u8], byte: u8, ignores_case: bool) -> Option<&[u8]> {
    let fold = |byte: u8| {
        if ignores_case { byte.to_ascii_lowercase() } else { byte }
    };
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', class @ ..] => match_class(class, byte, fold),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => {
            (fold(*literal) == fold(byte)).then_some(rest)
        }
        [] => None,
    }
}

/// Matches a class without its opening bracket. As in Redis, the closing one may be missing.
fn match_class(class: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> Option<&[u8]> {
    let (is_negated, mut class) = match class.strip_prefix(b"^") {
        Some(class) => (true, class),
        None => (false, class),
    };
    let byte = fold(byte);
    let mut is_in = false;
    loop {
        class = match class {
            [] => break,
            [b']', rest @ ..] => {
                class = rest;
                break;
            }
            [b'\\', literal, rest @ ..] => {
                is_in |= *literal == byte;
                rest
            }
            [first, b'-', last, rest @ ..] => {
                let (low, high) = (fold(*first.min(last)), fold(*first.max(last)));
                is_in |= (low..=high).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                is_in |= fold(*literal) == byte;
                rest
            }
        };
    }
    (is_in != is_negated).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        let cases = [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1b2b3", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            (r"\*a", "*a", true),
            (r"\*a", "ba", false),
            (r"[\]]", "]", true),
            ("[abc", "b", true),
            ("key:**:x", "key:1:x", true),
            ("A", "a", false),
        ];
        for (pattern, text, expected) in cases {
            let matched = matches(pattern.as_bytes(), text.as_bytes(), false);
            assert_eq!(matched, expected, "{pattern} {text}");
        }
        assert!(matches(b"MAX*", b"maxmemory", true));
    }

    #[test]
    fn patterns_of_many_stars_end_soon() {
        let pattern = b"a*".repeat(10_000);
        let text = vec![b'a'; 9_999];
        assert!(!matches(&[pattern.as_slice(), b"b"].concat(), &text, false));
    }
}
