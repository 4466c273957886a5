//! Patterns with their groups, in a form that means the same to every engine.

use regex_syntax::hir::{Hir, HirKind};

use super::pattern::{Node, parse_hir, refused, write_times};
use crate::Error;

/// Maximum number of groups of a set, including one for each pattern.
pub(super) const MAX_GROUPS: usize = 255;

/// Patterns as the alternatives of one expression, in order.
#[derive(Clone, Debug)]
pub(super) struct Grouped {
    /// Expression that the engines get. In it, `^` and `$` match the ends of lines.
    pub(super) expression: String,
    /// Groups of the expression that belong to each pattern: first the one for the whole pattern,
    /// then the pattern's own groups.
    pub(super) patterns: Vec<std::ops::Range<usize>>,
    source: String,
}

impl Grouped {
    /// # Errors
    /// [`Error::Pattern`], [`Error::NoPattern`].
    pub(super) fn parse(sources: &[String]) -> Result<Self, Error> {
        let first = sources.first().ok_or(Error::NoPattern)?;
        let mut expressions = Vec::new();
        let mut patterns = Vec::new();
        // A single pattern needs no group: it is the whole match.
        let mut group = usize::from(sources.len() > 1);
        for source in sources {
            let (mut expression, mut groups) = (String::new(), 0);
            parse_hir(source)
                .and_then(|hir| write(&hir, &mut expression, &mut groups))
                .map_err(|reason| refused(source, reason))?;
            patterns.push(group..group + 1 + groups);
            group += 1 + groups;
            if group > MAX_GROUPS {
                let reason = format!("with it there are more than {MAX_GROUPS} groups");
                return Err(refused(source, reason));
            }
            expressions.push(expression);
        }
        let expression = match expressions.as_slice() {
            [one] => one.clone(),
            more => format!("({})", more.join(")|(")),
        };
        Ok(Self { expression, patterns, source: first.clone() })
    }

    /// Returns the number of groups of the expression, including the whole match.
    pub(super) fn groups(&self) -> usize {
        self.patterns.last().map_or(1, |last| last.end)
    }

    /// Returns the error for a set that an engine refuses.
    pub(super) fn refused(&self, reason: String) -> Error {
        refused(&self.source, reason)
    }
}

/// Appends the expression in the syntax that the engines share, and counts its groups.
fn write(hir: &Hir, out: &mut String, groups: &mut usize) -> Result<(), String> {
    match hir.kind() {
        HirKind::Capture(capture) => {
            *groups += 1;
            if capture.index as usize != *groups {
                return Err("it has a group that can take no part".into());
            }
            out.push('(');
            write(&capture.sub, out, groups)?;
            out.push(')');
        }
        HirKind::Repetition(repetition) => {
            out.push_str("(?:");
            write(&repetition.sub, out, groups)?;
            out.push(')');
            write_times(repetition.min, repetition.max, out);
            if !repetition.greedy {
                out.push('?');
            }
        }
        HirKind::Concat(parts) => {
            for part in parts {
                write(part, out, groups)?;
            }
        }
        HirKind::Alternation(parts) => {
            out.push_str("(?:");
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    out.push('|');
                }
                write(part, out, groups)?;
            }
            out.push(')');
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => {
            Node::from_hir(hir)?.write(out);
        }
    }
    Ok(())
}
