//! Instance metadata: the part of `/metadata/instance` that identifies this machine.

use forewarn_wire::version::InstanceVersion;
use serde_json::Value;

use crate::document::DocumentError;

/// Identity of the machine, as the service knows it.
///
/// Fields that the service omits, or that its version does not have, are empty strings; the service itself uses empty
/// strings for values that do not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub version: InstanceVersion,
    /// Name of the machine in events. The host name can differ.
    pub name: String,
    pub vm_id: String,
    pub location: String,
    pub resource_group: String,
    pub subscription: String,
    /// Scale set that the machine belongs to.
    pub scale_set: String,
    pub placement_group: String,
    pub zone: String,
    pub fault_domain: String,
    pub update_domain: String,
    /// `Regular`, `Spot`, …
    pub priority: String,
    value: Value,
}

impl Instance {
    /// Parses the body of a response to a request for this version.
    pub fn parse(version: InstanceVersion, body: &[u8]) -> Result<Instance, DocumentError> {
        let value = crate::document::parse_json(body)?;
        let text = |key: &str| value["compute"][key].as_str().unwrap_or_default().to_owned();
        if text("name").is_empty() {
            let problem = "is missing or empty".into();
            return Err(DocumentError::Invalid { path: "compute.name".into(), problem });
        }
        Ok(Instance {
            version,
            name: text("name"),
            vm_id: text("vmId"),
            location: text("location"),
            resource_group: text("resourceGroupName"),
            subscription: text("subscriptionId"),
            scale_set: text("vmScaleSetName"),
            placement_group: text("placementGroupId"),
            zone: text("zone"),
            fault_domain: text("platformFaultDomain"),
            update_domain: text("platformUpdateDomain"),
            priority: text("priority"),
            value,
        })
    }

    /// String value at a path, for example `compute/osProfile/computerName` or `network/interface/0/macAddress`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.value.pointer(&format!("/{path}")).and_then(Value::as_str)
    }

    /// Value of a tag, from `tagsList`, or from `tags` in versions without `tagsList`.
    pub fn tag(&self, name: &str) -> Option<&str> {
        match self.value["compute"]["tagsList"].as_array() {
            Some(list) => list.iter().find(|tag| tag["name"] == name).and_then(|tag| tag["value"].as_str()),
            None => {
                let tags = self.value["compute"]["tags"].as_str().unwrap_or_default();
                tags.split(';')
                    .filter_map(|tag| tag.split_once(':'))
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value)
            }
        }
    }
}

/// Versions to try, newest first: those that added a field of [`Instance`] (tags and priority, zone, resource group,
/// name). Azure never withdraws a version, so newer ones are not needed.
pub(crate) fn supported_versions() -> Vec<InstanceVersion> {
    let wanted = ["2021-02-01", "2019-06-04", "2017-12-01", "2017-08-01", "2017-04-02"];
    wanted.iter().filter_map(|version| InstanceVersion::parse(Some(version)).ok()).collect()
}
