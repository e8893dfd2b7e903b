//! Parts of requests as the rules take them.

use std::sync::Arc;
use std::time::Duration;

use forewarn_api_types::{Address, Details, ResourceName, Tags, TerminateNotification, Text};
use forewarn_core as core;
use forewarn_core::TerminateProfile;
use forewarn_wire::duration;

use super::error::ApiError;
use super::{RESOURCE_GROUP_DEFAULT, SUBSCRIPTION_DEFAULT};

/// Addresses of one machine; Azure allows up to eight network interfaces.
pub const ADDRESSES_MAX: usize = 64;

pub fn name<N: From<String>>(given: ResourceName) -> N {
    given.0.into()
}

/// Refuses malformed durations; the rules check the range.
pub fn terminate_profile(given: &TerminateNotification) -> Result<Arc<TerminateProfile>, ApiError> {
    let text = given.not_before_timeout.as_str();
    let secs = duration::parse_secs(text).map_err(|why| {
        let reason = format!("'{text}': {why}");
        let reason = reason.trim_end_matches('.');
        ApiError::field("terminateNotification.notBeforeTimeout", format!("is not valid: {reason}"))
    })?;
    Ok(Arc::new(TerminateProfile { timeout: Duration::from_secs(secs), text: text.into() }))
}

/// Replaces the given details and keeps the others. Given tags replace all tags.
pub fn merge_details(given: Details, tags: Option<Tags>, details: &mut core::Details) {
    let shared = Arc::make_mut(&mut details.shared);
    for (given, current) in [
        (given.location, &mut shared.location),
        (given.size, &mut shared.size),
        (given.os_type, &mut shared.os_type),
        (given.computer_name, &mut details.computer_name),
        (given.publisher, &mut shared.publisher),
        (given.offer, &mut shared.offer),
        (given.sku, &mut shared.sku),
        (given.image_version, &mut shared.image_version),
        (given.mac, &mut details.mac),
    ] {
        if let Some(Text(given)) = given {
            *current = given.into();
        }
    }
    if let Some(Tags(tags)) = tags {
        shared.tags = tags.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    }
}

/// The given subscription and resource group, or the default ones.
pub fn resource_group_or_default(
    subscription: Option<ResourceName>,
    resource_group: Option<ResourceName>,
) -> core::ResourceGroupRef {
    core::ResourceGroupRef {
        subscription: subscription.map_or_else(|| SUBSCRIPTION_DEFAULT.into(), name),
        resource_group: resource_group.map_or_else(|| RESOURCE_GROUP_DEFAULT.into(), name),
    }
}

pub fn core_addresses(given: Vec<Address>) -> Result<Vec<core::Address>, ApiError> {
    if given.len() > ADDRESSES_MAX {
        return Err(ApiError::field("addresses", format!("has more than {ADDRESSES_MAX} entries")));
    }
    Ok(given.into_iter().map(|address| core::Address { network: name(address.network), ip: address.ip.0 }).collect())
}
