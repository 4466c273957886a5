//! Description of commands, and their lookup by name.

mod call;

use super::batch::BatchHandler;
use super::reply::ErrorReply;

pub(super) use call::{CROSS_SLOT, Call};

/// Executes a command and writes its reply, unless it is refused.
pub(super) type DirectHandler = fn(&mut Call<'_>, &[&[u8]]) -> Result<(), ErrorReply>;

/// A command, or a subcommand of one.
#[derive(Debug)]
pub(super) struct Command {
    /// In small letters.
    pub(super) name: &'static str,
    /// Redis's name of the family.
    pub(super) group: &'static str,
    /// Arguments with the name; negative: at least so many.
    pub(super) arity: i32,
    /// Set of the constants in [`flags`].
    pub(super) flags: u16,
    /// First and last argument that is a key, the last one negative from the end, and the step between
    /// them.
    pub(super) keys: [i32; 3],
    pub(super) action: Action,
    /// Difference from Redis, in Markdown; may be empty.
    pub(super) difference: &'static str,
}

/// Way in which a command is executed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// The command becomes requests, which are executed with those of other commands.
    Requests(BatchHandler),
    /// The command becomes requests, which are executed with nothing in between.
    Transaction(BatchHandler),
    /// By itself.
    Direct(DirectHandler),
    /// By a subcommand.
    Subcommands(&'static [Command]),
    /// By a subcommand, or without one by itself.
    SubcommandsOr(&'static [Command], DirectHandler),
}

/// Flags of commands, as Redis reports them in `COMMAND`.
pub(super) mod flags {
    pub(in super::super) const WRITE: u16 = 1;
    pub(in super::super) const READONLY: u16 = 1 << 1;
    pub(in super::super) const DENYOOM: u16 = 1 << 2;
    pub(in super::super) const ADMIN: u16 = 1 << 3;
    pub(in super::super) const NOSCRIPT: u16 = 1 << 4;
    pub(in super::super) const LOADING: u16 = 1 << 5;
    pub(in super::super) const STALE: u16 = 1 << 6;
    pub(in super::super) const FAST: u16 = 1 << 7;
    pub(in super::super) const NO_AUTH: u16 = 1 << 8;
    pub(in super::super) const NO_MULTI: u16 = 1 << 9;
    /// Executed whatever state the client or the server is in.
    pub(in super::super) const ALWAYS: u16 = NOSCRIPT | LOADING | STALE;
    /// Executed inside `MULTI` too instead of being queued. Redis does not say so.
    pub(in super::super) const NOT_QUEUED: u16 = 1 << 10;

    /// Flags that Redis reports, with their names.
    pub(in super::super) const NAMES: [(u16, &str); 10] = [
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (NOSCRIPT, "noscript"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MULTI, "no_multi"),
    ];
}

impl Command {
    pub(super) const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Returns `true` if the command can have `arguments` arguments, its name included.
    #[inline]
    pub(super) fn accepts(&self, arguments: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        arguments == arity || (self.arity < 0 && arguments > arity)
    }

    /// Returns the row of the page of commands: name, arguments, keys, difference.
    pub(super) fn documented(&self, parent: Option<&Self>) -> String {
        let name = match parent {
            Some(parent) => format!("{} {}", parent.name, self.name),
            None => self.name.to_owned(),
        };
        let words = 1 + i32::from(parent.is_some());
        let arguments = match self.arity {
            ..0 => format!("{} or more", -self.arity - words),
            _ => (self.arity - words).to_string(),
        };
        let keys = match self.keys {
            [0, 0, 0] => "",
            [_, -1, 1] => "all",
            [_, -1, _] => "every other one",
            _ => "first",
        };
        let (name, difference) = (name.to_uppercase(), self.difference);
        format!("| `{name}` | {arguments} | {keys} | {difference} |\n")
    }

    pub(super) fn subcommands(&self) -> &'static [Command] {
        match self.action {
            Action::Subcommands(subcommands) | Action::SubcommandsOr(subcommands, _) => subcommands,
            _ => &[],
        }
    }

    pub(super) fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        let mut subcommands = self.subcommands().iter();
        subcommands.find(|s| s.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

const SLOTS: usize = 512;

/// A place of the index.
#[derive(Clone, Copy, Debug)]
struct Slot {
    folded: u64,
    /// One more than the command's place in the table; 0: empty.
    number: usize,
}

/// Commands by their names: open addressing, filled when this is compiled.
#[derive(Debug)]
pub(super) struct CommandTable {
    commands: &'static [Command],
    index: [Slot; SLOTS],
}

impl CommandTable {
    pub(super) const fn new(commands: &'static [Command]) -> Self {
        let empty = Slot {
            folded: 0,
            number: 0,
        };
        let mut index = [empty; SLOTS];
        let mut number = 1;
        while number <= commands.len() {
            let folded = fold(commands[number - 1].name.as_bytes());
            let mut at = home(folded);
            while index[at].number != 0 {
                at = (at + 1) % SLOTS;
            }
            index[at] = Slot { folded, number };
            number += 1;
        }
        Self { commands, index }
    }

    /// All commands.
    pub(super) fn commands(&self) -> &'static [Command] {
        self.commands
    }

    /// The command with this name, in whatever case.
    #[inline]
    pub(super) fn find(&self, name: &[u8]) -> Option<&'static Command> {
        let folded = fold(name);
        let mut at = home(folded);
        loop {
            let slot = &self.index[at];
            let command = self.commands.get(slot.number.checked_sub(1)?)?;
            let known = command.name.as_bytes();
            if slot.folded == folded
                && known.len() == name.len()
                && (name.len() <= FOLDED_LETTERS || known.eq_ignore_ascii_case(name))
            {
                return Some(command);
            }
            at = (at + 1) % SLOTS;
        }
    }

    /// The command, or subcommand, that these arguments are, if it can have so many.
    pub(super) fn resolve(&self, arguments: &[&[u8]]) -> Result<&'static Command, ErrorReply> {
        let command = self.find(arguments[0]).ok_or_else(|| unknown(arguments))?;
        if let ([_, name, ..], Action::Subcommands(_) | Action::SubcommandsOr(..)) =
            (arguments, command.action)
        {
            let subcommand = command
                .subcommand(name)
                .ok_or_else(|| unknown_subcommand(command, name))?;
            if !subcommand.accepts(arguments.len()) {
                let name = format!("{}|{}", command.name, subcommand.name);
                return Err(ErrorReply::wrong_arity(&name));
            }
            return Ok(subcommand);
        }
        if command.accepts(arguments.len()) {
            Ok(command)
        } else {
            Err(ErrorReply::wrong_arity(command.name))
        }
    }
}

/// Names of up to so many letters that fold to the same and are of one length are the same.
const FOLDED_LETTERS: usize = 8;

/// The letters at both ends of a name, small and capital ones alike.
#[inline]
const fn fold(name: &[u8]) -> u64 {
    // Clears the bit in which small and capital letters differ. What is no letter stays none.
    const CASE: u64 = 0xdfdf_dfdf_dfdf_dfdf;
    let len = name.len();
    let letters = if len >= 4 {
        let first = u32::from_le_bytes([name[0], name[1], name[2], name[3]]);
        let last = u32::from_le_bytes([name[len - 4], name[len - 3], name[len - 2], name[len - 1]]);
        (first as u64) | (last as u64) << 32
    } else if len > 0 {
        (name[0] as u64) | (name[len / 2] as u64) << 8 | (name[len - 1] as u64) << 16
    } else {
        0
    };
    letters & CASE
}

/// Returns the slot at which the search for a name begins.
#[inline]
const fn home(folded: u64) -> usize {
    // 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, section 6.4).
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.ilog2())) as usize
}

/// Returns the part of a client's text that Redis repeats in errors: at most `max` bytes, up to the
/// first zero byte.
fn repeat(text: &[u8], max: usize) -> &[u8] {
    let text = &text[..text.len().min(max)];
    text.split(|b| *b == 0).next().unwrap_or_default()
}

fn unknown(arguments: &[&[u8]]) -> ErrorReply {
    const MAX: usize = 128;
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(repeat(arguments[0], MAX));
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for argument in &arguments[1..] {
        let len = text.len() - start;
        if len >= MAX {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(repeat(argument, MAX - len));
        text.extend_from_slice(b"' ");
    }
    ErrorReply::from_bytes(text)
}

fn unknown_subcommand(command: &Command, name: &[u8]) -> ErrorReply {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(repeat(name, 128));
    text.extend_from_slice(b"'. Try ");
    text.extend_from_slice(command.name.to_ascii_uppercase().as_bytes());
    text.extend_from_slice(b" HELP.");
    ErrorReply::from_bytes(text)
}
