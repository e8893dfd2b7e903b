//! A name that the server does not know was probably meant to be another one.

use forewarn_server::nearest::nearest;
use serde_json::Value;

use super::{Api, Call};

/// Names that are compared with what was typed: one page of a list.
const NAMES_MAX: u32 = 1000;

const GROUPS: [&str; 3] = ["scale-sets", "availability-sets", "cloud-services"];

/// The question that ends a refusal with this body, when there is one.
pub fn question(api: &Api, asked_path: &str, body: &Value) -> Option<String> {
    let error = &body["error"];
    let typed = error["target"].as_str()?;
    let name = typed.rsplit('~').next()?;
    let names = names(api, &lists(error["code"].as_str()?, asked_path));
    nearest(name, names.iter().map(String::as_str)).map(|near| format!("Did you mean '{near}'?"))
}

/// Where the names are that this refusal speaks of.
fn lists(code: &str, asked_path: &str) -> Vec<&'static str> {
    let kind = GROUPS.iter().copied().find(|list| asked_path.split('/').next() == Some(list));
    match (code, kind) {
        ("MachineNotFound", _) => vec!["machines"],
        ("HostNotFound", _) => vec!["hosts"],
        ("GroupNotFound", Some(kind)) => vec![kind],
        ("GroupNotFound", None) => GROUPS.to_vec(),
        _ => Vec::new(),
    }
}

/// Without them there is no suggestion, and that is all.
fn names(api: &Api, lists: &[&str]) -> Vec<String> {
    let of_list = |list: &&str| {
        let page = api.get(&Call::to(&[list]).with("limit", Some(NAMES_MAX))).unwrap_or_default();
        let values = page["value"].as_array().cloned().unwrap_or_default();
        values.into_iter().filter_map(|value| value["name"].as_str().map(String::from)).collect::<Vec<_>>()
    };
    lists.iter().flat_map(of_list).collect()
}
