//! Builds transactions and takes their answers apart.

use super::keys::KeyRange;
use super::messages::{
    Compare, CompareTarget, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestKind, RequestOp,
    ResponseKind, TxnRequest, TxnResponse,
};

const TARGET_MOD: i32 = 2;
const TARGET_VALUE: i32 = 3;

/// True if the key was last changed at this revision of etcd; 0 stands for a missing key.
pub fn is_version(key: Vec<u8>, version: u64) -> Compare {
    let target = CompareTarget::ModRevision(i64::try_from(version).unwrap_or(i64::MAX));
    Compare { target: TARGET_MOD, key, target_union: Some(target) }
}

pub fn is_value(key: Vec<u8>, value: impl Into<Vec<u8>>) -> Compare {
    Compare { target: TARGET_VALUE, key, target_union: Some(CompareTarget::Value(value.into())) }
}

pub fn get(key: Vec<u8>) -> RequestOp {
    range(RangeRequest { key, ..RangeRequest::default() })
}

pub fn get_range((key, range_end): KeyRange, limit: usize) -> RequestOp {
    range(RangeRequest { key, range_end, limit: limit as i64, revision: 0 })
}

/// The value of a key at an earlier revision of etcd.
pub fn get_at(key: Vec<u8>, revision: i64) -> RequestOp {
    range(RangeRequest { key, revision, ..RangeRequest::default() })
}

fn range(request: RangeRequest) -> RequestOp {
    RequestOp { request: Some(RequestKind::Range(request)) }
}

pub fn put(key: Vec<u8>, value: impl Into<Vec<u8>>) -> RequestOp {
    RequestOp { request: Some(RequestKind::Put(PutRequest { key, value: value.into() })) }
}

pub fn delete(key: Vec<u8>) -> RequestOp {
    delete_range((key, Vec::new()))
}

pub fn delete_range((key, range_end): KeyRange) -> RequestOp {
    RequestOp { request: Some(RequestKind::DeleteRange(DeleteRangeRequest { key, range_end })) }
}

/// A transaction without a condition.
pub fn always(success: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { compare: Vec::new(), success, failure: Vec::new() }
}

/// The result of a transaction.
pub struct Answer {
    pub succeeded: bool,
    /// The revision of etcd at the transaction.
    pub revision: i64,
    ranges: std::vec::IntoIter<Vec<KeyValue>>,
}

impl Answer {
    /// The keys of the next read in the transaction, in order.
    pub fn next_range(&mut self) -> Vec<KeyValue> {
        self.ranges.next().unwrap_or_default()
    }

    pub fn next_key(&mut self) -> Option<KeyValue> {
        self.next_range().into_iter().next()
    }
}

impl From<TxnResponse> for Answer {
    fn from(response: TxnResponse) -> Answer {
        let ranges: Vec<Vec<KeyValue>> = response
            .responses
            .into_iter()
            .filter_map(|op| match op.response {
                Some(ResponseKind::Range(range)) => Some(range.kvs),
                Some(ResponseKind::Put(_) | ResponseKind::DeleteRange(_)) | None => None,
            })
            .collect();
        let revision = response.header.map_or(0, |header| header.revision);
        Answer { succeeded: response.succeeded, revision, ranges: ranges.into_iter() }
    }
}
