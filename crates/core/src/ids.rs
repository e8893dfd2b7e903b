//! Identifiers. The region assigns numbers in order of registration. GUIDs arrive with the command that needs
//! them, and further GUIDs are derived from those, so the core needs no randomness and a replay produces the
//! same IDs.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);
    };
}

number!(
    /// ID of a machine. IDs increase in order of registration.
    MachineId
);
number!(
    /// ID of a scope: the machines that share one document.
    ScopeId
);
number!(
    /// ID of an availability set, cloud service or scale set.
    GroupId
);

/// 128 bits, displayed as a GUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u128);

/// ID of an event. It never changes.
pub type EventId = Guid;
/// ID of an operation.
pub type OperationId = Guid;
/// ID of a rollout.
pub type RolloutId = Guid;

impl Guid {
    /// Derives the GUID with this index. The same input gives the same output, which has the version bits of a
    /// random (version 4) GUID.
    #[must_use]
    pub fn derive(self, index: u64) -> Guid {
        let high = mix((self.0 >> 64) as u64 ^ mix(index));
        let low = mix(self.0 as u64 ^ high.rotate_left(17));
        Guid::from_random_bits((u128::from(high) << 64) | u128::from(low))
    }

    /// Sets the version and variant bits of a version 4 GUID.
    #[must_use]
    pub const fn from_random_bits(bits: u128) -> Guid {
        let version = 0xf << 76;
        let variant = 0b11 << 62;
        Guid(bits & !version & !variant | 0x4 << 76 | 0b10 << 62)
    }
}

/// The finalizer of SplitMix64: every input bit affects every output bit.
pub(crate) const fn mix(mut x: u64) -> u64 {
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
