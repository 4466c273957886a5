//! Table of commands. Names, arities, flags and keys are those of Redis 7.0.
//!
//! ```text
//!   group { "name" ARITY KEYS [FLAGS] (HANDLER) "difference from Redis"; }
//! ```
//!
//! | handler | execution of the command |
//! |---|---|
//! | `key \|a\| OPERATION => REPLY` | a request for its first argument; `a` are all arguments, including the name |
//! | `keys OPERATION => REPLY` | a request for each argument |
//! | `requests FUNCTION` | the requests that the function adds to a batch |
//! | `transaction FUNCTION` | the same, as one transaction |
//! | `direct FUNCTION` | the function, without requests |
//! | `subcommands TABLE` | a row of another table, or the function after `or` |
//!
//! `COMMAND` and the [page of commands](documented_commands) are generated from this table.

use super::batch::{ReplyKind, integer};
use super::command::{Action, Command, CommandTable, flags};
use super::expiry::TimeUnit;
use super::members::Count;
use super::sets::Combination::{Difference, Intersection, Union};
use super::sorted_sets::{By, range, whole};
use super::{
    clients, cluster, connection, hashes, introspection, keys, keyspace, members, replication,
    server, sets, sorted_sets, strings, transactions,
};
use overside_kv_store::{Condition, Expiry, Operation, Popped, SetOptions, ValueKind};

/// Keys of a command without keys.
const NONE: [i32; 3] = [0, 0, 0];
/// The first argument is the only key.
const ONE: [i32; 3] = [1, 1, 1];
/// The second argument is the only key, behind the name of a subcommand.
const SECOND: [i32; 3] = [2, 2, 1];
/// The first two arguments are the keys.
const FIRST_TWO: [i32; 3] = [1, 2, 1];
/// All arguments are keys.
const ALL: [i32; 3] = [1, -1, 1];
/// Every other argument is a key, from the first one on.
const PAIRS: [i32; 3] = [1, -1, 2];

macro_rules! commands {
    ($($group:literal { $(
        $name:literal $arity:literal $keys:ident [$($flag:ident)*] ($($handler:tt)+) $($difference:literal)?;
    )* })*) => {
        &[$($(Command {
            name: $name,
            group: $group,
            arity: $arity,
            flags: 0 $(| flags::$flag)*,
            keys: $keys,
            action: action!($($handler)+),
            difference: concat!($($difference)?),
        }),*),*]
    };
}

macro_rules! action {
    (key |$arguments:ident| $operation:expr => $kind:ident $({ $($field:tt)* })?) => {
        Action::Requests(|batch, $arguments| {
            batch.request($arguments[1], $operation)?;
            Ok(ReplyKind::$kind $({ $($field)* })?)
        })
    };
    (keys $operation:expr => $kind:ident) => {
        Action::Requests(|batch, arguments| {
            for key in &arguments[1..] {
                batch.request(key, $operation)?;
            }
            Ok(ReplyKind::$kind)
        })
    };
    (requests $handler:expr) => { Action::Requests($handler) };
    (transaction $handler:expr) => { Action::Transaction($handler) };
    (direct $handler:expr) => { Action::Direct($handler) };
    (subcommands $table:ident) => { Action::Subcommands($table) };
    (subcommands $table:ident or $handler:expr) => { Action::SubcommandsOr($table, $handler) };
}

/// All commands, indexed by name.
pub(super) static TABLE: CommandTable = CommandTable::new(COMMANDS);

const COMMANDS: &[Command] = commands! {
    "string" {
        "append" 3 ONE [WRITE DENYOOM FAST] (key |a| strings::append(a[2]) => Number);
        "decr" 2 ONE [WRITE DENYOOM FAST] (key |a| Operation::Increment { delta: -1 } => Number);
        "decrby" 3 ONE [WRITE DENYOOM FAST] (key |a| strings::decrement(a[2])? => Number);
        "get" 2 ONE [READONLY FAST] (key |a| Operation::Get => Value);
        "getdel" 2 ONE [WRITE FAST] (key |a| Operation::GetAndDelete => Value);
        "getex" -2 ONE [WRITE FAST] (requests strings::getex) "options are checked before the key";
        "getrange" 4 ONE [READONLY] (key |a| strings::get_range(a[2], a[3])? => ValueOrEmpty);
        "getset" 3 ONE [WRITE DENYOOM FAST] (key |a| Operation::Set {
            value: a[2],
            options: SetOptions { return_old: true, ..SetOptions::default() },
        } => Value);
        "incr" 2 ONE [WRITE DENYOOM FAST] (key |a| Operation::Increment { delta: 1 } => Number);
        "incrby" 3 ONE [WRITE DENYOOM FAST] (key |a| Operation::Increment { delta: integer(a[2])? } => Number);
        "incrbyfloat" 3 ONE [WRITE DENYOOM FAST] (key |a| Operation::IncrementFloat { delta: a[2] } => Value) "rounds differently";
        "mget" -2 ALL [READONLY FAST] (keys Operation::Get => Values);
        "mset" -3 PAIRS [WRITE DENYOOM] (transaction strings::mset) "with [several cores](kv.md#several-cores) atomic within each";
        "msetnx" -3 PAIRS [WRITE DENYOOM] (direct strings::msetnx) "with several cores all keys of one";
        "psetex" 4 ONE [WRITE DENYOOM] (requests |batch, a| strings::set_until(batch, a, TimeUnit::MILLISECONDS, "psetex"));
        "set" -3 ONE [WRITE DENYOOM] (requests strings::set);
        "setex" 4 ONE [WRITE DENYOOM] (requests |batch, a| strings::set_until(batch, a, TimeUnit::SECONDS, "setex"));
        "setnx" 3 ONE [WRITE DENYOOM FAST] (key |a| Operation::Set {
            value: a[2],
            options: SetOptions { condition: Condition::IfAbsent, ..SetOptions::default() },
        } => IsDone);
        "setrange" 4 ONE [WRITE DENYOOM] (key |a| strings::set_range(a[2], a[3])? => Number);
        "strlen" 2 ONE [READONLY FAST] (key |a| Operation::Length => Number);
        "substr" 4 ONE [READONLY] (key |a| strings::get_range(a[2], a[3])? => ValueOrEmpty);
    }
    "generic" {
        "copy" -3 FIRST_TWO [WRITE DENYOOM] (direct keys::copy) "database 0 alone";
        "del" -2 ALL [WRITE] (keys Operation::Delete { version: None } => Found);
        "exists" -2 ALL [READONLY FAST] (keys Operation::Inspect => Found);
        "expire" -3 ONE [WRITE FAST] (requests |batch, a| keys::expire(batch, a, TimeUnit::SECONDS, "expire"));
        "expireat" -3 ONE [WRITE FAST] (requests |batch, a| keys::expire(batch, a, TimeUnit::SECONDS_SINCE_1970, "expireat"));
        "expiretime" 2 ONE [READONLY FAST] (key |a| Operation::Inspect => ExpiresAt { in_seconds: true });
        "keys" 2 NONE [READONLY] (direct keyspace::keys) "refused if the reply would be longer than 512 MiB";
        "persist" 2 ONE [WRITE FAST] (key |a| Operation::Expire {
            expiry: Expiry::Never,
            condition: keys::IF_SOME,
        } => IsDone);
        "pexpire" -3 ONE [WRITE FAST] (requests |batch, a| keys::expire(batch, a, TimeUnit::MILLISECONDS, "pexpire"));
        "pexpireat" -3 ONE [WRITE FAST] (requests |batch, a| keys::expire(batch, a, TimeUnit::MILLISECONDS_SINCE_1970, "pexpireat"));
        "pexpiretime" 2 ONE [READONLY FAST] (key |a| Operation::Inspect => ExpiresAt { in_seconds: false });
        "pttl" 2 ONE [READONLY FAST] (key |a| Operation::Inspect => TimeToLive { in_seconds: false });
        "randomkey" 1 NONE [READONLY] (direct keyspace::randomkey) "not every key with the same probability";
        "rename" 3 FIRST_TWO [WRITE] (direct |call, a| keys::rename(call, a, false)) "copies: a full store may refuse it, and with several cores both keys are there for a moment";
        "renamenx" 3 FIRST_TWO [WRITE FAST] (direct |call, a| keys::rename(call, a, true)) "as `RENAME`";
        "scan" -2 NONE [READONLY] (direct keyspace::scan) "at most 65,536 keys a call";
        "touch" -2 ALL [READONLY FAST] (keys Operation::Inspect => Found);
        "ttl" 2 ONE [READONLY FAST] (key |a| Operation::Inspect => TimeToLive { in_seconds: true });
        "type" 2 ONE [READONLY FAST] (key |a| Operation::Inspect => Kind);
        "unlink" -2 ALL [WRITE FAST] (keys Operation::Delete { version: None } => Found);
        "wait" 3 NONE [NOSCRIPT] (direct replication::wait) "waits for all writes, not this client's alone";
    }
    "hash" {
        "hdel" -3 ONE [WRITE FAST] (key |a| Operation::HashDelete { fields: a[2..].into() } => Number);
        "hexists" 3 ONE [READONLY FAST] (key |a| Operation::HashGet { fields: a[2..].into() } => HasFirst);
        "hget" 3 ONE [READONLY FAST] (key |a| Operation::HashGet { fields: a[2..].into() } => First);
        "hgetall" 2 ONE [READONLY] (key |a| Operation::HashGetAll => Map);
        "hkeys" 2 ONE [READONLY] (key |a| Operation::HashGetAll => Half { values: false });
        "hincrby" 4 ONE [WRITE DENYOOM FAST] (key |a| hashes::increment(a)? => HashNumber);
        "hincrbyfloat" 4 ONE [WRITE DENYOOM FAST] (key |a| hashes::increment_float(a)? => HashValue) "rounds differently";
        "hlen" 2 ONE [READONLY FAST] (key |a| Operation::Inspect => Len { kind: ValueKind::Hash });
        "hmget" -3 ONE [READONLY FAST] (key |a| Operation::HashGet { fields: a[2..].into() } => List { len: a.len() as u32 - 2 });
        "hmset" -4 ONE [WRITE DENYOOM FAST] (key |a| hashes::set(a, "hmset")? => Ok);
        "hrandfield" -2 ONE [READONLY] (requests hashes::random);
        "hscan" -3 ONE [READONLY] (direct |call, a| members::scan(call, a, ValueKind::Hash)) "all fields in one reply";
        "hset" -4 ONE [WRITE DENYOOM FAST] (key |a| hashes::set(a, "hset")? => Number);
        "hsetnx" 4 ONE [WRITE DENYOOM FAST] (key |a| Operation::HashAdd { field: a[2], value: a[3] } => Number);
        "hstrlen" 3 ONE [READONLY FAST] (key |a| Operation::HashGet { fields: a[2..].into() } => FirstLength);
        "hvals" 2 ONE [READONLY] (key |a| Operation::HashGetAll => Half { values: true });
    }
    "set" {
        "sadd" -3 ONE [WRITE DENYOOM FAST] (key |a| Operation::SetAdd { members: a[2..].into() } => Number);
        "scard" 2 ONE [READONLY FAST] (key |a| Operation::Inspect => Len { kind: ValueKind::Set });
        "sdiff" -2 ALL [READONLY] (direct |call, a| sets::combine(call, a, Difference)) "with several cores all keys of one, as all commands on several sets";
        "sdiffstore" -3 ALL [WRITE DENYOOM] (direct |call, a| sets::store(call, a, Difference)) "a full store that refuses the result has removed the destination";
        "sinter" -2 ALL [READONLY] (direct |call, a| sets::combine(call, a, Intersection));
        "sintercard" -3 NONE [READONLY] (direct sets::intersection_len);
        "sinterstore" -3 ALL [WRITE DENYOOM] (direct |call, a| sets::store(call, a, Intersection)) "as `SDIFFSTORE`";
        "sismember" 3 ONE [READONLY FAST] (key |a| Operation::Scores { kind: ValueKind::Set, members: a[2..].into() } => HasFirst);
        "smembers" 2 ONE [READONLY] (key |a| Operation::Members(ValueKind::Set) => Set);
        "smismember" -3 ONE [READONLY FAST] (key |a| Operation::Scores { kind: ValueKind::Set, members: a[2..].into() } => AreThere);
        "smove" 4 FIRST_TWO [WRITE FAST] (direct sets::move_member);
        "spop" -2 ONE [WRITE FAST] (requests members::pop_random);
        "srandmember" -2 ONE [READONLY] (requests |batch, a| members::choose(batch, a, ValueKind::Set, Count::Only));
        "srem" -3 ONE [WRITE FAST] (key |a| Operation::SetRemove { members: a[2..].into() } => Number);
        "sscan" -3 ONE [READONLY] (direct |call, a| members::scan(call, a, ValueKind::Set)) "all members in one reply";
        "sunion" -2 ALL [READONLY] (direct |call, a| sets::combine(call, a, Union));
        "sunionstore" -3 ALL [WRITE DENYOOM] (direct |call, a| sets::store(call, a, Union)) "as `SDIFFSTORE`";
    }
    "sorted-set" {
        "zadd" -4 ONE [WRITE DENYOOM FAST] (requests sorted_sets::zadd);
        "zcard" 2 ONE [READONLY FAST] (key |a| Operation::Inspect => Len { kind: ValueKind::SortedSet });
        "zcount" 4 ONE [READONLY FAST] (key |a| Operation::SortedCount(whole(a, By::Score)?) => Number);
        "zincrby" 4 ONE [WRITE DENYOOM FAST] (requests sorted_sets::zincrby) "no options of `ZADD`";
        "zlexcount" 4 ONE [READONLY FAST] (key |a| Operation::SortedCount(whole(a, By::Member)?) => Number);
        "zmscore" -3 ONE [READONLY FAST] (key |a| Operation::Scores { kind: ValueKind::SortedSet, members: a[2..].into() } => List { len: a.len() as u32 - 2 });
        "zpopmax" -2 ONE [WRITE FAST] (requests |batch, a| members::pop_sorted(batch, a, Popped::Greatest));
        "zpopmin" -2 ONE [WRITE FAST] (requests |batch, a| members::pop_sorted(batch, a, Popped::Least));
        "zrandmember" -2 ONE [READONLY] (requests |batch, a| members::choose(batch, a, ValueKind::SortedSet, Count::With(b"WITHSCORES")));
        "zrange" -4 ONE [READONLY] (requests |batch, a| range(batch, a, None)) "no hexadecimal scores, as in every command with scores";
        "zrangebylex" -4 ONE [READONLY] (requests |batch, a| range(batch, a, Some((By::Member, false))));
        "zrangebyscore" -4 ONE [READONLY] (requests |batch, a| range(batch, a, Some((By::Score, false))));
        "zrank" 3 ONE [READONLY FAST] (key |a| Operation::SortedRank { member: a[2], reverse: false } => NumberOrNull);
        "zrem" -3 ONE [WRITE FAST] (key |a| Operation::SortedRemove { members: a[2..].into() } => Number);
        "zremrangebylex" 4 ONE [WRITE] (key |a| Operation::SortedRemoveRange(whole(a, By::Member)?) => Number);
        "zremrangebyrank" 4 ONE [WRITE] (key |a| Operation::SortedRemoveRange(whole(a, By::Rank)?) => Number);
        "zremrangebyscore" 4 ONE [WRITE] (key |a| Operation::SortedRemoveRange(whole(a, By::Score)?) => Number);
        "zrevrange" -4 ONE [READONLY] (requests |batch, a| range(batch, a, Some((By::Rank, true))));
        "zrevrangebylex" -4 ONE [READONLY] (requests |batch, a| range(batch, a, Some((By::Member, true))));
        "zrevrangebyscore" -4 ONE [READONLY] (requests |batch, a| range(batch, a, Some((By::Score, true))));
        "zrevrank" 3 ONE [READONLY FAST] (key |a| Operation::SortedRank { member: a[2], reverse: true } => NumberOrNull);
        "zscan" -3 ONE [READONLY] (direct |call, a| members::scan(call, a, ValueKind::SortedSet)) "all members in one reply";
        "zscore" 3 ONE [READONLY FAST] (key |a| Operation::Scores { kind: ValueKind::SortedSet, members: a[2..].into() } => First);
    }
    "transactions" {
        "discard" 1 NONE [ALWAYS FAST NOT_QUEUED] (direct transactions::discard);
        "exec" 1 NONE [ALWAYS NOT_QUEUED] (direct transactions::exec)
            "commands that are not made of keys, and `MSETNX`, divide the transaction in the log; a full store refuses single commands";
        "multi" 1 NONE [ALWAYS FAST NOT_QUEUED] (direct transactions::multi);
        "unwatch" 1 NONE [ALWAYS FAST] (direct transactions::unwatch);
        "watch" -2 ALL [ALWAYS FAST NOT_QUEUED] (direct transactions::watch)
            "at most 4,096 keys of 16 MiB; a command that changes nothing may count as a change; a missing key may count as changed because another one was removed (rare)";
    }
    "connection" {
        "auth" -2 NONE [ALWAYS FAST NO_AUTH] (direct connection::auth) "the user is `default`";
        "client" -2 NONE [] (subcommands CLIENT);
        "echo" 2 NONE [LOADING STALE FAST] (direct connection::echo);
        "hello" -1 NONE [ALWAYS FAST NO_AUTH] (direct connection::hello);
        "ping" -1 NONE [FAST] (direct connection::ping);
        "quit" -1 NONE [ALWAYS FAST NO_AUTH NOT_QUEUED] (direct connection::quit);
        "reset" 1 NONE [ALWAYS FAST NO_AUTH NOT_QUEUED] (direct connection::reset);
        "select" 2 NONE [LOADING STALE FAST] (direct connection::select) "0 alone";
    }
    "cluster" {
        "asking" 1 NONE [FAST] (direct cluster::asking);
        "cluster" -2 NONE [] (subcommands CLUSTER);
        "overside.slots" 5 NONE [ADMIN NOSCRIPT NO_MULTI] (direct cluster::scan_slots)
            "not of Redis: what servers say that [move slots](kv-cluster.md#moving-slots)";
        "readonly" 1 NONE [LOADING STALE FAST] (direct cluster::readonly) "changes nothing";
        "readwrite" 1 NONE [LOADING STALE FAST] (direct cluster::readonly) "changes nothing";
    }
    "server" {
        "bgrewriteaof" 1 NONE [ADMIN NOSCRIPT] (direct server::bgrewriteaof);
        "bgsave" -1 NONE [ADMIN NOSCRIPT] (direct server::bgsave) "inside `MULTI` it begins at once";
        "command" -1 NONE [LOADING STALE] (subcommands COMMAND or introspection::all) "no categories, tips and key specifications";
        "config" -2 NONE [] (subcommands CONFIG);
        "dbsize" 1 NONE [READONLY FAST] (direct keyspace::dbsize);
        "flushall" -1 NONE [WRITE] (direct keyspace::flush) "waits until it is done";
        "flushdb" -1 NONE [WRITE] (direct keyspace::flush) "waits until it is done";
        "info" -1 NONE [LOADING STALE] (direct server::info) "sections and fields that the server has";
        "lastsave" 1 NONE [LOADING STALE FAST] (direct server::lastsave);
        "memory" -2 NONE [] (subcommands MEMORY);
        "overside.sync" -5 NONE [ADMIN NOSCRIPT NO_MULTI] (direct replication::sync) "not of Redis: what [replicas](kv.md#replicas) say";
        "replicaof" 3 NONE [ADMIN ALWAYS NO_MULTI] (direct replication::replicaof)
            "a cache, a server with a DPU and one that is registered in a directory refuse it";
        "role" 1 NONE [ALWAYS FAST] (direct replication::role);
        "save" 1 NONE [ADMIN NOSCRIPT NO_MULTI] (direct server::save);
        "shutdown" -1 NONE [ADMIN ALWAYS NO_MULTI] (direct server::shutdown) "no `ABORT`";
        "slaveof" 3 NONE [ADMIN ALWAYS NO_MULTI] (direct replication::replicaof) "as `REPLICAOF`";
        "time" 1 NONE [LOADING STALE FAST] (direct server::time) "in milliseconds";
    }
};

const CLIENT: &[Command] = commands! {
    "connection" {
        "getname" 2 NONE [ALWAYS] (direct clients::getname);
        "id" 2 NONE [ALWAYS] (direct clients::id);
        "info" 2 NONE [ALWAYS] (direct clients::info) "fewer fields";
        "kill" -3 NONE [ADMIN ALWAYS] (direct clients::kill) "no `MAXAGE`, one user";
        "list" -2 NONE [ADMIN ALWAYS] (direct clients::list) "fewer fields";
        "no-evict" 3 NONE [ADMIN ALWAYS] (direct clients::no_evict) "changes nothing";
        "setinfo" 4 NONE [ALWAYS] (direct clients::setinfo) "of Redis 7.2; checked, not kept";
        "setname" 3 NONE [ALWAYS] (direct clients::setname) "at most 1,024 bytes";
    }
};

const CLUSTER: &[Command] = commands! {
    "cluster" {
        "countkeysinslot" 3 NONE [STALE] (direct cluster::count_keys_in_slot) "looks at all keys";
        "getkeysinslot" 4 NONE [STALE] (direct cluster::get_keys_in_slot) "looks at all keys";
        "info" 2 NONE [STALE] (direct cluster::info);
        "keyslot" 3 NONE [STALE] (direct cluster::key_slot);
        "myid" 2 NONE [STALE] (direct cluster::my_id);
        "nodes" 2 NONE [STALE] (direct cluster::nodes);
        "shards" 2 NONE [LOADING STALE] (direct cluster::shards);
        "slots" 2 NONE [LOADING STALE] (direct cluster::slots);
    }
};

const COMMAND: &[Command] = commands! {
    "server" {
        "count" 2 NONE [LOADING STALE] (direct introspection::count);
        "docs" -2 NONE [LOADING STALE] (direct introspection::docs) "the group alone";
        "info" -2 NONE [LOADING STALE] (direct introspection::info) "no categories, tips and key specifications";
        "list" -2 NONE [LOADING STALE] (direct introspection::list) "no filters";
    }
};

const CONFIG: &[Command] = commands! {
    "server" {
        "get" -3 NONE [ADMIN ALWAYS] (direct server::config_get) "parameters that the server has";
        "set" -4 NONE [ADMIN ALWAYS] (direct server::config_set) "always refused: parameters are those of the command line";
    }
};

const MEMORY: &[Command] = commands! {
    "server" {
        "usage" -3 SECOND [READONLY] (requests keys::memory_usage) "memory of this store";
    }
};

/// Returns the rows of the page of commands in the documentation: Markdown, sorted by name.
#[must_use]
pub fn documented_commands() -> String {
    let mut commands: Vec<&Command> = COMMANDS.iter().collect();
    commands.sort_by_key(|command| command.name);
    let mut rows = String::new();
    for command in commands {
        rows.push_str(&command.documented(None));
        for subcommand in command.subcommands() {
            rows.push_str(&subcommand.documented(Some(command)));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, TABLE};

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for command in COMMANDS {
            for name in [command.name.to_owned(), command.name.to_uppercase()] {
                assert_eq!(TABLE.find(name.as_bytes()).unwrap().name, command.name);
            }
        }
        for name in ["", "g", "ge", "gett", "get\0", "GET ", "pexpiretim", "zrangebyscor", "G\x05T"]
        {
            assert!(TABLE.find(name.as_bytes()).is_none(), "{name}");
        }
    }
}
