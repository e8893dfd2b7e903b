//! The built-in scenarios: the event sequences that Azure documents, and faults of the metadata endpoint.

/// A built-in scenario.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        &[$(Shipped { name: $name, text: include_str!(concat!("shipped/", $name, ".toml")) }),+]
    };
}

pub const SHIPPED: &[Shipped] = shipped![
    "live-migration",
    "host-maintenance",
    "user-reboot",
    "user-redeploy",
    "host-failure",
    "hardware-failure",
    "cancelled-maintenance",
    "eviction",
    "terminate",
    "terminate-gate",
    "someone-else",
    "unknown-type",
    "throttled",
    "gone",
    "server-error",
    "unavailable",
    "reset",
    "truncated",
    "malformed",
    "slow-answers",
    "slow-first-call",
    "incarnation-restart",
];

pub fn find_shipped(name: &str) -> Option<&'static Shipped> {
    SHIPPED.iter().find(|shipped| shipped.name == name)
}
