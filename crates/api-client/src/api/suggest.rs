//! Suggests the closest existing name when the server does not know a name.

use forewarn_api_types::nearest::find_nearest;
use forewarn_api_types::{ErrorDetail, Page};
use serde::Deserialize;

use super::{Api, Call};
use crate::decode::decode;

/// Limit of names compared: one page of a list.
const NAMES_MAX: u32 = 1000;

const GROUPS: [&str; 3] = ["scale-sets", "availability-sets", "cloud-services"];

/// A "Did you mean" question for a refusal with this body. A name given as GROUP/NAME is compared with names of that
/// form.
pub fn suggest_name(api: &Api, asked_path: &str, error: &ErrorDetail) -> Option<String> {
    let typed = error.target.as_deref()?;
    let label = if typed.contains('/') { Named::qualified } else { Named::plain };
    let names = fetch_names(api, &lists_to_search(&error.code, asked_path), label);
    find_nearest(typed, names.iter().map(String::as_str)).map(|near| format!("Did you mean '{near}'?"))
}

/// The lists that contain names of this kind.
fn lists_to_search(code: &str, asked_path: &str) -> Vec<&'static str> {
    let kind = GROUPS.iter().copied().find(|list| asked_path.split('/').any(|segment| segment == *list));
    match (code, kind) {
        ("MachineNotFound", _) => vec!["machines"],
        ("HostNotFound", _) => vec!["hosts"],
        ("GroupNotFound", Some(kind)) => vec![kind],
        ("GroupNotFound", None) => GROUPS.to_vec(),
        _ => Vec::new(),
    }
}

/// Failures only mean that there is no suggestion.
fn fetch_names(api: &Api, lists: &[&str], label: fn(&Named) -> Option<String>) -> Vec<String> {
    let of_list = |list: &&str| {
        let page = api.get(&Call::api(&[list]).with("limit", Some(NAMES_MAX)));
        let page = page.and_then(|page| decode::<Page<Named>>(&page));
        page.map_or_else(|_| Vec::new(), |page| page.value.iter().filter_map(label).collect::<Vec<_>>())
    };
    lists.iter().flat_map(of_list).collect()
}

/// The names that entries of every list have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    name: String,
    cloud_service: Option<String>,
    resource_group: Option<String>,
}

impl Named {
    fn plain(&self) -> Option<String> {
        Some(self.name.clone())
    }

    /// A role instance belongs to its cloud service, everything else to its resource group.
    fn qualified(&self) -> Option<String> {
        let group = self.cloud_service.as_ref().or(self.resource_group.as_ref())?;
        Some(format!("{group}/{}", self.name))
    }
}
