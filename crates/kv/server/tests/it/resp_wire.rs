//! RESP as bytes: half commands, violations, limits, several connections at once.

use overside_kv::protocol::{
    COMMAND_MAX_BYTES, INLINE_MAX_BYTES, OUTPUT_MAX_BYTES, OUTPUT_PAUSE_BYTES, Session,
    TURN_OUTPUT_MAX_BYTES,
};
use proptest::prelude::*;

use crate::requests::corpus;
use crate::resp_client::{Bench, Client, command};

#[test]
fn connections_say_who_they_are() {
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    let exchanges = r#"
        PING -> +PONG
        ping hello -> $5 hello
        PING a b -> -ERR wrong number of arguments for 'ping' command
        ECHO "a b" -> $3 a b
        SELECT 0 -> +OK
        SELECT 1 -> -ERR DB index is out of range
        CLIENT ID -> :1
        CLIENT GETNAME -> $-1
        CLIENT SETNAME me -> +OK
        CLIENT GETNAME -> $2 me
        CLIENT SETINFO LIB-NAME redis-py -> +OK
        CLIENT FOO -> -ERR unknown subcommand 'FOO'. Try CLIENT HELP.
        CLIENT ID x -> -ERR wrong number of arguments for 'client|id' command
        CLIENT -> -ERR wrong number of arguments for 'client' command
        CLIENT NO-EVICT ON -> +OK
        CLIENT KILL ID 2 -> :1
        CLIENT KILL 127.0.0.1:9 -> -ERR No such client
        CONFIG GET save APPEND* -> *4 $10 appendonly $2 no $4 save $0
        CONFIG SET foo 1 -> -ERR Unknown option or number of arguments for CONFIG SET - 'foo'
        HELLO 4 -> -NOPROTO unsupported protocol version
        HELLO x -> -ERR Protocol version is not an integer or out of range
        HELLO 2 FOO -> -ERR Syntax error in HELLO option 'FOO'
        TIME -> *2 $10 1700000000 $1 0
        LASTSAVE -> :1700000000
        SAVE -> +OK
        BGSAVE -> +Background saving started
        BGREWRITEAOF -> -ERR Background append only file rewriting already in progress
        COMMAND INFO get nosuch -> *2 *10 $3 get :2 *2 +readonly +fast :1 :1 :1 *0 *0 *0 *0 *-1
        INFO stats -> $26 # Stats keyspace_hits:0
        RESET -> +RESET
        CLIENT GETNAME -> $-1
    "#;
    bench.talks(&mut client, exchanges);
    assert!(bench.talk(&mut client, "CLIENT LIST").contains("id=1 addr=127.0.0.1:1001"));
    assert_eq!(bench.server.killed, [2]);
    assert_eq!(bench.talk(&mut client, "QUIT\r\nPING"), "+OK");
    assert!(client.session.is_closing());
    let mut other = Client::new(2);
    assert_eq!(bench.talk(&mut other, "SHUTDOWN NOSAVE"), "");
    assert!(other.session.is_closing() && bench.server.is_shut_down);
}

#[test]
fn without_a_password_nothing_is_done() {
    let mut bench = Bench::new();
    bench.server.password = Some("secret");
    let mut client = Client::new(1);
    client.session = Session::new(1, false);
    let exchanges = r#"
        GET a -> -NOAUTH Authentication required.
        NOSUCH -> -ERR unknown command 'NOSUCH', with args beginning with:
        MULTI -> -NOAUTH Authentication required.
        PING -> -NOAUTH Authentication required.
        AUTH wrong -> -WRONGPASS invalid username-password pair or user is disabled.
        AUTH a b c -> -ERR syntax error
        AUTH default secret -> +OK
        GET a -> $-1
        RESET -> +RESET
        GET a -> -NOAUTH Authentication required.
        AUTH secret -> +OK
        PING -> +PONG
        RESET -> +RESET
    "#;
    bench.talks(&mut client, exchanges);
    assert!(bench.talk(&mut client, "HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    assert!(bench.talk(&mut client, "HELLO 3 AUTH default secret SETNAME me").starts_with("%7"));
    assert_eq!(bench.talk(&mut client, "CLIENT GETNAME"), "$2 me");
    let limits = [
        ("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        ("*1\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
        // Redis takes so long a one, and this server does not.
        ("*1\r\n$100000000\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
        ("*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
    ];
    for (bytes, expected) in limits {
        client.session = Session::new(1, false);
        client.input.clear();
        assert_eq!(bench.send(&mut client, bytes.as_bytes()), expected.as_bytes());
        assert!(client.session.is_closing());
    }
}

#[test]
fn violations_are_answered_as_redis_does_and_end_the_connection() {
    let inline = "x".repeat(INLINE_MAX_BYTES + 1);
    let number = format!("*{}", "1".repeat(40));
    for (bytes, error) in [
        ("*1048577\r\n", "invalid multibulk length"),
        ("*x\r\n", "invalid multibulk length"),
        (&number, "too big mbulk count string"),
        ("*1\r\nx", "expected '$', got 'x'"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$67108865\r\n", "invalid bulk length"),
        ("*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
        ("ECHO \"a\r\n", "unbalanced quotes in request"),
        (&inline, "too big inline request"),
    ] {
        let (mut bench, mut client) = (Bench::new(), Client::new(1));
        let replies = bench.send(&mut client, format!("PING\r\n{bytes}").as_bytes());
        let expected = format!("+PONG\r\n-ERR Protocol error: {error}\r\n");
        assert_eq!(String::from_utf8(replies).unwrap(), expected);
        assert!(client.session.is_closing());
        assert_eq!(bench.send(&mut client, b"PING\r\n"), b"");
    }
}

#[test]
fn nothing_is_done_for_empty_commands() {
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    assert_eq!(bench.send(&mut client, b"\r\n*0\r\n*-1\r\n  \r\nPING\r\n"), b"+PONG\r\n");
}

#[test]
fn a_long_command_says_how_many_bytes_it_needs_and_is_not_read_again() {
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    let value = vec![b'v'; 1 << 20];
    let bytes = command(&[b"SET", b"key".as_slice(), &value]);
    let (head, tail) = bytes.split_at(100);
    assert_eq!(bench.send(&mut client, head), b"");
    assert_eq!(client.session.missing_bytes(), tail.len());
    let (most, last) = tail.split_at(tail.len() - 1);
    assert_eq!(bench.send(&mut client, most), b"");
    assert_eq!(client.session.missing_bytes(), 1);
    assert_eq!(bench.send(&mut client, last), b"+OK\r\n");
    assert_eq!(client.session.missing_bytes(), 0);
    // Arguments that have not begun count too.
    assert_eq!(bench.send(&mut client, b"*1000\r\n$3\r\nDEL\r\n"), b"");
    assert_eq!(client.session.missing_bytes(), 999 * 6);
    assert!(client.session.memory_bytes() < 1000);
}

#[test]
fn a_command_of_many_arguments_is_parsed_once_however_it_comes() {
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    let arguments = vec![b"DEL".as_slice(); 200_000];
    let bytes = command(&arguments);
    let mut replies = Vec::new();
    // Were it parsed anew each time, this would take minutes.
    for piece in bytes.chunks(100) {
        replies = bench.send(&mut client, piece);
    }
    assert_eq!(replies, b":0\r\n");
}

#[test]
fn commands_are_no_longer_than_their_limit() {
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    let value = vec![b'v'; 60 << 20];
    let arguments = [b"MSET".as_slice(), b"a", &value, b"b", &value];
    let mut bytes = command(&arguments);
    bytes.splice(..4, *b"*7\r\n");
    bytes.extend_from_slice(b"$1\r\nc\r\n$20000000\r\n");
    assert!(bytes.len() < COMMAND_MAX_BYTES);
    let replies = bench.send(&mut client, &bytes);
    assert!(replies.starts_with(b"-ERR Protocol error: command is longer than"));
    assert!(client.session.is_closing());
}

#[test]
fn an_output_that_is_full_pauses_its_connection_alone() {
    let (mut bench, mut one, mut two) = (Bench::new(), Client::new(1), Client::new(2));
    let value = vec![b'v'; 100_000];
    bench.send(&mut one, &command(&[b"SET", b"key".as_slice(), &value]));
    let gets = command(&["GET", "key"]).repeat(200);
    let reply_bytes = value.len() + 11;
    // Replies are still expected to be short, so that the first part is as long as a batch.
    let replies = bench.send(&mut one, &gets);
    assert!(replies.len() <= 200 * reply_bytes);
    one.input.clear();
    let mut replies = bench.send_all(&mut [(&mut one, &gets), (&mut two, b"SET a 1\r\nGET a\r\n")]);
    assert!(replies[0].len() > OUTPUT_PAUSE_BYTES);
    assert!(replies[0].len() < OUTPUT_PAUSE_BYTES + 11 * reply_bytes);
    assert_eq!(replies[1], b"+OK\r\n$1\r\n1\r\n");
    let mut total = replies[0].len();
    while !replies[0].is_empty() {
        replies = bench.send_all(&mut [(&mut one, b"")]);
        total += replies[0].len();
    }
    assert_eq!(total, 200 * reply_bytes);
    assert_eq!(one.input, b"");
}

#[test]
fn a_long_transaction_is_refused() {
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    assert_eq!(bench.talk(&mut client, "MULTI"), "+OK");
    let value = vec![b'v'; 50 << 20];
    let set = command(&[b"SET", b"key".as_slice(), &value]);
    assert_eq!(bench.send(&mut client, &set), b"+QUEUED\r\n");
    assert_eq!(bench.send(&mut client, &set), b"+QUEUED\r\n");
    assert!(client.session.memory_bytes() >= 2 * value.len());
    assert_eq!(bench.send(&mut client, &set), b"-ERR transaction is too long\r\n");
    assert!(client.session.memory_bytes() < 1000);
    assert!(bench.talk(&mut client, "EXEC").starts_with("-EXECABORT"));
}

#[test]
fn keys_and_names_are_bounded() {
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    let key = vec![b'k'; (64 << 10) + 1];
    for name in ["GET", "WATCH"] {
        let reply = bench.send(&mut client, &command(&[name.as_bytes(), &key]));
        assert_eq!(reply, b"-ERR key is longer than 65536 bytes\r\n", "{name}");
    }
    for (length, start) in [(1024, "*"), (1025, "-ERR pattern is longer than 1024 bytes")] {
        let pattern = "p".repeat(length);
        for line in [
            format!("KEYS {pattern}"),
            format!("SCAN 0 MATCH {pattern}"),
            format!("CONFIG GET {pattern}"),
        ] {
            assert!(bench.talk(&mut client, &line).starts_with(start), "{line}");
        }
    }
    let name = vec![b'n'; 2000];
    let reply = bench.send(&mut client, &command(&[b"CLIENT", b"SETNAME".as_slice(), &name]));
    assert_eq!(reply, b"-ERR client name is longer than 1024 bytes\r\n");
    let keys: Vec<_> = (0..20_000).map(|i| i.to_string()).collect();
    let keys: Vec<_> = ["WATCH"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    assert_eq!(bench.send(&mut client, &command(&keys)), b"-ERR too many watched keys\r\n");
}

#[test]
fn a_transaction_whose_replies_are_too_long_ends_there() {
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    let value = vec![b'v'; 32 << 20];
    bench.send(&mut client, &command(&[b"SET", b"key".as_slice(), &value]));
    bench.talk(&mut client, "MULTI");
    for _ in 0..=OUTPUT_MAX_BYTES / value.len() {
        bench.talk(&mut client, "GET key");
    }
    bench.talk(&mut client, "CLIENT SETNAME late");
    assert_eq!(bench.send(&mut client, b"EXEC\r\n"), b"");
    assert!(client.session.is_closing());
    assert!(bench.server.names.is_empty(), "it went on");
}

#[test]
fn connections_that_share_a_batch_of_long_replies_stay_open() {
    let mut bench = Bench::new();
    let mut clients: Vec<_> = (0..10).map(Client::new).collect();
    let value = vec![b'v'; 60 << 20];
    let set = command(&[b"SET", b"key".as_slice(), &value]);
    bench.send(&mut clients[0], &set);
    let mut sent: Vec<_> =
        clients.iter_mut().map(|client| (client, b"GET key\r\n".as_slice())).collect();
    let reply_bytes = value.len() + "$62914560\r\n\r\n".len();
    // What is beyond the bound of all replies together waits until those have been sent.
    let mut answered = 0;
    for _ in 0..sent.len() {
        let replies = bench.send_all(&mut sent);
        let total: usize = replies.iter().map(Vec::len).sum();
        assert!(total <= TURN_OUTPUT_MAX_BYTES + reply_bytes, "{total}");
        assert!(total == 0 || total.is_multiple_of(reply_bytes), "{total}");
        answered += total / reply_bytes;
        sent.iter_mut().for_each(|(_, bytes)| *bytes = b"");
    }
    assert_eq!(answered, 10);
    assert!(sent.iter().all(|(client, _)| !client.session.is_closing()));
    // A reply that is too long itself closes its connection alone.
    let (one, two) = clients.split_at_mut(1);
    let many = format!("MGET{}\r\n", " key".repeat(9));
    let mut sent = [(&mut one[0], many.as_bytes()), (&mut two[0], b"GET x\r\nSET x 1\r\n")];
    let replies = bench.send_all(&mut sent);
    assert!(replies[0].is_empty() && replies[1] == b"$-1\r\n+OK\r\n");
    assert!(one[0].session.is_closing() && !two[0].session.is_closing());
}

/// A conversation with everything that ends a batch.
fn conversation() -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in [
        "SET a 1",
        "GET a",
        "INCR a",
        "MGET a b",
        "MULTI",
        "SET b 2",
        "GET b",
        "EXEC",
        "PING",
        "MSET x 1 y 2",
        "HELLO 3",
        "GET none",
        "HSET h f v",
        "HGETALL h",
        "NOSUCH a",
        "SET a",
        "SCAN 0",
        "DEL a b x y h",
        "HELLO 2",
        "GET none",
        "WATCH a",
        "MULTI",
        "EXEC",
    ] {
        bytes.extend_from_slice(&command(&line.split(' ').collect::<Vec<_>>()));
    }
    bytes.extend_from_slice(b"ECHO 'in line'\r\nGET a\r\n\r\nSET a 1\r\n*0\r\nGET a\r\nQUIT\r\n");
    bytes
}

#[test]
fn replies_are_the_same_wherever_the_bytes_are_divided() {
    let bytes = conversation();
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    let whole = bench.send(&mut client, &bytes);
    assert!(whole.ends_with(b"$1\r\n1\r\n+OK\r\n") && client.session.is_closing());
    for at in 1..bytes.len() {
        let (mut bench, mut client) = (Bench::new(), Client::new(1));
        let mut replies = bench.send(&mut client, &bytes[..at]);
        replies.extend(bench.send(&mut client, &bytes[at..]));
        assert_eq!(replies, whole, "{at}");
    }
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    let replies: Vec<u8> = bytes.iter().flat_map(|b| bench.send(&mut client, &[*b])).collect();
    assert_eq!(replies, whole);
}

#[test]
fn connections_that_share_a_batch_are_answered_in_their_own_order() {
    let mut bench = Bench::new();
    let mut clients: Vec<_> = (0..40).map(Client::new).collect();
    let inputs: Vec<Vec<u8>> = (0..40)
        .map(|client| {
            let lines =
                (0..50).map(|n| format!("SET k{client} {n}\r\nGET k{client}\r\nPING {n}\r\n"));
            lines.collect::<String>().into_bytes()
        })
        .collect();
    let mut sent: Vec<_> = clients.iter_mut().zip(inputs.iter().map(Vec::as_slice)).collect();
    let expected: String = (0..50)
        .map(|n| {
            let n = n.to_string();
            format!("+OK\r\n${0}\r\n{n}\r\n${0}\r\n{n}\r\n", n.len())
        })
        .collect();
    for replies in bench.send_all(&mut sent) {
        assert_eq!(String::from_utf8(replies).unwrap(), expected);
    }
    assert_eq!(bench.communication.commands(), 40 * 150);
}

#[test]
fn the_corpus_of_the_fuzz_target_is_answered_the_same_in_pieces() {
    for (_, bytes) in corpus("kv_resp", 0) {
        let (choice, bytes) = bytes.split_first().unwrap();
        let (mut bench, mut client) = new_client(choice & 1 == 0);
        let whole = bench.send(&mut client, bytes);
        let at = bytes.len() * usize::from(choice >> 1) / 128;
        let (mut bench, mut client) = new_client(choice & 1 == 0);
        let mut replies = bench.send(&mut client, &bytes[..at]);
        replies.extend(bench.send(&mut client, &bytes[at..]));
        assert_eq!(replies, whole);
    }
}

fn new_client(is_authenticated: bool) -> (Bench, Client) {
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    bench.server.password = Some("secret");
    client.session = Session::new(1, is_authenticated);
    (bench, client)
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => proptest::sample::select(vec![
            b"*".to_vec(), b"$".to_vec(), b"\r\n".to_vec(), b"*3\r\n$3\r\nSET\r\n".to_vec(),
            b"$1\r\na\r\n".to_vec(), b"GET a\r\n".to_vec(), b"MULTI\r\n".to_vec(),
            b"EXEC\r\n".to_vec(), b"$-1\r\n".to_vec(), b"\"".to_vec(), b"'".to_vec(), b"\\x".to_vec(),
            b"*2\r\n$3\r\nDEL\r\n".to_vec(), b"99999999999999999999".to_vec(), b"-".to_vec(),
        ]),
        1 => proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn garbage_is_answered_and_the_same_in_pieces(bytes in pieces(), at in 0.0..1.0) {
        let (mut bench, mut client) = (Bench::new(), Client::new(1));
        let whole = bench.send(&mut client, &bytes);
        let (front, back) = bytes.split_at((bytes.len() as f64 * at) as usize);
        let (mut bench, mut client) = (Bench::new(), Client::new(1));
        let mut replies = bench.send(&mut client, front);
        replies.extend(bench.send(&mut client, back));
        prop_assert_eq!(replies, whole);
    }
}
