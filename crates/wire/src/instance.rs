//! The document of `/metadata/instance`: the properties that a machine can read about itself, per version.
//!
//! Every value is a string, empty if it does not apply, and present since the version that introduced it. Keys
//! are in alphabetical order. Properties that Forewarn does not know are present but empty, so that programs find
//! the structure that they expect.

mod navigate;
mod properties;
mod storage;

use std::collections::BTreeMap;

use serde_json::Value;

pub use navigate::{ContentType, Format, InstanceResponse, navigate, root_listing, versions_body};
pub use properties::select_properties;

use crate::guid;
use crate::version::InstanceVersion;

/// The properties of a machine that the document shows. Empty strings mean "does not apply".
#[derive(Debug, Clone, Copy, Default)]
pub struct InstanceView<'a> {
    pub name: &'a str,
    pub computer_name: &'a str,
    pub vm_id: u128,
    pub resource_id: &'a str,
    pub subscription_id: &'a str,
    pub resource_group_name: &'a str,
    pub location: &'a str,
    pub zone: &'a str,
    pub physical_zone: &'a str,
    pub vm_size: &'a str,
    pub os_type: &'a str,
    pub image: Image<'a>,
    pub fault_domain: &'a str,
    pub sub_fault_domain: &'a str,
    pub update_domain: &'a str,
    pub placement_group_id: &'a str,
    /// Name of the scale set, in either orchestration mode.
    pub scale_set_name: &'a str,
    /// Resource ID of the scale set, for Flexible scale sets only.
    pub scale_set_id: &'a str,
    pub host_id: &'a str,
    pub host_group_id: &'a str,
    pub priority: &'a str,
    pub eviction_policy: &'a str,
    pub environment: &'a str,
    pub provider: &'a str,
    /// The properties that the machine was given through the ARM API.
    pub properties: Option<&'a Value>,
    /// Names and values, in the order shown.
    pub tags: &'a [(&'a str, &'a str)],
    pub interfaces: &'a [Interface<'a>],
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Image<'a> {
    pub publisher: &'a str,
    pub offer: &'a str,
    pub sku: &'a str,
    pub version: &'a str,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Interface<'a> {
    /// In any notation; shown as twelve digits in upper case.
    pub mac_address: &'a str,
    pub ipv4: &'a [Ipv4<'a>],
    pub ipv4_subnets: &'a [Subnet<'a>],
    pub ipv6: &'a [&'a str],
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Ipv4<'a> {
    pub private: &'a str,
    pub public: &'a str,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Subnet<'a> {
    pub address: &'a str,
    /// Prefix length, for example `24`.
    pub prefix: &'a str,
}

/// Builds the document as a tree, for [`navigate`].
pub fn tree(version: InstanceVersion, view: &InstanceView<'_>) -> Value {
    object([("compute", compute(version, view)), ("network", network(view))])
}

fn compute(version: InstanceVersion, view: &InstanceView<'_>) -> Value {
    let image = &view.image;
    let vm_id = guid::Lower(view.vm_id).to_string();
    let mut compute = Fields::new(version);
    compute.text(FIRST, "location", view.location);
    compute.text(FIRST, "name", view.name);
    compute.text(FIRST, "offer", image.offer);
    compute.text(FIRST, "osType", view.os_type);
    compute.text(FIRST, "platformFaultDomain", view.fault_domain);
    compute.text(FIRST, "platformUpdateDomain", view.update_domain);
    compute.text(FIRST, "publisher", image.publisher);
    compute.text(FIRST, "sku", image.sku);
    compute.text(FIRST, "version", image.version);
    compute.text(FIRST, "vmId", &vm_id);
    compute.text(FIRST, "vmSize", view.vm_size);
    compute.text("2017-08-01", "placementGroupId", view.placement_group_id);
    compute.text("2017-08-01", "resourceGroupName", view.resource_group_name);
    compute.text("2017-08-01", "subscriptionId", view.subscription_id);
    compute.text("2017-08-01", "tags", &tags(view));
    compute.text("2017-12-01", "vmScaleSetName", view.scale_set_name);
    compute.text("2017-12-01", "zone", view.zone);
    compute.put("2018-04-02", "plan", texts([("name", ""), ("product", ""), ("publisher", "")]));
    compute.put("2018-04-02", "publicKeys", properties::public_keys(view));
    compute.text("2018-10-01", "azEnvironment", view.environment);
    compute.text("2018-10-01", "provider", view.provider);
    compute.text("2019-02-01", "customData", "");
    compute.text("2019-03-11", "resourceId", view.resource_id);
    compute.put("2019-06-01", "storageProfile", storage::profile(version, view));
    compute.put("2019-06-04", "tagsList", tags_list(view));
    compute.text("2020-06-01", "isHostCompatibilityLayerVm", "false");
    compute.put("2020-06-01", "securityProfile", security_profile(version));
    compute.put("2020-07-15", "osProfile", os_profile(version, view));
    compute.text("2020-09-01", "licenseType", &properties::text(view, "licenseType"));
    compute.text("2020-12-01", "evictionPolicy", view.eviction_policy);
    compute.text("2020-12-01", "priority", view.priority);
    compute.text("2021-01-01", "userData", &properties::text(view, "userData"));
    compute.put("2021-03-01", "extendedLocation", texts([("name", ""), ("type", "")]));
    compute.put("2021-03-01", "virtualMachineScaleSet", texts([("id", view.scale_set_id)]));
    compute.text("2021-10-01", "platformSubFaultDomain", view.sub_fault_domain);
    compute.put("2021-11-01", "additionalCapabilities", texts([("hibernationEnabled", "false")]));
    compute.put("2021-11-15", "host", texts([("id", view.host_id)]));
    compute.put("2021-11-15", "hostGroup", texts([("id", view.host_group_id)]));
    compute.text("2023-11-15", "physicalZone", view.physical_zone);
    compute.into_value()
}

fn security_profile(version: InstanceVersion) -> Value {
    let mut profile = Fields::new(version);
    profile.text("2020-06-01", "secureBootEnabled", "false");
    profile.text("2020-06-01", "virtualTpmEnabled", "false");
    profile.text("2021-11-01", "encryptionAtHost", "false");
    profile.text("2021-12-13", "securityType", "");
    profile.into_value()
}

fn os_profile(version: InstanceVersion, view: &InstanceView<'_>) -> Value {
    let mut profile = Fields::new(version);
    profile.text("2020-07-15", "adminUsername", &properties::text(view, "osProfile.adminUsername"));
    profile.text("2020-07-15", "computerName", view.computer_name);
    profile.text("2020-10-01", "disablePasswordAuthentication", properties::disables_password(view));
    profile.into_value()
}

fn tags(view: &InstanceView<'_>) -> String {
    let pairs: Vec<_> = view.tags.iter().map(|(name, value)| format!("{name}:{value}")).collect();
    pairs.join(";")
}

fn tags_list(view: &InstanceView<'_>) -> Value {
    view.tags.iter().map(|&(name, value)| texts([("name", name), ("value", value)])).collect()
}

fn network(view: &InstanceView<'_>) -> Value {
    object([("interface", view.interfaces.iter().map(interface).collect())])
}

fn interface(interface: &Interface<'_>) -> Value {
    let addresses = interface
        .ipv4
        .iter()
        .map(|address| texts([("privateIpAddress", address.private), ("publicIpAddress", address.public)]));
    let subnets =
        interface.ipv4_subnets.iter().map(|subnet| texts([("address", subnet.address), ("prefix", subnet.prefix)]));
    let ipv6 = interface.ipv6.iter().map(|&address| texts([("privateIpAddress", address)]));
    object([
        ("ipv4", object([("ipAddress", addresses.collect()), ("subnet", subnets.collect())])),
        ("ipv6", object([("ipAddress", ipv6.collect())])),
        ("macAddress", Value::String(mac_digits(interface.mac_address))),
    ])
}

fn mac_digits(mac: &str) -> String {
    mac.chars().filter(char::is_ascii_hexdigit).map(|digit| digit.to_ascii_uppercase()).collect()
}

/// The oldest version: marks properties that every version has.
const FIRST: &str = "2017-03-01";

/// The members of an object that exist in one version.
struct Fields {
    version: InstanceVersion,
    members: BTreeMap<&'static str, Value>,
}

impl Fields {
    fn new(version: InstanceVersion) -> Fields {
        Fields { version, members: BTreeMap::new() }
    }

    fn text(&mut self, since: &str, key: &'static str, value: &str) {
        self.put(since, key, Value::from(value));
    }

    fn put(&mut self, since: &str, key: &'static str, value: Value) {
        // ISO dates sort like text.
        if self.version.as_str() >= since {
            self.members.insert(key, value);
        }
    }

    fn into_value(self) -> Value {
        object(self.members)
    }
}

fn texts<const N: usize>(members: [(&'static str, &str); N]) -> Value {
    object(members.map(|(key, value)| (key, Value::from(value))))
}

/// An object with sorted keys, regardless of the map type that `serde_json` uses.
fn object(members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let sorted: BTreeMap<&str, Value> = members.into_iter().collect();
    Value::Object(sorted.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}
