//! The bytes that guests send: the target of a request, and the body of an approval.

use forewarn_metadata::route;
use forewarn_wire::approval;
use forewarn_wire::query::{Query, wait_secs};
use forewarn_wire::version::{InstanceVersion, Version};

/// A request target such as `/vm/web/metadata/scheduledevents?api-version=2020-07-01`.
pub fn check_request(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let without_prefix = route::parse(path, false);
    if let Some(target) = &without_prefix {
        assert!(target.machine.is_none(), "a prefix is read where none is allowed");
        assert_eq!(route::parse(path, true).as_ref(), Some(target), "allowing prefixes changes a path without one");
    }
    let _ = route::parse(path, true);
    if let Ok(query) = Query::parse(query) {
        let _ = Version::parse(query.api_version.as_deref());
        let _ = InstanceVersion::parse(query.api_version.as_deref());
    }
    let _ = wait_secs(text);
}

pub fn check_approval(input: &[u8]) {
    let Ok(ids) = approval::parse(input) else { return };
    assert!(std::str::from_utf8(input).is_ok(), "an approval that is not text was accepted");
    assert!(ids.len() <= input.len(), "there are more IDs than bytes");
}
