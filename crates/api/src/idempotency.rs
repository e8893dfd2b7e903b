//! The header `Idempotency-Key`: a request that is repeated with the same key returns the operation of the first one.
//!
//! The key determines the ID of the operation. The rules know an operation for an hour after its end; a repeated request
//! with the same ID changes nothing, and a different one is refused.
//!
//! The rules compare the machines of both requests. They cannot do so when the first request has deleted them, so a
//! deletion stores a hash of its request beside its operation.

use forewarn_access::Principal;
use forewarn_access::digest::hex;
use forewarn_core::{Guid, OperationId};
use forewarn_store::{Attachment, Owner};
use http::request::Parts;
use ring::digest::{SHA256, digest};

const HEADER: &str = "idempotency-key";

/// The name of the attachment of an operation that deletes something.
pub const DELETION_ATTACHMENT: &str = "deletion";

/// The key of a request. Each principal has keys of its own.
#[derive(Clone)]
pub struct RequestKey {
    /// The ID of the operation that the request starts.
    pub operation: OperationId,
    /// Method and path.
    line: String,
}

impl RequestKey {
    /// None: the request has no key.
    pub fn find(parts: &Parts, principal: &Principal) -> Option<RequestKey> {
        let key = parts.headers.get(HEADER)?;
        let hash = digest(&SHA256, &[principal.name.as_bytes(), b"\0", key.as_bytes()].concat());
        let first: [u8; 16] = hash.as_ref()[..16].try_into().ok()?;
        let operation = Guid::from_random_bits(u128::from_be_bytes(first));
        Some(RequestKey { operation, line: format!("{} {}", parts.method, parts.uri.path()) })
    }

    /// A hash of the request. `instances` are those that its body names.
    pub fn hash_deletion(&self, instances: &[String]) -> String {
        let text = [std::slice::from_ref(&self.line), instances].concat().join("\n");
        hex(digest(&SHA256, text.as_bytes()).as_ref())
    }

    pub fn deletion_attachment(&self, instances: &[String]) -> Attachment {
        Attachment {
            owner: Owner::Operation(self.operation),
            name: DELETION_ATTACHMENT.to_owned(),
            value: Some(self.hash_deletion(instances)),
        }
    }
}
