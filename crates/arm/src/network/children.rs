//! Network resources that belong together: the subnets of a virtual network and the like, which clients write as resources
//! of their own or within their parent, and the network interface that uses a public address.
//!
//! Children are always stored as resources of their own. A parent that lists them replaces them, as on Azure.

use forewarn_store::{Attachment, Owner};
use forewarn_wire::arm::id::ResourceId;
use serde_json::{Value, json};

use super::{RECORD, record_name};
use crate::call::Arm;
use crate::fields::{self, at, invalid, read_text};
use crate::resource::group_id;
use forewarn_api::error::ApiError;

/// The types with children, and the type of these, which is also the property that lists them.
const CHILDREN: &[(&str, &str)] = &[
    ("Microsoft.Network/virtualNetworks", "subnets"),
    ("Microsoft.Network/networkSecurityGroups", "securityRules"),
    ("Microsoft.Network/loadBalancers", "inboundNatRules"),
];

/// Children of one parent.
const CHILDREN_MAX: usize = 200;

fn child_type(parent: &ResourceId) -> Option<&'static str> {
    let kind = parent.kind()?;
    CHILDREN.iter().find(|(parent, _)| parent.eq_ignore_ascii_case(&kind)).map(|(_, child)| *child)
}

/// Takes the list of children out of the body of their parent.
pub fn take(body: &mut Value, parent: &ResourceId) -> Result<Option<Vec<Value>>, ApiError> {
    let Some(kind) = child_type(parent) else { return Ok(None) };
    let place = format!("properties.{kind}");
    let listed = match at(body, &place) {
        None => return Ok(None),
        Some(Value::Array(listed)) if listed.len() <= CHILDREN_MAX => listed.clone(),
        Some(Value::Array(_)) => return Err(invalid(&place, format!("must have at most {CHILDREN_MAX} entries"))),
        Some(_) => return Err(invalid(&place, "must be a list")),
    };
    fields::remove(body, &place);
    Ok(Some(listed))
}

/// The attachments that make these the children of a parent.
pub async fn replace(arm: &Arm, parent: &ResourceId, listed: Vec<Value>) -> Result<Vec<Attachment>, ApiError> {
    let Some(kind) = child_type(parent) else { return Ok(Vec::new()) };
    let before = arm.read_attachments_below(format!("{}/{}/", record_name(parent), kind.to_ascii_lowercase()), None);
    let mut attachments = Vec::new();
    let mut kept = Vec::new();
    for mut child in listed {
        let place = format!("properties.{kind}.name");
        let name = read_text(&child, "name")?.ok_or_else(|| invalid(&place, "is required"))?;
        let id = ResourceId::parse(&format!("{parent}/{kind}/{name}")).map_err(|error| invalid(&place, error))?;
        fields::put(&mut child, "id", id.to_string());
        kept.push(record_name(&id));
        attachments.push(Attachment::put(Owner::Region, record_name(&id), child.to_string()));
    }
    let gone = before.await?.into_iter().map(|(name, _)| name).filter(|name| !kept.contains(name));
    attachments.extend(gone.map(|name| Attachment::remove(Owner::Region, name)));
    Ok(attachments)
}

/// The other network resources of the resource groups of some resources, as far as they matter to them.
pub struct RelatedResources(Vec<Value>);

impl RelatedResources {
    pub async fn read(arm: &Arm, bodies: &[Value]) -> Result<RelatedResources, ApiError> {
        let ids = bodies.iter().filter_map(own_id);
        let concerned = ids.filter(|id| child_type(id).is_some() || is_public_address(id));
        let mut groups: Vec<String> = concerned.map(|id| format!("{RECORD}{}/", group_id(&id).key())).collect();
        groups.sort();
        groups.dedup();
        let mut found = Vec::new();
        for group in groups {
            found.extend(arm.read_attachments_below(group, None).await?.into_iter().map(|(_, body)| body));
        }
        Ok(RelatedResources(found))
    }

    /// Adds the children of a resource, and the user of a public address.
    pub fn render(&self, mut body: Value, render_child: impl Fn(Value) -> Value) -> Value {
        let Some(id) = own_id(&body) else { return body };
        if let Some(kind) = child_type(&id) {
            let is_child = |body: &&Value| own_id(body).and_then(|id| id.parent()).is_some_and(|parent| parent == id);
            let children: Vec<Value> = self.0.iter().filter(is_child).cloned().map(render_child).collect();
            fields::put(&mut body, &format!("properties.{kind}"), children);
        }
        if is_public_address(&id) {
            match self.0.iter().find_map(|other| configuration_with(other, &id)) {
                Some(user) => fields::put(&mut body, "properties.ipConfiguration", json!({ "id": user })),
                None => fields::remove(&mut body, "properties.ipConfiguration"),
            }
        }
        body
    }
}

fn own_id(body: &Value) -> Option<ResourceId> {
    ResourceId::parse(read_text(body, "id").ok().flatten()?).ok()
}

fn is_public_address(id: &ResourceId) -> bool {
    id.kind().as_deref() == Some("Microsoft.Network/publicIPAddresses")
}

/// The ID of the IP configuration in a network interface that uses a public address.
fn configuration_with(interface: &Value, address: &ResourceId) -> Option<String> {
    let configurations = at(interface, "properties.ipConfigurations")?.as_array()?;
    let uses = |configuration: &&Value| {
        let id = read_text(configuration, "properties.publicIPAddress.id").ok().flatten();
        id.and_then(|id| ResourceId::parse(id).ok()).is_some_and(|id| id.key() == address.key())
    };
    let name = read_text(configurations.iter().find(uses)?, "name").ok().flatten()?;
    Some(format!("{}/ipConfigurations/{name}", read_text(interface, "id").ok().flatten()?))
}
