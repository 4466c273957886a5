//! Access control of calls: a password as bearer token, or with any user name as HTTP's basic
//! authentication.

use std::sync::Arc;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use overside_link::Password;
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::connection::Peer;
use crate::service::{Counters, Service};

/// Looks at each call before anything of it is read but its headers.
#[derive(Clone)]
pub(crate) struct AuthInterceptor {
    /// The password, if one is needed.
    pub password: Option<Password>,
    /// Service whose counter of calls without the password is increased.
    pub service: Arc<Service>,
}

/// Go's client leaves the padding away.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl Interceptor for AuthInterceptor {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(password) = &self.password else {
            return Ok(request);
        };
        let said = authorization(request.metadata());
        match said.is_some_and(|said| password.is(&said)) {
            true => {
                if let Some(peer) = request.extensions().get::<Peer>() {
                    peer.authenticated();
                }
                Ok(request)
            }
            false => {
                Counters::add(&self.service.counters.unauthenticated, 1);
                Err(Status::unauthenticated("a password is needed, as bearer token or basic"))
            }
        }
    }
}

/// The password that a call comes with.
fn authorization(metadata: &MetadataMap) -> Option<Vec<u8>> {
    let header = metadata.get("authorization")?.to_str().ok()?;
    let (scheme, credentials) = header.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(credentials.into());
    }
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    let decoded = is_basic.then(|| BASE64.decode(credentials).ok())??;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
}

/// Returns the call's password as a bearer token, which an authenticated client sends with its
/// later calls.
pub(crate) fn bearer(metadata: &MetadataMap) -> Option<String> {
    let password = String::from_utf8(authorization(metadata)?).ok()?;
    Some(format!("Bearer {password}"))
}

#[cfg(test)]
mod tests {
    use tonic::metadata::MetadataMap;

    use super::authorization;

    #[test]
    fn a_password_is_a_token_or_behind_a_name() {
        let said = |header: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("authorization", header.parse().unwrap());
            authorization(&metadata).map(|bytes| String::from_utf8(bytes).unwrap())
        };
        assert_eq!(said("Bearer word").as_deref(), Some("word"));
        assert_eq!(said("basic dTpwYTpzcw==").as_deref(), Some("pa:ss"));
        assert_eq!(said("Basic dTpwYTpzcw").as_deref(), Some("pa:ss"));
        for wrong in ["word", "Basic ?", "Basic dQ==", "Digest word"] {
            assert_eq!(said(wrong), None);
        }
    }
}
