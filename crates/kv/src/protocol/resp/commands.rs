//! The table of commands. Names, arities, flags and keys are those of Redis 7.0.

use super::command::flags::{
    ADMIN, DENYOOM, FAST, LOADING, NO_AUTH, NO_MULTI, NOSCRIPT, NOT_QUEUED, READONLY, STALE, WRITE,
};
use super::command::{Action, Command};
use super::{
    clients, connection, counters, hashes, introspection, keys, keyspace, replication, server,
    sorted_sets, strings, transactions,
};
use Action::{Direct, Requests, Subcommands, SubcommandsOr, Transaction};

/// No argument is a key.
const NONE: [i32; 3] = [0, 0, 0];
/// The first one is.
const ONE: [i32; 3] = [1, 1, 1];
/// All are.
const ALL: [i32; 3] = [1, -1, 1];
/// Every other one is.
const PAIRS: [i32; 3] = [1, -1, 2];

const fn command(
    group: &'static str,
    name: &'static str,
    arity: i32,
    flags: u16,
    keys: [i32; 3],
    action: Action,
) -> Command {
    Command {
        name,
        group,
        arity,
        flags,
        keys,
        action,
    }
}

const fn string(
    name: &'static str,
    arity: i32,
    flags: u16,
    keys: [i32; 3],
    action: Action,
) -> Command {
    command("string", name, arity, flags, keys, action)
}

const fn generic(
    name: &'static str,
    arity: i32,
    flags: u16,
    keys: [i32; 3],
    action: Action,
) -> Command {
    command("generic", name, arity, flags, keys, action)
}

const fn hash(name: &'static str, arity: i32, flags: u16, action: Action) -> Command {
    command("hash", name, arity, flags, ONE, action)
}

const fn sorted_set(name: &'static str, arity: i32, flags: u16, action: Action) -> Command {
    command("sorted-set", name, arity, flags, ONE, action)
}

const fn transaction(
    name: &'static str,
    arity: i32,
    flags: u16,
    keys: [i32; 3],
    action: Action,
) -> Command {
    command("transactions", name, arity, flags, keys, action)
}

const fn connect(name: &'static str, arity: i32, flags: u16, action: Action) -> Command {
    command("connection", name, arity, flags, NONE, action)
}

const fn serve(name: &'static str, arity: i32, flags: u16, action: Action) -> Command {
    command("server", name, arity, flags, NONE, action)
}

/// Executed whatever state the client or the server is in.
const ALWAYS: u16 = NOSCRIPT | LOADING | STALE;

pub(super) static COMMANDS: [Command; 88] = [
    string(
        "append",
        3,
        WRITE | DENYOOM | FAST,
        ONE,
        Requests(strings::append),
    ),
    string(
        "decr",
        2,
        WRITE | DENYOOM | FAST,
        ONE,
        Requests(counters::decr),
    ),
    string(
        "decrby",
        3,
        WRITE | DENYOOM | FAST,
        ONE,
        Requests(counters::decrby),
    ),
    string("get", 2, READONLY | FAST, ONE, Requests(strings::get)),
    string("getdel", 2, WRITE | FAST, ONE, Requests(strings::getdel)),
    string("getex", -2, WRITE | FAST, ONE, Requests(strings::getex)),
    string("getrange", 4, READONLY, ONE, Requests(strings::getrange)),
    string(
        "getset",
        3,
        WRITE | DENYOOM | FAST,
        ONE,
        Requests(strings::getset),
    ),
    string(
        "incr",
        2,
        WRITE | DENYOOM | FAST,
        ONE,
        Requests(counters::incr),
    ),
    string(
        "incrby",
        3,
        WRITE | DENYOOM | FAST,
        ONE,
        Requests(counters::incrby),
    ),
    string(
        "incrbyfloat",
        3,
        WRITE | DENYOOM | FAST,
        ONE,
        Requests(counters::incrbyfloat),
    ),
    string("mget", -2, READONLY | FAST, ALL, Requests(strings::mget)),
    string(
        "mset",
        -3,
        WRITE | DENYOOM,
        PAIRS,
        Transaction(strings::mset),
    ),
    string(
        "msetnx",
        -3,
        WRITE | DENYOOM,
        PAIRS,
        Direct(strings::msetnx),
    ),
    string("psetex", 4, WRITE | DENYOOM, ONE, Requests(strings::psetex)),
    string("set", -3, WRITE | DENYOOM, ONE, Requests(strings::set)),
    string("setex", 4, WRITE | DENYOOM, ONE, Requests(strings::setex)),
    string(
        "setnx",
        3,
        WRITE | DENYOOM | FAST,
        ONE,
        Requests(strings::setnx),
    ),
    string(
        "setrange",
        4,
        WRITE | DENYOOM,
        ONE,
        Requests(strings::setrange),
    ),
    string("strlen", 2, READONLY | FAST, ONE, Requests(strings::strlen)),
    string("substr", 4, READONLY, ONE, Requests(strings::getrange)),
    generic("del", -2, WRITE, ALL, Requests(keys::del)),
    generic("exists", -2, READONLY | FAST, ALL, Requests(keys::exists)),
    generic("expire", -3, WRITE | FAST, ONE, Requests(keys::expire)),
    generic("expireat", -3, WRITE | FAST, ONE, Requests(keys::expireat)),
    generic(
        "expiretime",
        2,
        READONLY | FAST,
        ONE,
        Requests(keys::expiretime),
    ),
    generic("keys", 2, READONLY, NONE, Direct(keyspace::keys)),
    generic("persist", 2, WRITE | FAST, ONE, Requests(keys::persist)),
    generic("pexpire", -3, WRITE | FAST, ONE, Requests(keys::pexpire)),
    generic(
        "pexpireat",
        -3,
        WRITE | FAST,
        ONE,
        Requests(keys::pexpireat),
    ),
    generic(
        "pexpiretime",
        2,
        READONLY | FAST,
        ONE,
        Requests(keys::pexpiretime),
    ),
    generic("pttl", 2, READONLY | FAST, ONE, Requests(keys::pttl)),
    generic("scan", -2, READONLY, NONE, Direct(keyspace::scan)),
    generic("touch", -2, READONLY | FAST, ALL, Requests(keys::exists)),
    generic("ttl", 2, READONLY | FAST, ONE, Requests(keys::ttl)),
    generic("type", 2, READONLY | FAST, ONE, Requests(keys::type_)),
    generic("unlink", -2, WRITE | FAST, ALL, Requests(keys::del)),
    generic("wait", 3, NOSCRIPT, NONE, Direct(replication::wait)),
    hash("hdel", -3, WRITE | FAST, Requests(hashes::hdel)),
    hash("hexists", 3, READONLY | FAST, Requests(hashes::hexists)),
    hash("hget", 3, READONLY | FAST, Requests(hashes::hget)),
    hash("hgetall", 2, READONLY, Requests(hashes::hgetall)),
    hash("hkeys", 2, READONLY, Requests(hashes::hkeys)),
    hash("hlen", 2, READONLY | FAST, Requests(hashes::hlen)),
    hash("hmget", -3, READONLY | FAST, Requests(hashes::hmget)),
    hash("hmset", -4, WRITE | DENYOOM | FAST, Requests(hashes::hmset)),
    hash("hset", -4, WRITE | DENYOOM | FAST, Requests(hashes::hset)),
    hash("hvals", 2, READONLY, Requests(hashes::hvals)),
    sorted_set(
        "zadd",
        -4,
        WRITE | DENYOOM | FAST,
        Requests(sorted_sets::zadd),
    ),
    sorted_set("zcard", 2, READONLY | FAST, Requests(sorted_sets::zcard)),
    sorted_set(
        "zincrby",
        4,
        WRITE | DENYOOM | FAST,
        Requests(sorted_sets::zincrby),
    ),
    sorted_set("zrange", -4, READONLY, Requests(sorted_sets::zrange)),
    sorted_set(
        "zrangebylex",
        -4,
        READONLY,
        Requests(sorted_sets::zrangebylex),
    ),
    sorted_set(
        "zrangebyscore",
        -4,
        READONLY,
        Requests(sorted_sets::zrangebyscore),
    ),
    sorted_set("zrem", -3, WRITE | FAST, Requests(sorted_sets::zrem)),
    sorted_set("zrevrange", -4, READONLY, Requests(sorted_sets::zrevrange)),
    sorted_set(
        "zrevrangebylex",
        -4,
        READONLY,
        Requests(sorted_sets::zrevrangebylex),
    ),
    sorted_set(
        "zrevrangebyscore",
        -4,
        READONLY,
        Requests(sorted_sets::zrevrangebyscore),
    ),
    transaction(
        "discard",
        1,
        ALWAYS | FAST | NOT_QUEUED,
        NONE,
        Direct(transactions::discard),
    ),
    transaction(
        "exec",
        1,
        ALWAYS | NOT_QUEUED,
        NONE,
        Direct(transactions::exec),
    ),
    transaction(
        "multi",
        1,
        ALWAYS | FAST | NOT_QUEUED,
        NONE,
        Direct(transactions::multi),
    ),
    transaction(
        "unwatch",
        1,
        ALWAYS | FAST,
        NONE,
        Direct(transactions::unwatch),
    ),
    transaction(
        "watch",
        -2,
        ALWAYS | FAST | NOT_QUEUED,
        ALL,
        Direct(transactions::watch),
    ),
    connect(
        "auth",
        -2,
        ALWAYS | FAST | NO_AUTH,
        Direct(connection::auth),
    ),
    connect("client", -2, 0, Subcommands(&CLIENT)),
    connect("echo", 2, LOADING | STALE | FAST, Direct(connection::echo)),
    connect(
        "hello",
        -1,
        ALWAYS | FAST | NO_AUTH,
        Direct(connection::hello),
    ),
    connect("ping", -1, FAST, Direct(connection::ping)),
    connect(
        "quit",
        -1,
        ALWAYS | FAST | NO_AUTH | NOT_QUEUED,
        Direct(connection::quit),
    ),
    connect(
        "reset",
        1,
        ALWAYS | FAST | NO_AUTH | NOT_QUEUED,
        Direct(connection::reset),
    ),
    connect(
        "select",
        2,
        LOADING | STALE | FAST,
        Direct(connection::select),
    ),
    serve(
        "bgrewriteaof",
        1,
        ADMIN | NOSCRIPT,
        Direct(server::bgrewriteaof),
    ),
    serve("bgsave", -1, ADMIN | NOSCRIPT, Direct(server::bgsave)),
    serve(
        "command",
        -1,
        LOADING | STALE,
        SubcommandsOr(&COMMAND, introspection::all),
    ),
    serve("config", -2, 0, Subcommands(&CONFIG)),
    serve("dbsize", 1, READONLY | FAST, Direct(keyspace::dbsize)),
    serve("flushall", -1, WRITE, Direct(keyspace::flush)),
    serve("flushdb", -1, WRITE, Direct(keyspace::flush)),
    serve("info", -1, LOADING | STALE, Direct(server::info)),
    serve(
        "lastsave",
        1,
        LOADING | STALE | FAST,
        Direct(server::lastsave),
    ),
    serve("memory", -2, 0, Subcommands(&MEMORY)),
    serve(
        "overside.sync",
        -5,
        ADMIN | NOSCRIPT | NO_MULTI,
        Direct(replication::sync),
    ),
    serve(
        "replicaof",
        3,
        ADMIN | ALWAYS | NO_MULTI,
        Direct(replication::replicaof),
    ),
    serve("role", 1, ALWAYS | FAST, Direct(replication::role)),
    serve("save", 1, ADMIN | NOSCRIPT | NO_MULTI, Direct(server::save)),
    serve(
        "shutdown",
        -1,
        ADMIN | ALWAYS | NO_MULTI,
        Direct(server::shutdown),
    ),
    serve(
        "slaveof",
        3,
        ADMIN | ALWAYS | NO_MULTI,
        Direct(replication::replicaof),
    ),
    serve("time", 1, LOADING | STALE | FAST, Direct(server::time)),
];

static CLIENT: [Command; 8] = [
    connect("getname", 2, ALWAYS, Direct(clients::getname)),
    connect("id", 2, ALWAYS, Direct(clients::id)),
    connect("info", 2, ALWAYS, Direct(clients::info)),
    connect("kill", -3, ADMIN | ALWAYS, Direct(clients::kill)),
    connect("list", -2, ADMIN | ALWAYS, Direct(clients::list)),
    connect("no-evict", 3, ADMIN | ALWAYS, Direct(clients::no_evict)),
    connect("setinfo", 4, ALWAYS, Direct(clients::setinfo)),
    connect("setname", 3, ALWAYS, Direct(clients::setname)),
];

static COMMAND: [Command; 4] = [
    serve("count", 2, LOADING | STALE, Direct(introspection::count)),
    serve("docs", -2, LOADING | STALE, Direct(introspection::docs)),
    serve("info", -2, LOADING | STALE, Direct(introspection::info)),
    serve("list", -2, LOADING | STALE, Direct(introspection::list)),
];

static CONFIG: [Command; 2] = [
    serve("get", -3, ADMIN | ALWAYS, Direct(server::config_get)),
    serve("set", -4, ADMIN | ALWAYS, Direct(server::config_set)),
];

static MEMORY: [Command; 1] = [command(
    "server",
    "usage",
    -3,
    READONLY,
    [2, 2, 1],
    Requests(keys::memory_usage),
)];
