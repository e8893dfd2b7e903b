//! Known resource types: their spelling, their api-versions, and whether a template may contain them.
//!
//! Clients write types in any case (`publicIpAddresses`, `publicIPAddresses`); responses use one spelling. This
//! module does not know what a type means.

/// Whether a template may contain resources of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deployable {
    Yes,
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownType {
    /// Namespace and type, `Microsoft.Compute/virtualMachines`.
    pub name: &'static str,
    /// Newest first. Shown by `providers()` and the list of providers; other versions are accepted too.
    pub api_versions: &'static [&'static str],
    pub deployable: Deployable,
}

pub const ALL: &[KnownType] = &[
    compute("Microsoft.Compute/virtualMachines", Deployable::Yes),
    compute("Microsoft.Compute/virtualMachineScaleSets", Deployable::Yes),
    compute("Microsoft.Compute/virtualMachineScaleSets/virtualMachines", Deployable::No),
    compute("Microsoft.Compute/availabilitySets", Deployable::Yes),
    compute("Microsoft.Compute/locations", Deployable::No),
    compute("Microsoft.Compute/locations/operations", Deployable::No),
    compute("Microsoft.Compute/locations/vmSizes", Deployable::No),
    compute("Microsoft.Compute/locations/publishers", Deployable::No),
    compute("Microsoft.Compute/skus", Deployable::No),
    compute("Microsoft.Compute/operations", Deployable::No),
    network("Microsoft.Network/virtualNetworks"),
    network("Microsoft.Network/virtualNetworks/subnets"),
    network("Microsoft.Network/publicIPAddresses"),
    network("Microsoft.Network/loadBalancers"),
    network("Microsoft.Network/loadBalancers/inboundNatRules"),
    network("Microsoft.Network/networkSecurityGroups"),
    network("Microsoft.Network/networkSecurityGroups/securityRules"),
    network("Microsoft.Network/networkInterfaces"),
    KnownType {
        name: "Microsoft.Resources/deployments",
        api_versions: &["2024-11-01", "2022-09-01", "2021-04-01"],
        deployable: Deployable::No,
    },
    KnownType {
        name: "Microsoft.Resources/deployments/operationStatuses",
        api_versions: &["2024-11-01", "2022-09-01", "2021-04-01"],
        deployable: Deployable::No,
    },
    maintenance("Microsoft.Maintenance/maintenanceConfigurations"),
    maintenance("Microsoft.Maintenance/configurationAssignments"),
    maintenance("Microsoft.Maintenance/applyUpdates"),
    maintenance("Microsoft.Maintenance/updates"),
    KnownType {
        name: "Microsoft.Maintenance/scheduledevents",
        api_versions: &["2026-02-01-preview", "2025-10-01-preview", "2023-10-01-preview"],
        deployable: Deployable::No,
    },
];

/// Words in IDs and paths that are not types.
const OTHER_WORDS: &[&str] = &["subscriptions", "resourceGroups", "providers", "tenants"];

/// Finds a type by name, in any case.
pub fn find(name: &str) -> Option<&'static KnownType> {
    ALL.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

/// The spelling of one segment of an ID: a namespace, a type, or a word such as `resourceGroups`. None if
/// unknown.
pub fn spelling(word: &str) -> Option<&'static str> {
    let words = ALL.iter().flat_map(|known| known.name.split('/'));
    words.chain(OTHER_WORDS.iter().copied()).find(|known| known.eq_ignore_ascii_case(word))
}

const fn compute(name: &'static str, deployable: Deployable) -> KnownType {
    KnownType {
        name,
        api_versions: &["2026-04-01", "2025-04-01", "2024-11-01", "2024-07-01", "2019-03-01"],
        deployable,
    }
}

const fn maintenance(name: &'static str) -> KnownType {
    KnownType { name, api_versions: &["2023-04-01", "2021-05-01", "2020-04-01"], deployable: Deployable::No }
}

const fn network(name: &'static str) -> KnownType {
    KnownType { name, api_versions: &["2024-05-01", "2022-01-01", "2020-05-01"], deployable: Deployable::Yes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_one_spelling() {
        for word in ALL.iter().flat_map(|known| known.name.split('/')) {
            assert_eq!(spelling(&word.to_uppercase()), Some(word));
        }
    }

    #[test]
    fn types_are_found_in_any_case() {
        assert_eq!(find("microsoft.network/PUBLICIPADDRESSES").unwrap().name, "Microsoft.Network/publicIPAddresses");
        assert_eq!(find("Microsoft.Network/x"), None);
        assert_eq!(spelling("resourcegroups"), Some("resourceGroups"));
        assert_eq!(spelling("x"), None);
    }
}
