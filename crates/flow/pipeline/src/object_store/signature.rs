//! AWS Signature Version 4 ("Authenticating Requests: Using the Authorization Header", Amazon S3 API
//! Reference).
//!
//! 1. The *canonical request* is the method, path, query, headers and digest of the body, one per line.
//! 2. The *string to sign* is the time, the scope (day, region, service) and the digest of that.
//! 3. The key is an HMAC chain over the parts of the scope, starting with the secret.

use std::time::{SystemTime, UNIX_EPOCH};

use ring::{digest, hmac};

/// Credentials with which requests to the object store are signed.
#[derive(Clone)]
pub struct Credentials {
    /// Id of the key.
    pub access_key: String,
    /// Secret key.
    pub secret_key: String,
    /// Token of temporary keys.
    pub session_token: Option<String>,
}

/// Parts of a request that its signature covers.
pub struct Request<'a> {
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
pub fn signature(request: &Request<'_>, secret_key: &str) -> String {
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
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats a time as `20130524T000000Z`. The date is computed by Hinnant's `civil_from_days`.
pub fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Eras of 400 years that begin on the first of March.
    let from_march = days + 719_468;
    let (era, day_of_era) = (from_march / 146_097, from_march % 146_097);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days.min(day_of_era)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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

    #[test]
    fn times_are_dates() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_369_353_600, DATE),
            (1_709_164_800, "20240229T000000Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
