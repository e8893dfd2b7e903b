//! Fields that machines and scale set models share: addresses, details, tags, terminate notification, home.

use forewarn_core as core;
use forewarn_core::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::error::ApiError;
use super::text::{Ip, ResourceName, Tags, Text};
use super::values::TerminateNotification;
use super::{RESOURCE_GROUP_DEFAULT, SUBSCRIPTION_DEFAULT};

/// Addresses of one machine; Azure allows up to eight network interfaces.
pub const ADDRESSES_MAX: usize = 64;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// Network of a metadata listener.
    #[serde(default = "default_network")]
    pub network: ResourceName,
    pub ip: Ip,
}

fn default_network() -> ResourceName {
    ResourceName("default".into())
}

/// Details for instance metadata; no rule reads them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Details {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_type: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computer_name: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_version: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<Text>,
}

impl Details {
    pub fn of(details: &core::Details) -> Details {
        let text = |text: &String| (!text.is_empty()).then(|| Text(text.clone()));
        Details {
            location: text(&details.location),
            size: text(&details.size),
            os_type: text(&details.os_type),
            computer_name: text(&details.computer_name),
            publisher: text(&details.publisher),
            offer: text(&details.offer),
            sku: text(&details.sku),
            image_version: text(&details.image_version),
            mac: text(&details.mac),
        }
    }

    /// Replaces the given details and keeps the others.
    pub fn merge_into(self, details: &mut core::Details) {
        for (given, current) in [
            (self.location, &mut details.location),
            (self.size, &mut details.size),
            (self.os_type, &mut details.os_type),
            (self.computer_name, &mut details.computer_name),
            (self.publisher, &mut details.publisher),
            (self.offer, &mut details.offer),
            (self.sku, &mut details.sku),
            (self.image_version, &mut details.image_version),
            (self.mac, &mut details.mac),
        ] {
            if let Some(Text(given)) = given {
                *current = given;
            }
        }
    }
}

pub fn into_tags(given: Tags) -> Vec<(String, String)> {
    given.0.into_iter().collect()
}

pub fn into_terminate_profile(given: TerminateNotification) -> Result<core::TerminateProfile, ApiError> {
    given.profile().map_err(|reason| {
        let reason = reason.trim_end_matches('.');
        ApiError::field("terminateNotification.notBeforeTimeout", format!("is not valid: {reason}"))
    })
}

/// The given subscription and resource group, or the default ones.
pub fn home_or_default(subscription: Option<ResourceName>, resource_group: Option<ResourceName>) -> core::Home {
    core::Home {
        subscription: subscription.map_or_else(|| SUBSCRIPTION_DEFAULT.into(), Name::from),
        resource_group: resource_group.map_or_else(|| RESOURCE_GROUP_DEFAULT.into(), Name::from),
    }
}

pub fn into_addresses(given: Vec<Address>) -> Result<Vec<core::Address>, ApiError> {
    if given.len() > ADDRESSES_MAX {
        return Err(ApiError::field("addresses", format!("has more than {ADDRESSES_MAX} entries")));
    }
    Ok(given.into_iter().map(|address| core::Address { network: address.network.into(), ip: address.ip.0 }).collect())
}
