//! The oracle against answers that Redis and memcached document.

use overside_kv::{Answer, KeyHasher, Operation, ProcessingEngine, Refusal, Request};

use crate::oracle::Oracle;

/// The answer as text.
fn ask(engine: &mut dyn ProcessingEngine, key: &str, operation: Operation<'_>) -> String {
    let request = Request::new(key.as_bytes(), &KeyHasher::with_seeds([1, 2, 3, 4]), operation);
    let mut text = String::new();
    engine.execute(&[request], 1000, &mut |_, answer| {
        text = match answer {
            Answer::Value(value) => String::from_utf8_lossy(value.data).into_owned(),
            Answer::Stored { .. } => "stored".to_owned(),
            other => format!("{other:?}"),
        }
    });
    text
}

fn set(value: &str) -> Operation<'_> {
    Operation::set(value.as_bytes())
}

#[test]
fn the_oracle_answers_as_redis_documents() {
    let mut oracle = Oracle::default();
    let engine: &mut dyn ProcessingEngine = &mut oracle;
    let range = |start, end| Operation::GetRange { start, end };
    let float = |delta: &'static str| Operation::IncrementFloat { delta: delta.as_bytes() };
    // Examples of GETRANGE, INCRBYFLOAT, SETRANGE and INCRBY in Redis's documentation.
    assert_eq!(ask(engine, "s", set("This is a string")), "stored");
    assert_eq!(ask(engine, "s", range(0, 3)), "This");
    assert_eq!(ask(engine, "s", range(-3, -1)), "ing");
    assert_eq!(ask(engine, "s", range(0, -1)), "This is a string");
    assert_eq!(ask(engine, "s", range(10, 100)), "string");
    ask(engine, "f", set("10.50"));
    assert_eq!(ask(engine, "f", float("0.1")), "10.6");
    assert_eq!(ask(engine, "f", float("-5")), "5.6");
    ask(engine, "f", set("5.0e3"));
    assert_eq!(ask(engine, "f", float("2.0e2")), "5200");
    ask(engine, "h", set("Hello World"));
    let value = b"Redis";
    let length = Operation::SetRange { offset: 6, value };
    assert_eq!(ask(engine, "h", length), "Number(11)");
    assert_eq!(ask(engine, "h", Operation::Get), "Hello Redis");
    ask(engine, "n", set("010"));
    let refused = format!("{:?}", Answer::Refused(Refusal::NotAnInteger));
    assert_eq!(ask(engine, "n", Operation::Increment { delta: 1 }), refused);
}
