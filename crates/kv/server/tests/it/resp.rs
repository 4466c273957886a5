//! Tests of the commands that RESP clients send and of the replies that they read.

use crate::resp_client::{Bench, Client};

/// Sends lines to one client of a new server, and compares the replies.
fn check(exchanges: &str) {
    Bench::new().talks(&mut Client::new(1), exchanges);
}

#[test]
fn strings_are_stored_and_read() {
    check(
        r#"
        GET a -> $-1
        SET a 1 -> +OK
        get a -> $1 1
        SET a 2 NX -> $-1
        SET a 2 XX GET -> $1 1
        SET a 3 EX 10 PX 10 -> -ERR syntax error
        SET a 3 EX 0 -> -ERR invalid expire time in 'set' command
        SET a 3 EX x -> -ERR value is not an integer or out of range
        SET a 3 EX 100 -> +OK
        TTL a -> :100
        SET a 4 KEEPTTL -> +OK
        PTTL a -> :100000
        EXPIRETIME a -> :1700000100
        GETEX a PERSIST -> $1 4
        TTL a -> :-1
        GETSET a 5 -> $1 4
        GETDEL a -> $1 5
        EXISTS a -> :0
        MSET a 1 b 2 -> +OK
        MSETNX b 3 c 4 -> :0
        MSETNX c 3 d 4 -> :1
        MGET a b x c -> *4 $1 1 $1 2 $-1 $1 3
        APPEND a 23 -> :3
        STRLEN a -> :3
        GETRANGE a 1 -1 -> $2 23
        GETRANGE x 0 -1 -> $0
        SETRANGE a 1 99 -> :3
        SETRANGE a -1 99 -> -ERR offset is out of range
        SETNX a 1 -> :0
        SETEX a 10 v -> +OK
        PSETEX a 0 v -> -ERR invalid expire time in 'psetex' command
        DEL a b c x -> :3
        "#,
    );
}

#[test]
fn numbers_are_counted() {
    check(
        r#"
        INCR a -> :1
        INCRBY a 41 -> :42
        DECR a -> :41
        DECRBY a 1 -> :40
        DECRBY a -9223372036854775808 -> -ERR decrement would overflow
        INCRBY a 9223372036854775807 -> -ERR increment or decrement would overflow
        INCRBYFLOAT a 0.5 -> $4 40.5
        INCR a -> -ERR value is not an integer or out of range
        INCRBYFLOAT a x -> -ERR value is not a valid float
        INCRBYFLOAT a inf -> -ERR increment would produce NaN or Infinity
        "#,
    );
}

#[test]
fn keys_expire_and_have_kinds() {
    check(
        r#"
        SET a 1 -> +OK
        EXPIRE a 10 XX -> :0
        EXPIRE a 10 NX -> :1
        EXPIRE a 5 GT -> :0
        EXPIRE a 5 LT -> :1
        EXPIRE a 5 GT LT -> -ERR GT and LT options at the same time are not compatible
        EXPIRE a 5 NX LT -> -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE a 5 YY -> -ERR Unsupported option YY
        EXPIRE a 9223372036854775807 -> -ERR invalid expire time in 'expire' command
        PERSIST a -> :1
        PERSIST a -> :0
        EXPIREAT a 1 -> :1
        TTL a -> :-2
        HSET h f v -> :1
        ZADD z 1 m -> :1
        SET s v -> +OK
        TYPE h -> +hash
        TYPE z -> +zset
        TYPE s -> +string
        TYPE x -> +none
        GET h -> -WRONGTYPE Operation against a key holding the wrong kind of value
        MGET s h -> *2 $1 v $-1
        TOUCH h z x -> :2
        DBSIZE -> :3
        KEYS ? -> *3 $1 h $1 s $1 z
        SCAN 0 TYPE hash -> *2 $1 0 *1 $1 h
        SCAN 0 MATCH [sz] COUNT 100 -> *2 $1 0 *2 $1 s $1 z
        SCAN x -> -ERR invalid cursor
        SCAN 0 COUNT 0 -> -ERR syntax error
        FLUSHALL -> +OK
        DBSIZE -> :0
        "#,
    );
}

#[test]
fn hashes_and_sorted_sets_have_the_shapes_of_both_versions() {
    check(
        r#"
        HSET h a 1 b 2 -> :2
        HMSET h a 1 -> +OK
        HSET h a -> -ERR wrong number of arguments for 'hset' command
        HGET h a -> $1 1
        HGET h x -> $-1
        HGET x x -> $-1
        HMGET h a x -> *2 $1 1 $-1
        HMGET x a b -> *2 $-1 $-1
        HGETALL h -> *4 $1 a $1 1 $1 b $1 2
        HKEYS h -> *2 $1 a $1 b
        HVALS h -> *2 $1 1 $1 2
        HLEN h -> :2
        HLEN missing -> :0
        HEXISTS h x -> :0
        HDEL h a x -> :1
        ZADD z 1 a 2.5 b -> :2
        ZADD z NX XX 1 a -> -ERR XX and NX options at the same time are not compatible
        ZADD z GT LT 1 a -> -ERR GT, LT, and/or NX options at the same time are not compatible
        ZADD z INCR 1 a 2 b -> -ERR INCR option supports a single increment-element pair
        ZADD z 1 -> -ERR wrong number of arguments for 'zadd' command
        ZADD z 1 a b -> -ERR syntax error
        ZADD z x a -> -ERR value is not a valid float
        ZADD z INCR 0.1 a -> $18 1.1000000000000001
        ZINCRBY z 0.5 b -> $1 3
        ZCARD z -> :2
        HLEN z -> -WRONGTYPE Operation against a key holding the wrong kind of value
        ZRANGE z 0 -1 WITHSCORES -> *4 $1 a $18 1.1000000000000001 $1 b $1 3
        ZRANGE z (2 +inf BYSCORE -> *1 $1 b
        ZRANGE z +inf -inf BYSCORE REV LIMIT 1 1 -> *1 $1 a
        ZRANGE z - (b BYLEX -> *1 $1 a
        ZRANGE z + - BYLEX -> *0
        ZRANGE z 0 1 LIMIT 0 1 -> -ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX
        ZRANGEBYSCORE z x 1 -> -ERR min or max is not a float
        ZRANGEBYSCORE z -inf (3 WITHSCORES LIMIT 0 5 -> *2 $1 a $18 1.1000000000000001
        ZRANGEBYLEX z a b -> -ERR min or max not valid string range item
        ZREVRANGE z 0 0 -> *1 $1 b
        ZREM z a x -> :1
        HELLO 3 -> %7 $6 server $5 redis $7 version $6 7.0.15 $5 proto :3 $2 id :1 $4 mode $10 standalone $4 role $6 master $7 modules *0
        GET x -> _
        HGETALL h -> %1 $1 b $1 2
        ZRANGE z 0 -1 WITHSCORES -> *1 *2 $1 b ,3
        ZADD z INCR 0.5 b -> ,3.5
        MULTI -> +OK
        RESET -> +RESET
        GET x -> $-1
        "#,
    );
}

#[test]
fn transactions_are_executed_whole_or_not_at_all() {
    check(
        r#"
        EXEC -> -ERR EXEC without MULTI
        DISCARD -> -ERR DISCARD without MULTI
        MULTI -> +OK
        MULTI -> -ERR MULTI calls can not be nested
        WATCH a -> -ERR WATCH inside MULTI is not allowed
        SET a 1 -> +QUEUED
        INCR a -> +QUEUED
        SET a 1 EX 0 -> +QUEUED
        DBSIZE -> +QUEUED
        MSET b 1 c 2 -> +QUEUED
        MSETNX c 3 d 4 -> +QUEUED
        MGET a b c d -> +QUEUED
        EXEC -> *7 +OK :2 -ERR invalid expire time in 'set' command :1 +OK :0 *4 $1 2 $1 1 $1 2 $-1
        MULTI -> +OK
        NOSUCH -> -ERR unknown command 'NOSUCH', with args beginning with:
        SET a 9 -> +QUEUED
        EXEC -> -EXECABORT Transaction discarded because of previous errors.
        GET a -> $1 2
        MULTI -> +OK
        BGSAVE -> +QUEUED
        EXEC -> *1 +Background saving scheduled
        MULTI -> +OK
        SET a 9 -> +QUEUED
        DISCARD -> +OK
        MULTI -> +OK
        SAVE -> -ERR Command not allowed inside a transaction
        EXEC -> -EXECABORT Transaction discarded because of previous errors.
        MULTI -> +OK
        EXEC -> *0
        "#,
    );
}

#[test]
fn a_watched_key_that_changes_ends_the_transaction() {
    let (mut bench, mut one, mut two) = (Bench::new(), Client::new(1), Client::new(2));
    for (change, expected) in [("SET a 1", "*-1"), ("SET b 1", "*1 +OK"), ("DEL a", "*-1")] {
        assert_eq!(bench.talk(&mut one, "SET a 0\r\nWATCH a missing"), "+OK +OK");
        bench.talk(&mut two, change);
        assert_eq!(
            bench.talk(&mut one, "MULTI\r\nSET c 1\r\nEXEC"),
            format!("+OK +QUEUED {expected}")
        );
    }
    assert_eq!(bench.talk(&mut one, "WATCH missing"), "+OK");
    bench.talk(&mut two, "SET missing 1");
    assert_eq!(bench.talk(&mut one, "MULTI\r\nEXEC"), "+OK *-1");
    bench.talk(&mut two, "DEL missing");
    // Missing again is not what it was.
    for change in ["SET missing 1\r\nDEL missing", "FLUSHALL"] {
        assert_eq!(bench.talk(&mut one, "WATCH missing"), "+OK");
        bench.talk(&mut two, "SET missing 1");
        bench.talk(&mut two, change);
        assert_eq!(bench.talk(&mut one, "MULTI\r\nEXEC"), "+OK *-1", "{change}");
    }
    assert_eq!(bench.talk(&mut one, "WATCH a"), "+OK");
    bench.talk(&mut two, "SET a 1");
    assert_eq!(
        bench.talk(&mut one, "UNWATCH\r\nMULTI\r\nPING\r\nEXEC"),
        "+OK +OK +QUEUED *1 +PONG"
    );
}
