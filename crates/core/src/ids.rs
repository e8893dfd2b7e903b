//! Names of things. Small numbers are given out by the region in order of registration; GUIDs come in
//! with the command that needs them, and further ones are derived from those, so that the core stays
//! without randomness and a replay gives the same ids.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);
    };
}

number!(
    /// A machine, in order of registration.
    MachineId
);
number!(
    /// A group of machines that shares one document.
    ScopeId
);
number!(
    /// An availability set, a cloud service or a scale set.
    GroupId
);

/// 128 bits, shown as a GUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u128);

/// The id of an event, the same for its whole life.
pub type EventId = Guid;
/// The id of an operation.
pub type OperationId = Guid;

impl Guid {
    /// A GUID of its own for the `index`th thing that comes from this one. Equal input, equal output;
    /// the result has the bits of a random (version 4) GUID.
    #[must_use]
    pub fn derive(self, index: u64) -> Guid {
        let high = mix((self.0 >> 64) as u64 ^ mix(index));
        let low = mix(self.0 as u64 ^ high.rotate_left(17));
        Guid::random_shaped((u128::from(high) << 64) | u128::from(low))
    }

    /// The same bits with those of version 4 set.
    #[must_use]
    pub const fn random_shaped(bits: u128) -> Guid {
        let version = 0xf << 76;
        let variant = 0b11 << 62;
        Guid(bits & !version & !variant | 0x4 << 76 | 0b10 << 62)
    }
}

/// The finaliser of SplitMix64: every input bit reaches every output bit.
const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            (v >> 96) as u32,
            (v >> 80) as u16,
            (v >> 64) as u16,
            (v >> 48) as u16,
            v & 0xffff_ffff_ffff
        )
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
