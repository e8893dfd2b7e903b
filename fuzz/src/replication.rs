//! The bytes that servers of a cluster and host agents read: records of the log in etcd, and the stream of a host.

use forewarn_api_types::host_link::StreamLine;
use forewarn_cluster::encoding;
use forewarn_host::Copy;
use forewarn_store::Change;

pub fn check_log_record(input: &[u8]) {
    let _ = encoding::decode_leader(input);
    let _ = encoding::decode_heartbeat(input);
    let _ = encoding::decode_member("n1", input);
    let _ = encoding::decode_position(input);
    let Ok(record) = encoding::decode_record(input) else { return };
    let again = encoding::decode_record(&encoding::encode_record(&record));
    assert_eq!(again, Ok(record), "a record that was read cannot be written and read again");
}

/// The payload of a record.
pub fn check_change(input: &[u8]) {
    let Ok(change) = Change::decode(input) else { return };
    let bytes = change.encode().expect("a change that was read can be written");
    assert_eq!(Change::decode(&bytes).ok(), Some(change), "a change that was written cannot be read again");
}

/// The lines of a stream. Whatever the server sends, a document never goes backward.
pub fn check_host_stream(input: &[u8]) {
    let mut copy = Copy::empty("h1".into());
    for line in input.split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<StreamLine>(line) else { continue };
        let Ok(Some(next)) = copy.apply(&line) else { continue };
        assert!(next.revision() >= copy.revision(), "the revision fell");
        for scope in copy.snapshot().region.scopes() {
            let fell = next.snapshot().region.scope(scope.id).is_some_and(|it| it.incarnation < scope.incarnation);
            assert!(!fell, "the incarnation of scope {} fell", scope.id.0);
        }
        copy = next;
    }
}
