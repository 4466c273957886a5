//! Description of commands, and their lookup by name.

mod call;
mod routing;

use super::batch::BatchHandler;
use super::number::parse_i64;
use super::reply::ErrorReply;

pub(super) use call::Call;
pub(super) use routing::queued_keys;

/// Function that executes a command and writes its reply, unless the command is refused.
pub(super) type DirectHandler = fn(&mut Call<'_>, &[&[u8]]) -> CommandResult;
/// Result of such a command; its reply is written, unless it is this error.
pub(super) type CommandResult = Result<(), ErrorReply>;

/// Command or subcommand.
#[derive(Debug)]
pub(super) struct Command {
    /// Name in lower case.
    pub(super) name: &'static str,
    /// Name of the command's family in Redis.
    pub(super) group: &'static str,
    /// Number of arguments including the name; a negative number is a minimum.
    pub(super) arity: i32,
    /// Set of the constants in [`flags`].
    pub(super) flags: u16,
    /// Indices of the first and of the last argument that is a key (a negative one counts from the
    /// end), and the step between keys.
    pub(super) keys: [i32; 3],
    pub(super) action: Action,
    /// Difference from Redis, in Markdown; may be empty.
    pub(super) difference: &'static str,
}

/// Way in which a command is executed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// Translation to requests, which are executed with those of other commands.
    Requests(BatchHandler),
    /// Translation to requests, which are executed as one transaction.
    Transaction(BatchHandler),
    /// Function that executes the command.
    Direct(DirectHandler),
    /// Subcommands, one of which must be given.
    Subcommands(&'static [Command]),
    /// Subcommands, and a function that executes the command if none is given.
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
    /// Flags of commands that are executed in every state of the client and the server.
    pub(in super::super) const ALWAYS: u16 = NOSCRIPT | LOADING | STALE;
    /// Flag of commands that are executed inside `MULTI` instead of being queued. `COMMAND` of
    /// Redis does not report it.
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

    /// Returns `true` if the command accepts this number of arguments, including its name.
    #[inline]
    pub(super) fn accepts(&self, arguments: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        arguments == arity || (self.arity < 0 && arguments > arity)
    }

    /// Returns the arguments that are keys.
    pub(super) fn keys_of<'a>(&self, arguments: &[&'a [u8]]) -> Vec<&'a [u8]> {
        if self.name == "sintercard" {
            // Their number comes before them; `COMMAND` says that there are none, as Redis does.
            let count = arguments.get(1).and_then(|count| parse_i64(count)).unwrap_or(0).max(0);
            let keys = arguments.get(2..).unwrap_or_default().iter();
            return keys.take(count as usize).copied().collect();
        }
        let [first, last, step] = self.keys;
        let last = match last {
            // The index counts from the end.
            ..0 => arguments.len() as i32 + last,
            _ => last,
        };
        let (Ok(first @ 1..), Ok(step @ 1..)) = (usize::try_from(first), usize::try_from(step))
        else {
            return Vec::new();
        };
        let places = (first..arguments.len().min(last.max(0) as usize + 1)).step_by(step);
        places.map(|place| arguments[place]).collect()
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

/// Slot of the hash index.
#[derive(Clone, Copy, Debug)]
struct Slot {
    folded: u64,
    /// Index of the command in the table plus one; 0 if the slot is empty.
    number: usize,
}

/// Commands with a hash index by name: open addressing, built at compile time.
#[derive(Debug)]
pub(super) struct CommandTable {
    commands: &'static [Command],
    index: [Slot; SLOTS],
}

impl CommandTable {
    pub(super) const fn new(commands: &'static [Command]) -> Self {
        let empty = Slot { folded: 0, number: 0 };
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

    /// Returns all commands.
    pub(super) fn commands(&self) -> &'static [Command] {
        self.commands
    }

    /// Returns the command with this name, in any case.
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

    /// Returns the command or subcommand that the arguments name, if it accepts their number.
    pub(super) fn resolve(&self, arguments: &[&[u8]]) -> Result<&'static Command, ErrorReply> {
        let command = self.find(arguments[0]).ok_or_else(|| unknown(arguments))?;
        if let ([_, name, ..], Action::Subcommands(_) | Action::SubcommandsOr(..)) =
            (arguments, command.action)
        {
            let subcommand =
                command.subcommand(name).ok_or_else(|| unknown_subcommand(command, name))?;
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

/// Number of letters that distinguish names: shorter ones of equal length are equal if they fold to
/// the same number.
const FOLDED_LETTERS: usize = 8;

/// Folds the letters at both ends of a name into a number, ignoring their case.
#[inline]
const fn fold(name: &[u8]) -> u64 {
    // Clears the bit of lower case. Other bytes do not become letters.
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
