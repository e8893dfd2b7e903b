//! Random bytes and IDs. The rules take them as arguments.
//!
//! From ring, which asks the kernel directly: a static program in an empty root directory has no `/dev/urandom`.

use forewarn_core::Guid;
use ring::rand::{SecureRandom as _, SystemRandom};

pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system provides random bytes");
    bytes
}

pub fn random_guid() -> Guid {
    Guid::from_random_bits(u128::from_le_bytes(random_bytes()))
}
