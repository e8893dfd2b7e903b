//! The built-in scenarios: the event sequences that Azure documents, and faults of the metadata endpoint.

/// A built-in scenario.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinScenario {
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        &[$(BuiltinScenario { name: $name, text: include_str!(concat!("shipped/", $name, ".toml")) }),+]
    };
}

pub const BUILTIN_SCENARIOS: &[BuiltinScenario] = shipped![
    "live-migration",
    "host-maintenance",
    "user-reboot",
    "user-redeploy",
    "host-failure",
    "hardware-failure",
    "canceled-maintenance",
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

/// Former names of scenarios, which stay valid.
const RENAMED: &[(&str, &str)] = &[("cancelled-maintenance", "canceled-maintenance")];

pub fn find_builtin(name: &str) -> Option<&'static BuiltinScenario> {
    let name = RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
    BUILTIN_SCENARIOS.iter().find(|shipped| shipped.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_names_are_accepted() {
        for (old, new) in RENAMED {
            assert_eq!(find_builtin(old).map(|found| found.name), Some(*new));
        }
    }
}
