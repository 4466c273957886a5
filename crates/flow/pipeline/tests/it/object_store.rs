//! Tests of outputs to a bucket, against a store that checks its requests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use overside_flow::Error;
use overside_flow::object_store::{
    ObjectFile, ObjectStore, ObjectStoreSettings, Request, hex, signature,
};

const SECRET: &str = "secret";

/// Objects of a test store, and the number of requests that it will still answer as busy.
#[derive(Default)]
struct Bucket {
    objects: BTreeMap<String, Vec<u8>>,
    busy: u32,
}

/// Starts a store that accepts `PUT` with a valid signature and digest.
fn store(busy: u32) -> (String, Arc<Mutex<Bucket>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let bucket = Bucket { busy, ..Bucket::default() };
    let bucket = Arc::new(Mutex::new(bucket));
    let shared = Arc::clone(&bucket);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            serve(&stream, &shared);
        }
    });
    (address, bucket)
}

/// Answers one request.
fn serve(stream: &TcpStream, bucket: &Mutex<Bucket>) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let len = headers["content-length"].parse().unwrap();
    let mut body = vec![0; len];
    reader.read_exact(&mut body).unwrap();
    let (status, code) = answer(&method, &path, &headers, body, &mut bucket.lock().unwrap());
    let xml = format!("<Error><Code>{code}</Code><Message>in words</Message></Error>");
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", xml.len());
    (&mut &*stream).write_all((head + &xml).as_bytes()).unwrap();
}

fn answer(
    method: &str,
    path: &str,
    headers: &BTreeMap<String, String>,
    body: Vec<u8>,
    bucket: &mut Bucket,
) -> (u16, &'static str) {
    let authorization = &headers["authorization"];
    let signed = authorization.split_once("SignedHeaders=").unwrap().1;
    let (names, rest) = signed.split_once(", ").unwrap();
    let signed: Vec<(&str, String)> =
        names.split(';').map(|name| (name, headers[name].clone())).collect();
    let sha256 = &headers["x-amz-content-sha256"];
    let request = Request {
        method,
        path,
        headers: &signed,
        sha256,
        date: &headers["x-amz-date"],
        region: "eu-north-1",
    };
    if rest != format!("Signature={}", signature(&request, SECRET)) {
        return (403, "SignatureDoesNotMatch");
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, &body);
    if *sha256 != hex(digest.as_ref()) {
        return (400, "XAmzContentSHA256Mismatch");
    }
    if bucket.busy > 0 {
        bucket.busy -= 1;
        return (503, "SlowDown");
    }
    if headers.contains_key("if-none-match") && bucket.objects.contains_key(path) {
        return (412, "PreconditionFailed");
    }
    bucket.objects.insert(path.to_owned(), body);
    (200, "")
}

fn settings(endpoint: &str) -> ObjectStoreSettings {
    ObjectStoreSettings {
        endpoint: Some(endpoint.into()),
        region: Some("eu-north-1".into()),
        access_key: Some("key".into()),
        secret_key: Some(SECRET.into()),
        ..ObjectStoreSettings::default()
    }
}

fn put(
    settings: &ObjectStoreSettings,
    name: &str,
    bytes: &[u8],
    replace: bool,
) -> Result<u64, Error> {
    let store = Arc::new(ObjectStore::new("s3://flows/run 1/", settings)?);
    let mut file = ObjectFile::create(&store, name.into(), replace)?;
    file.write_all(bytes)?;
    file.finish()
}

#[test]
fn objects_are_put_whole_and_replaced_only_on_request() {
    let (endpoint, bucket) = store(2);
    let settings = settings(&endpoint);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    // The store is busy twice, and then accepts the request.
    assert_eq!(put(&settings, "part-0.arrow", &bytes, false).unwrap(), 3_000_000);
    assert!(bucket.lock().unwrap().objects["/flows/run%201/part-0.arrow"] == bytes);
    let error = put(&settings, "part-0.arrow", b"new", false).unwrap_err().to_string();
    assert_eq!(error, "s3://flows/run 1/part-0.arrow exists");
    assert_eq!(put(&settings, "part-0.arrow", b"new", true).unwrap(), 3);
    assert_eq!(put(&settings, "empty+ü", b"", false).unwrap(), 0);
    let names: Vec<String> = bucket.lock().unwrap().objects.keys().cloned().collect();
    assert_eq!(names, ["/flows/run%201/empty%2B%C3%BC", "/flows/run%201/part-0.arrow"]);
}

#[test]
fn what_a_store_refuses_is_said_with_the_object() {
    let (endpoint, bucket) = store(0);
    let wrong = ObjectStoreSettings { secret_key: Some("another".into()), ..settings(&endpoint) };
    let error = put(&wrong, "a", b"x", false).unwrap_err().to_string();
    for part in ["s3://flows/run 1/a: ", "refused it: 403 SignatureDoesNotMatch in words"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(bucket.lock().unwrap().objects.is_empty());
    let missing = ObjectStoreSettings::default();
    let refusal = |address: &str, settings: &ObjectStoreSettings| {
        let error = ObjectStore::new(address, settings).err().expect("is refused");
        error.to_string()
    };
    let error = refusal("s3://flows/x", &missing);
    assert!(error.contains("AWS_ACCESS_KEY_ID is not set"), "{error}");
    let error = refusal("s3://a", &settings(&endpoint));
    assert!(error.contains("s3://BUCKET/PREFIX"), "{error}");
    let error = refusal("s3://flows", &settings("ftp://x"));
    assert!(error.contains("no http"), "{error}");
    // Nothing listens there: reported after several attempts.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = put(&settings(&format!("http://{nobody}")), "a", b"x", false).unwrap_err();
    assert!(error.to_string().contains("(4 times)"), "{error}");
}
