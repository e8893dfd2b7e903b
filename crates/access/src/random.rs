//! Random IDs. The rules take them as arguments.

use forewarn_core::Guid;

pub fn random_guid() -> Guid {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system provides random bytes");
    Guid::random_shaped(u128::from_le_bytes(bytes))
}
