//! Resource IDs: the parts that handlers need, comparisons that ignore spelling, and the errors that name a resource.

use forewarn_core::ResourceGroupRef;
use forewarn_wire::arm::id::{Name, ResourceId, Scope};

use forewarn_api::error::{ApiError, ErrorCode};

/// The subscription and resource group of a resource.
pub fn resource_group_of(id: &ResourceId) -> ResourceGroupRef {
    let text = |name: Option<&Name>| name.map_or("", Name::as_str).into();
    ResourceGroupRef { subscription: text(id.subscription()), resource_group: text(id.group()) }
}

/// The ID of the resource group that contains a resource.
pub fn group_id(id: &ResourceId) -> ResourceId {
    ResourceId { scope: id.scope.clone(), provider: None, extension: None }
}

pub fn is_in_group(id: &ResourceId) -> bool {
    matches!(id.scope, Scope::Group { .. })
}

/// The last name below the provider.
pub fn last_name(id: &ResourceId) -> &str {
    let pair = id.provider.as_ref().and_then(|provider| provider.pairs.last());
    pair.map_or("", |pair| pair.name.as_str())
}

/// Compares subscription and resource group without regard to case.
pub fn is_same_resource_group(one: &ResourceGroupRef, other: &ResourceGroupRef) -> bool {
    one.resource_group.eq_ignore_ascii_case(&other.resource_group)
        && one.subscription.eq_ignore_ascii_case(&other.subscription)
}

/// Compares locations; `West Europe` is `westeurope`.
pub fn is_same_location(one: &str, other: &str) -> bool {
    let normalize = |text: &str| text.replace(' ', "").to_ascii_lowercase();
    normalize(one) == normalize(other)
}

pub fn not_found(id: &ResourceId) -> ApiError {
    let kind = id.kind().unwrap_or_default();
    let message = format!(
        "The Resource '{kind}/{}' under resource group '{}' was not found.",
        last_name(id),
        id.group().map_or("", Name::as_str)
    );
    ApiError::new(ErrorCode::ResourceNotFound, message).with_target(id.to_string())
}

/// A property that cannot be changed after creation.
pub fn immutable(place: &str) -> ApiError {
    let message = format!("Changing property '{place}' is not allowed. Delete the resource and create it again.");
    ApiError::new(ErrorCode::PropertyChangeNotAllowed, message).with_target(place)
}
