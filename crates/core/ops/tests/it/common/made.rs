//! Patterns made from arbitrary bytes. Arbitrary bytes taken as a pattern are hardly ever valid,
//! and the valid ones hardly ever match a text.

/// Letters of patterns and texts: few, so that patterns match often.
const LETTERS: &[u8; 16] = b"aaabbc01_ -.A\tx\n";
/// Maximum nesting of groups; `PARTS_MAX` is the maximum number of parts of a pattern.
const DEPTH_MAX: usize = 5;
const PARTS_MAX: usize = 40;
/// Maximum number of patterns of a set.
const PATTERNS_MAX: usize = 4;

/// Reader that takes bytes off the front; it returns 0 when none are left.
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
    parts: usize,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest, parts: 0 }
    }

    pub(super) fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else {
            return 0;
        };
        self.rest = rest;
        *first
    }

    pub(super) fn patterns(&mut self) -> Vec<String> {
        let count = 1 + usize::from(self.next()) % PATTERNS_MAX;
        (0..count)
            .map(|_| {
                let mut pattern = String::new();
                self.parts = 0;
                self.either(&mut pattern, 0);
                pattern
            })
            .collect()
    }

    /// Returns all remaining bytes as text.
    pub(super) fn text(&self) -> Vec<u8> {
        let letter = |byte: &u8| match byte {
            // A few bytes become something else than letters.
            0xf0.. => *byte,
            byte => LETTERS[usize::from(byte % 16)],
        };
        self.rest.iter().map(letter).collect()
    }

    /// Writes parts one after the other, and alternatives to them, up to a byte that ends them.
    fn either(&mut self, pattern: &mut String, depth: usize) {
        while !self.rest.is_empty() && self.parts < PARTS_MAX {
            self.parts += 1;
            let byte = self.next();
            let low = usize::from(byte & 15);
            match byte >> 4 {
                0..=4 => pattern.push_str(&escaped(LETTERS[low])),
                5 => pattern.push_str(
                    [r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", ".", r"\x80", r"(?s:.)", r"\xff"]
                        [low % 10],
                ),
                6 => self.class(pattern, low),
                7 => pattern.push_str([r"\b", r"\B", "^", "$", r"\A", r"\z", ""][low % 7]),
                8 | 9 if depth < DEPTH_MAX => {
                    pattern.push_str(["(", "(?:", "(?i:", "(?U:"][low % 4]);
                    self.either(pattern, depth + 1);
                    pattern.push(')');
                    self.repeat(pattern);
                }
                0xa | 0xb => pattern.push('|'),
                0xc | 0xd => {
                    pattern.push_str(&escaped(LETTERS[low]));
                    self.repeat(pattern);
                }
                _ => return,
            }
        }
    }

    fn class(&mut self, pattern: &mut String, low: usize) {
        pattern.push_str(if low & 1 == 1 { "[^" } else { "[" });
        pattern.push_str(
            ["a-c", "0-9_", r"\w", "abx", r"\x00-\x20", r"A\-", r"\S\n", r"\x80-\xff"][low >> 1],
        );
        pattern.push(']');
        self.repeat(pattern);
    }

    fn repeat(&mut self, pattern: &mut String) {
        let how = ["", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?", "{0}"];
        pattern.push_str(how[usize::from(self.next()) % how.len()]);
    }
}

fn escaped(letter: u8) -> String {
    format!("\\x{letter:02x}")
}
