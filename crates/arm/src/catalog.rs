//! Static lists that clients read before they create anything: images, sizes, locations, providers, operations.
//!
//! No image is ever booted and every size is available, so these small tables accept any plausible value. They do not depend
//! on the region.

use forewarn_wire::arm::types;
use serde_json::{Value, json};

/// The version of images that are not in `IMAGES`.
const VERSION_DEFAULT: &str = "1.0.0";

/// A version is part of a resource ID, so it must not be longer than a name.
const VERSION_BYTES_MAX: usize = 64;

struct Image {
    alias: &'static str,
    os: &'static str,
    publisher: &'static str,
    offer: &'static str,
    sku: &'static str,
    version: &'static str,
}

const fn linux(alias: &'static str, [publisher, offer, sku, version]: [&'static str; 4]) -> Image {
    Image { alias, os: "Linux", publisher, offer, sku, version }
}

const fn windows(alias: &'static str, sku: &'static str, version: &'static str) -> Image {
    Image { alias, os: "Windows", publisher: "MicrosoftWindowsServer", offer: "WindowsServer", sku, version }
}

/// The aliases that clients know, and `UbuntuLTS`, which many tutorials still use.
const IMAGES: &[Image] = &[
    linux("UbuntuLTS", ["Canonical", "UbuntuServer", "18.04-LTS", "18.04.202401161"]),
    linux("Ubuntu2204", ["Canonical", "0001-com-ubuntu-server-jammy", "22_04-lts-gen2", "22.04.202401010"]),
    linux("Ubuntu2404", ["Canonical", "ubuntu-24_04-lts", "server", "24.04.202404230"]),
    linux("Ubuntu2404Pro", ["Canonical", "ubuntu-24_04-lts", "ubuntu-pro", "24.04.202404230"]),
    linux("Debian11", ["Debian", "debian-11", "11-backports-gen2", "0.20240104.1616"]),
    linux("Debian12", ["Debian", "debian-12", "12-gen2", "0.20240102.1614"]),
    linux("FlatcarLinuxFreeGen2", ["kinvolk", "flatcar-container-linux-free", "stable-gen2", "3760.2.0"]),
    linux("OpenSuseLeap154Gen2", ["SUSE", "openSUSE-leap-15-4", "gen2", "2023.03.01"]),
    linux("RHELRaw8LVMGen2", ["RedHat", "RHEL", "8-lvm-gen2", "8.9.2024010913"]),
    linux("SuseSles15SP5", ["SUSE", "sles-15-sp5", "gen2", "2024.01.11"]),
    windows("Win2025Datacenter", "2025-datacenter-g2", "26100.1742.240906"),
    windows("Win2022Datacenter", "2022-datacenter-g2", "20348.2227.240104"),
    windows("Win2022AzureEditionCore", "2022-datacenter-azure-edition-core", "20348.2227.240104"),
    windows("Win2019Datacenter", "2019-datacenter-gensecond", "17763.5329.240104"),
    windows("Win2016Datacenter", "2016-datacenter-gensecond", "14393.6614.240104"),
];

/// The document of image aliases (`vmImageAliasDoc`).
pub fn image_aliases() -> Value {
    let of = |os: &str| -> Value {
        let images = IMAGES.iter().filter(|image| image.os == os);
        images.map(|image| (image.alias.to_owned(), alias(image))).collect::<serde_json::Map<_, _>>().into()
    };
    json!({
        "$schema": "http://schema.management.azure.com/schemas/2015-01-01/deploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "parameters": {},
        "variables": {},
        "resources": [],
        "outputs": {"aliases": {"type": "object", "value": {"Linux": of("Linux"), "Windows": of("Windows")}}},
    })
}

fn alias(image: &Image) -> Value {
    json!({
        "publisher": image.publisher, "offer": image.offer, "sku": image.sku, "version": "latest", "architecture": "x64",
    })
}

/// A marketplace image, as a path names it.
#[derive(Debug, Clone, Copy)]
pub struct ImagePath<'a> {
    pub subscription: &'a str,
    pub location: &'a str,
    pub publisher: &'a str,
    pub offer: &'a str,
    pub sku: &'a str,
}

/// The versions of an image, newest first, as a bare array. Every image has exactly one.
pub fn image_versions(image: ImagePath<'_>) -> Value {
    let known = IMAGES.iter().find(|known| {
        known.publisher.eq_ignore_ascii_case(image.publisher)
            && known.offer.eq_ignore_ascii_case(image.offer)
            && known.sku.eq_ignore_ascii_case(image.sku)
    });
    let version = known.map_or(VERSION_DEFAULT, |known| known.version);
    json!([version_entry(image, version)])
}

/// One version of an image, or None if the version is malformed.
pub fn image_version(image: ImagePath<'_>, version: &str) -> Option<Value> {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if version.len() > VERSION_BYTES_MAX || !version.split('.').all(number) {
        return None;
    }
    let windows = image.publisher.to_ascii_lowercase().contains("windows");
    let mut entry = version_entry(image, version);
    entry["properties"] = json!({
        "osDiskImage": {"operatingSystem": if windows { "Windows" } else { "Linux" }, "sizeInGb": 30},
        "dataDiskImages": [],
        "hyperVGeneration": "V2",
        "architecture": "x64",
    });
    Some(entry)
}

fn version_entry(image: ImagePath<'_>, version: &str) -> Value {
    let ImagePath { subscription, location, publisher, offer, sku } = image;
    let id = format!(
        "/subscriptions/{subscription}/providers/Microsoft.Compute/locations/{location}/publishers/{publisher}\
         /artifactTypes/vmImage/offers/{offer}/skus/{sku}/versions/{version}"
    );
    json!({"id": id, "name": version, "location": location})
}

struct VmSize {
    name: &'static str,
    family: &'static str,
    vcpus: u32,
    memory_gib: u32,
}

const fn size(name: &'static str, family: &'static str, vcpus: u32, memory_gib: u32) -> VmSize {
    VmSize { name, family, vcpus, memory_gib }
}

/// The default sizes of clients and a few of each common family. Other sizes are accepted too.
const SIZES: &[VmSize] = &[
    size("Standard_B1s", "standardBSFamily", 1, 1),
    size("Standard_B2s", "standardBSFamily", 2, 4),
    size("Standard_DS1_v2", "standardDSv2Family", 1, 3),
    size("Standard_D2s_v3", "standardDSv3Family", 2, 8),
    size("Standard_D4s_v3", "standardDSv3Family", 4, 16),
    size("Standard_D2s_v5", "standardDSv5Family", 2, 8),
    size("Standard_D4s_v5", "standardDSv5Family", 4, 16),
    size("Standard_E2s_v5", "standardESv5Family", 2, 16),
    size("Standard_F2s_v2", "standardFSv2Family", 2, 4),
];

const ZONES: [&str; 3] = ["1", "2", "3"];

/// The VM sizes in these locations, all of them in three zones.
pub fn skus(locations: &[&str]) -> Value {
    let items: Vec<Value> = SIZES.iter().map(|size| sku(size, locations)).collect();
    json!({ "value": items })
}

/// Sizes of the operating system's disk and of a temporary disk, and the number of data disks, which no size here limits.
const OS_DISK_MIB: u32 = 1_047_552;
const RESOURCE_DISK_MIB: u32 = 16_384;
const DATA_DISKS_MAX: u32 = 64;

/// The VM sizes in the older form of `locations/{location}/vmSizes`.
pub fn vm_sizes() -> Value {
    let item = |size: &VmSize| {
        json!({
            "name": size.name,
            "numberOfCores": size.vcpus,
            "memoryInMB": size.memory_gib * 1024,
            "osDiskSizeInMB": OS_DISK_MIB,
            "resourceDiskSizeInMB": RESOURCE_DISK_MIB,
            "maxDataDiskCount": DATA_DISKS_MAX,
        })
    };
    json!({ "value": SIZES.iter().map(item).collect::<Vec<Value>>() })
}

/// The names of the known locations.
pub fn location_names() -> impl Iterator<Item = &'static str> {
    LOCATIONS.iter().map(|(name, _)| *name)
}

fn sku(size: &VmSize, locations: &[&str]) -> Value {
    let zones = |location: &&str| json!({"location": location, "zones": ZONES, "zoneDetails": []});
    let capability = |name: &str, value: &str| json!({"name": name, "value": value});
    json!({
        "resourceType": "virtualMachines",
        "name": size.name,
        "tier": "Standard",
        "size": size.name.trim_start_matches("Standard_"),
        "family": size.family,
        "locations": locations,
        "locationInfo": locations.iter().map(zones).collect::<Vec<_>>(),
        "capabilities": [
            capability("vCPUs", &size.vcpus.to_string()),
            capability("MemoryGB", &size.memory_gib.to_string()),
            capability("PremiumIO", "True"),
            capability("HyperVGenerations", "V1,V2"),
            capability("CpuArchitectureType", "x64"),
            capability("LowPriorityCapable", "True"),
        ],
        "restrictions": [],
    })
}

/// Locations: name and display name.
const LOCATIONS: &[(&str, &str)] = &[
    ("eastus", "East US"),
    ("westus2", "West US 2"),
    ("northeurope", "North Europe"),
    ("westeurope", "West Europe"),
    ("uksouth", "UK South"),
    ("germanywestcentral", "Germany West Central"),
    ("switzerlandnorth", "Switzerland North"),
    ("southeastasia", "Southeast Asia"),
];

/// The locations of a subscription, beginning with `own`, the location of this region.
pub fn locations(subscription: &str, own: &str) -> Value {
    let named = LOCATIONS.iter().find(|(name, _)| *name == own).map_or(own, |(_, display)| display);
    let others = LOCATIONS.iter().copied().filter(|(name, _)| *name != own);
    let items: Vec<Value> = std::iter::once((own, named))
        .chain(others)
        .map(|(name, display)| location(subscription, name, display))
        .collect();
    json!({ "value": items })
}

fn location(subscription: &str, name: &str, display: &str) -> Value {
    json!({
        "id": format!("/subscriptions/{subscription}/locations/{name}"),
        "name": name,
        "type": "Region",
        "displayName": display,
        "regionalDisplayName": display,
        "metadata": {"regionType": "Physical", "regionCategory": "Recommended", "pairedRegion": []},
    })
}

/// All providers.
pub fn providers(subscription: &str, location: &str) -> Value {
    let mut namespaces: Vec<&str> = types::ALL.iter().filter_map(|known| known.name.split('/').next()).collect();
    namespaces.dedup();
    let items: Vec<Value> = namespaces.iter().filter_map(|name| provider(subscription, name, location)).collect();
    json!({ "value": items })
}

/// One provider with its types and their api-versions. The namespace is matched without regard to case.
pub fn provider(subscription: &str, namespace: &str, location: &str) -> Option<Value> {
    let of_namespace = types::ALL.iter().filter_map(|known| {
        let (space, resource_type) = known.name.split_once('/')?;
        space.eq_ignore_ascii_case(namespace).then_some((space, resource_type, known.api_versions))
    });
    let of_namespace: Vec<_> = of_namespace.collect();
    let (space, ..) = of_namespace.first()?;
    let resource_types: Vec<Value> = of_namespace
        .iter()
        .map(|(_, resource_type, api_versions)| {
            json!({"resourceType": resource_type, "locations": [location], "apiVersions": api_versions})
        })
        .collect();
    Some(json!({
        "id": format!("/subscriptions/{subscription}/providers/{space}"),
        "namespace": space,
        "registrationState": "Registered",
        "registrationPolicy": "RegistrationRequired",
        "resourceTypes": resource_types,
    }))
}

/// The actions on machines of every kind.
const MACHINE_ACTIONS: &[&str] =
    &["start", "powerOff", "restart", "redeploy", "reimage", "deallocate", "performMaintenance"];

/// The actions of each resource type besides read, write and delete.
const ACTIONS: &[(&str, &[&[&str]])] = &[
    ("Microsoft.Compute/virtualMachines", &[MACHINE_ACTIONS, &["simulateEviction"]]),
    ("Microsoft.Compute/virtualMachineScaleSets", &[MACHINE_ACTIONS, &["manualUpgrade", "delete"]]),
    ("Microsoft.Compute/virtualMachineScaleSets/virtualMachines", &[MACHINE_ACTIONS, &["simulateEviction"]]),
    ("Microsoft.Compute/availabilitySets", &[]),
    ("Microsoft.Maintenance/scheduledevents", &[&["acknowledge"]]),
];

/// The operations of a provider. The namespace is matched without regard to case.
pub fn operations(namespace: &str) -> Option<Value> {
    let in_namespace = |name: &str| name.split('/').next().is_some_and(|space| space.eq_ignore_ascii_case(namespace));
    if !types::ALL.iter().any(|known| in_namespace(known.name)) {
        return None;
    }
    let items: Vec<Value> = ACTIONS
        .iter()
        .filter(|(kind, _)| in_namespace(kind))
        .flat_map(|(kind, actions)| {
            let plain = ["read", "write", "delete"].into_iter().map(|verb| operation(kind, verb.to_owned()));
            let actions = actions.iter().copied().flatten().map(|action| operation(kind, format!("{action}/action")));
            plain.chain(actions).collect::<Vec<_>>()
        })
        .collect();
    Some(json!({ "value": items }))
}

fn operation(kind: &str, verb: String) -> Value {
    let (provider, resource) = kind.split_once('/').unwrap_or((kind, ""));
    json!({
        "name": format!("{kind}/{verb}"),
        "isDataAction": false,
        "display": {
            "provider": provider,
            "resource": resource,
            "operation": verb.trim_end_matches("/action"),
            "description": "",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JAMMY: ImagePath<'static> = ImagePath {
        subscription: "S",
        location: "westeurope",
        publisher: "canonical",
        offer: "0001-com-ubuntu-server-jammy",
        sku: "22_04-lts-gen2",
    };

    #[test]
    fn every_alias_is_complete_and_ubuntu_lts_exists() {
        let document = image_aliases();
        let aliases = &document["outputs"]["aliases"]["value"];
        for os in ["Linux", "Windows"] {
            for (name, image) in aliases[os].as_object().expect("aliases are an object") {
                for key in ["publisher", "offer", "sku", "version", "architecture"] {
                    assert!(image[key].is_string(), "{name} {key}");
                }
            }
        }
        assert_eq!(aliases["Linux"]["UbuntuLTS"]["architecture"], "x64");
        assert_eq!(aliases["Linux"]["Ubuntu2204"]["version"], "latest");
        assert!(aliases["Windows"]["Win2022Datacenter"].is_object());
    }

    #[test]
    fn a_listed_version_can_be_requested() {
        for image in [JAMMY, ImagePath { publisher: "x", ..JAMMY }] {
            let listed = image_versions(image);
            let name = listed[0]["name"].as_str().expect("a version has a name");
            let one = image_version(image, name).expect("a listed version exists");
            assert_eq!(one["id"], listed[0]["id"]);
            assert!(one["properties"].is_object());
        }
        assert_eq!(image_versions(JAMMY)[0]["name"], "22.04.202401010");
        for refused in ["", "latest", "1..0", "1.0.", &"1".repeat(VERSION_BYTES_MAX + 1)] {
            assert_eq!(image_version(JAMMY, refused), None, "{refused:?}");
        }
    }

    #[test]
    fn sizes_are_in_three_zones_of_the_location() {
        let skus = skus(&["westeurope"]);
        for sku in skus["value"].as_array().expect("sizes are a list") {
            assert_eq!(sku["locationInfo"][0]["location"], "westeurope");
            assert_eq!(sku["locationInfo"][0]["zones"], json!(["1", "2", "3"]));
            assert_eq!(sku["resourceType"], "virtualMachines");
        }
    }

    #[test]
    fn the_own_location_is_listed_first_and_once() {
        let names = |own: &str| -> Vec<String> {
            let list = locations("S", own);
            list["value"].as_array().unwrap().iter().map(|place| place["name"].as_str().unwrap().to_owned()).collect()
        };
        for own in ["westeurope", "cellar"] {
            let names = names(own);
            assert_eq!(names[0], own);
            assert_eq!(names.iter().filter(|name| *name == own).count(), 1);
        }
        assert_eq!(locations("S", "westeurope")["value"][0]["displayName"], "West Europe");
    }

    #[test]
    fn providers_list_their_types_with_api_versions() {
        let compute = provider("S", "microsoft.compute", "here").expect("the compute provider exists");
        assert_eq!(compute["namespace"], "Microsoft.Compute");
        let sets = compute["resourceTypes"].as_array().unwrap();
        let sets =
            sets.iter().find(|kind| kind["resourceType"] == "availabilitySets").expect("availability sets are a type");
        assert!(sets["apiVersions"][0].is_string());
        assert_eq!(provider("S", "Microsoft.Storage", "here"), None);
        let all = providers("S", "here");
        let names: Vec<_> = all["value"].as_array().unwrap().iter().map(|provider| &provider["namespace"]).collect();
        assert_eq!(names, ["Microsoft.Compute", "Microsoft.Network", "Microsoft.Resources", "Microsoft.Maintenance"]);
    }

    #[test]
    fn operations_belong_to_the_requested_provider() {
        let names = |namespace: &str| -> Vec<String> {
            let list = operations(namespace).expect("the provider exists");
            list["value"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
        };
        assert!(names("Microsoft.Compute").contains(&"Microsoft.Compute/virtualMachines/restart/action".to_owned()));
        assert!(names("microsoft.maintenance").iter().all(|name| name.starts_with("Microsoft.Maintenance/")));
        assert_eq!(names("Microsoft.Network"), Vec::<String>::new());
        assert_eq!(operations("Microsoft.Storage"), None);
    }
}
