//! Suggests the closest existing name when the server does not know a name.

use forewarn_api_types::nearest::nearest;
use serde_json::Value;

use super::{Api, Call};

/// Limit of names compared: one page of a list.
const NAMES_MAX: u32 = 1000;

const GROUPS: [&str; 3] = ["scale-sets", "availability-sets", "cloud-services"];

/// A "Did you mean" question for a refusal with this body. A name given as GROUP/NAME is compared with names of that
/// form.
pub fn did_you_mean(api: &Api, asked_path: &str, body: &Value) -> Option<String> {
    let error = &body["error"];
    let typed = error["target"].as_str()?;
    let label = if typed.contains('/') { qualified_name } else { plain_name };
    let names = fetch_names(api, &lists_to_search(error["code"].as_str()?, asked_path), label);
    nearest(typed, names.iter().map(String::as_str)).map(|near| format!("Did you mean '{near}'?"))
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
fn fetch_names(api: &Api, lists: &[&str], label: fn(&Value) -> Option<String>) -> Vec<String> {
    let of_list = |list: &&str| {
        let page = api.get(&Call::api(&[list]).with("limit", Some(NAMES_MAX))).unwrap_or_default();
        page["value"].as_array().into_iter().flatten().filter_map(label).collect::<Vec<_>>()
    };
    lists.iter().flat_map(of_list).collect()
}

fn plain_name(value: &Value) -> Option<String> {
    value["name"].as_str().map(String::from)
}

/// A role instance belongs to its cloud service, everything else to its resource group.
fn qualified_name(value: &Value) -> Option<String> {
    let group = value["cloudService"].as_str().or(value["resourceGroup"].as_str())?;
    Some(format!("{group}/{}", value["name"].as_str()?))
}
