//! Where the program's random ids come from. The rules have none of their own.

use forewarn_core::Guid;

pub fn random_guid() -> Guid {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    Guid::random_shaped(u128::from_le_bytes(bytes))
}
