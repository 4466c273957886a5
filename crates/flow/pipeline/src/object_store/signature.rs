//! AWS Signature Version 4 ("Authenticating Requests: Using the Authorization Header", Amazon S3 API
//! Reference).
//!
//! 1. The *canonical request* is the method, path, query, headers and digest of the body, one per line.
//! 2. The *string to sign* is the time, the scope (day, region, service) and the digest of that.
//! 3. The key is an HMAC chain over the parts of the scope, starting with the secret.

use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::temporal_conversions::timestamp_s_to_datetime;
use ring::{digest, hmac};

/// Credentials with which requests to the object store are signed.
#[derive(Clone)]
pub(super) struct Credentials {
    /// Id of the key.
    pub access_key: String,
    /// Secret key.
    pub secret_key: String,
    /// Token of temporary keys.
    pub session_token: Option<String>,
}

/// Parts of a request that its signature covers.
pub(super) struct Request<'a> {
    /// Method, such as `PUT`.
    pub method: &'a str,
    /// Encoded path without a query.
    pub path: &'a str,
    /// Headers: names in lower case, sorted, and values.
    pub headers: &'a [(&'a str, String)],
    /// SHA-256 of the body, in hexadecimal digits.
    pub sha256: &'a str,
    /// Time of the request, in the format of [`timestamp`].
    pub date: &'a str,
    /// Region of the bucket, such as `us-east-1`.
    pub region: &'a str,
}

/// Returns the header `Authorization`.
pub(super) fn authorization(request: &Request<'_>, credentials: &Credentials) -> String {
    let names: Vec<&str> = request.headers.iter().map(|(name, _)| *name).collect();
    format!(
        "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
        credentials.access_key,
        scope(request),
        names.join(";"),
        signature(request, &credentials.secret_key)
    )
}

/// Returns the signature in hexadecimal digits.
fn signature(request: &Request<'_>, secret_key: &str) -> String {
    let headers = request.headers.iter();
    let lines: String =
        headers.clone().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let names: Vec<&str> = headers.map(|(name, _)| *name).collect();
    let canonical = format!(
        "{}\n{}\n\n{lines}\n{}\n{}",
        request.method,
        request.path,
        names.join(";"),
        request.sha256
    );
    let digest = digest::digest(&digest::SHA256, canonical.as_bytes());
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{}\n{}\n{}", request.date, scope(request), hex(digest.as_ref()));
    let first = format!("AWS4{secret_key}").into_bytes();
    let parts = [day(request), request.region, "s3", "aws4_request", &to_sign];
    let signed = parts.into_iter().fold(first, |key, part| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        hmac::sign(&key, part.as_bytes()).as_ref().to_vec()
    });
    hex(&signed)
}

fn day<'a>(request: &Request<'a>) -> &'a str {
    request.date.get(..8).unwrap_or_default()
}

fn scope(request: &Request<'_>) -> String {
    format!("{}/{}/s3/aws4_request", day(request), request.region)
}

/// Encodes a name for a path: everything except unreserved characters and slashes is escaped.
pub(super) fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(byte as char);
            }
            other => text += &format!("%{other:02X}"),
        }
    }
    text
}

/// Returns hexadecimal digits in lower case.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats a time as `20130524T000000Z`.
pub(super) fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let time = timestamp_s_to_datetime(seconds as i64).unwrap_or_default();
    time.format("%Y%m%dT%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    const DATE: &str = "20130524T000000Z";
    const HOST: &str = "examplebucket.s3.amazonaws.com";

    fn signed(method: &str, path: &str, headers: &[(&str, &str)], sha256: &str) -> String {
        let more = [("host", HOST), ("x-amz-content-sha256", sha256), ("x-amz-date", DATE)];
        let mut headers: Vec<(&str, String)> = (headers.iter().chain(&more))
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        headers.sort();
        let request =
            Request { method, path, headers: &headers, sha256, date: DATE, region: "us-east-1" };
        signature(&request, SECRET)
    }

    /// Examples of Amazon's reference, "Signature Calculations for the Authorization Header".
    #[test]
    fn signatures_are_those_of_the_reference() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(
            signed("GET", "/test.txt", &[("range", "bytes=0-9")], empty),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let headers = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        let body = digest::digest(&digest::SHA256, b"Welcome to Amazon S3.");
        assert_eq!(
            signed("PUT", &encoded("/test$file.text"), &headers, &hex(body.as_ref())),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
    }
}
