//! The header `Idempotency-Key`: a request that is repeated with the same key returns the operation of the first one.
//!
//! The key determines the ID of the operation. The rules know an operation for an hour after its end; a repeated request
//! with the same ID changes nothing, and a different one is refused.

use forewarn_access::Principal;
use forewarn_core::{Guid, OperationId};
use http::HeaderMap;
use ring::digest::{SHA256, digest};

const HEADER: &str = "idempotency-key";

/// The ID of the operation that the request starts. None: the request has no key. Each principal has keys of its own.
pub fn find_operation_id(headers: &HeaderMap, principal: &Principal) -> Option<OperationId> {
    let key = headers.get(HEADER)?;
    let text = [principal.name.as_bytes(), b"\0", key.as_bytes()].concat();
    let hash = digest(&SHA256, &text);
    let first: [u8; 16] = hash.as_ref()[..16].try_into().ok()?;
    Some(Guid::random_shaped(u128::from_be_bytes(first)))
}
