//! Tests with bytes that libvirtd 11.3 sent for its test driver.

use crate::domain::Domain;
use crate::error::{ErrorCode, LibvirtError};
use crate::event::{CallbackId, Event, Lifecycle};
use crate::xdr::Decoder;

const UUID: &str = "6695eb01-f6a4-8304-79aa-97f2502e193f";

/// Reply to `virDomainLookupByName("nope")`.
const ERROR: &[u8] = b"\0\0\0*\0\0\0\x0c\0\0\0\x01\0\0\0\x10Domain not found\0\0\0\x02\0\0\0\0\
    \0\0\0\x01\0\0\0\x10Domain not found\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0";

/// Reply to `virConnectListAllDomains`.
const LIST: &[u8] = b"\0\0\0\x01\0\0\0\x04testf\x95\xeb\x01\xf6\xa4\x83\x04y\xaa\x97\xf2P.\x19?\0\0\0\x01\0\0\0\x01";

/// Event after `virDomainSuspend`.
const SUSPENDED: &[u8] =
    b"\0\0\0\0\0\0\0\x04testf\x95\xeb\x01\xf6\xa4\x83\x04y\xaa\x97\xf2P.\x19?\0\0\0\x01\0\0\0\x03\0\0\0\0";

const LIFECYCLE: i32 = 318;

fn domain() -> Domain {
    Domain { name: "test".into(), uuid: UUID.parse().unwrap(), id: Some(1) }
}

#[test]
fn errors_carry_code_domain_and_message() {
    let error = LibvirtError::decode(ERROR).unwrap();
    assert_eq!(error, LibvirtError { code: ErrorCode::NO_DOMAIN, domain: 12, message: "Domain not found".into() });
    for length in 0..ERROR.len() {
        assert!(LibvirtError::decode(&ERROR[..length]).is_err());
    }
}

#[test]
fn lists_of_domains_are_read() {
    let mut decoder = Decoder::new(LIST);
    assert_eq!(decoder.list(16, Domain::decode), Ok(vec![domain()]));
    assert_eq!(decoder.u32(), Ok(1));
    assert_eq!(domain().encode(crate::xdr::Encoder::new()).finish(), LIST[4..32]);
}

#[test]
fn events_are_read_and_malformed_or_unknown_ones_ignored() {
    let expected =
        Event::Lifecycle { callback: CallbackId(0), domain: domain(), change: Lifecycle::Suspended, detail: 0 };
    assert_eq!(Event::decode(LIFECYCLE, SUSPENDED), Some(expected));
    for length in 0..SUSPENDED.len() {
        assert_eq!(Event::decode(LIFECYCLE, &SUSPENDED[..length]), None);
    }
    assert_eq!(Event::decode(9999, SUSPENDED), None);
}
