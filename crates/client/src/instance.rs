//! Who this machine is: the part of `/metadata/instance` that a client of Scheduled Events needs.

use forewarn_wire::version::InstanceVersion;
use serde_json::Value;

use crate::document::DocumentError;

/// Instance metadata. Texts that the service leaves out, or that its version does not have, are
/// empty, as the service itself shows what does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub version: InstanceVersion,
    /// The machine's name as events show it; its host name may be another.
    pub name: String,
    pub vm_id: String,
    pub location: String,
    pub resource_group: String,
    pub subscription: String,
    /// Of a machine in a scale set.
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
    pub fn parse(version: InstanceVersion, body: &[u8]) -> Result<Instance, DocumentError> {
        let value = crate::document::json(body)?;
        let text = |key: &str| value["compute"][key].as_str().unwrap_or_default().to_owned();
        if text("name").is_empty() {
            let problem = "is not a name".into();
            return Err(DocumentError::Wrong { at: "compute.name".into(), problem });
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

    /// Any text of the document, by its path: `compute/osProfile/computerName`,
    /// `network/interface/0/macAddress`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.value.pointer(&format!("/{path}")).and_then(Value::as_str)
    }

    /// Value of a tag, from `tagsList`, or from `tags` in versions that have no list.
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

/// Newest first, and only those that brought something: the machine's tags and priority, its zone,
/// its group, its name. Old ones are never withdrawn, so there is no need for the newest of all.
pub(crate) fn versions() -> Vec<InstanceVersion> {
    let wanted = ["2021-02-01", "2019-06-04", "2017-12-01", "2017-08-01", "2017-04-02"];
    wanted.iter().filter_map(|version| InstanceVersion::parse(Some(version)).ok()).collect()
}
