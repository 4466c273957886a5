//! Tests of outputs to a bucket, against a store that is busy at first.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use overside_flow::Error;
use overside_flow::object_store::{ObjectFile, ObjectStore};

/// Starts a store that is busy for two requests and then takes one. Returns its address, and the path and the body of
/// that request.
fn store() -> (String, std::thread::JoinHandle<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        let answer = |status| serve(&listener.accept().unwrap().0, status);
        assert_eq!(answer("503 Slow Down"), answer("503 Slow Down"));
        answer("200 OK")
    };
    (address, std::thread::spawn(serve))
}

/// Answers one request, whose body has to have its digest.
fn serve(stream: &TcpStream, status: &str) -> (String, Vec<u8>) {
    let mut lines = BufReader::new(stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert!(lines.read_until(b'\n', &mut head).unwrap() > 0);
    }
    let head = String::from_utf8(head).unwrap();
    let headers: BTreeMap<_, _> = head.lines().filter_map(|line| line.split_once(": ")).collect();
    let mut body = vec![0; headers["content-length"].parse().unwrap()];
    lines.read_exact(&mut body).unwrap();
    let digest = ring::digest::digest(&ring::digest::SHA256, &body);
    let digits: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(headers["x-amz-content-sha256"], digits);
    write!(&*stream, "HTTP/1.1 {status}\r\netag: \"1\"\r\ncontent-length: 0\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body)
}

fn variables(endpoint: &str) -> Vec<(String, String)> {
    let all = [
        ("AWS_ENDPOINT_URL_S3", endpoint),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    all.map(|(name, value)| (name.into(), value.into())).into()
}

fn put(endpoint: &str, name: &str, bytes: &[u8]) -> Result<u64, Error> {
    let store = Arc::new(ObjectStore::new("s3://flows/run 1/", variables(endpoint))?);
    let mut file = ObjectFile::create(&store, name.into(), false)?;
    file.write_all(bytes)?;
    file.finish()
}

#[test]
fn an_object_is_put_whole_once_the_store_is_not_busy() {
    for len in [0, 3_000_000_u32] {
        let (endpoint, store) = store();
        let bytes: Vec<u8> = (0..len).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
        assert_eq!(put(&endpoint, "part+ü", &bytes).unwrap(), u64::from(len));
        let (path, body) = store.join().unwrap();
        assert_eq!(path, "/flows/run%201/part%2B%C3%BC");
        assert!(body == bytes);
    }
}

#[test]
fn what_is_missing_is_said() {
    let refusal = |address: &str, variables: Vec<(String, String)>| {
        let error = ObjectStore::new(address, variables).err().expect("is refused");
        error.to_string()
    };
    let error = refusal("s3://flows/x", variables("http://h")[..2].into());
    assert!(error.contains("AWS_SECRET_ACCESS_KEY is not set"), "{error}");
    let error = refusal("s3://a", variables("http://h"));
    assert!(error.contains("s3://BUCKET/PREFIX"), "{error}");
    let error = refusal("s3://flows", variables("ftp://x"));
    assert!(error.contains("no http"), "{error}");
    // Nothing listens there: reported after several attempts.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = put(&format!("http://{nobody}"), "a", b"x").unwrap_err();
    assert!(error.to_string().contains("retries"), "{error}");
}
