//! The three roles, and the role that an ARM request needs, decided by method and path. The routes of the native API state
//! theirs in their table.

use http::Method;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Ordered by what they may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads.
    Reader,
    /// Also approves and cancels events, and restarts and maintains machines.
    Operator,
    /// Does everything.
    Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// No authentication.
    Nothing,
    Role(Role),
}

/// ARM actions that operators can call: they give notice and destroy nothing.
const OPERATOR_ACTIONS: [&str; 4] = ["acknowledge", "restart", "redeploy", "performMaintenance"];

/// Paths that clients read before they have a token.
const OPEN_PATHS: [&str; 1] = ["aliases.json"];

impl Role {
    pub const ALL: [Role; 3] = [Role::Reader, Role::Operator, Role::Owner];

    pub fn word(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Operator => "operator",
            Role::Owner => "owner",
        }
    }

    pub fn parse(word: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.word() == word)
    }
}

/// Whether a path belongs to the ARM API, whose errors have ARM's codes.
pub fn is_arm_path(path: &str) -> bool {
    let first = segments(path).next().unwrap_or_default();
    ["subscriptions", "providers", "tenants"].iter().any(|root| first.eq_ignore_ascii_case(root))
}

/// The role for a request outside the native API. Unknown requests need the owner.
pub fn arm_needs(method: &Method, path: &str) -> Needs {
    let segments: Vec<&str> = segments(path).collect();
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    match segments[..] {
        [only] if is_read && OPEN_PATHS.iter().any(|open| open.eq_ignore_ascii_case(only)) => Needs::Nothing,
        _ if is_read => Needs::Role(Role::Reader),
        [.., provider, events] if *method == Method::POST && is_acknowledgement(provider, events) => {
            Needs::Role(Role::Operator)
        }
        [.., action] if *method == Method::POST && is_operators(action) => Needs::Role(Role::Operator),
        _ => Needs::Role(Role::Owner),
    }
}

fn is_operators(action: &str) -> bool {
    OPERATOR_ACTIONS.iter().any(|known| known.eq_ignore_ascii_case(action))
}

/// Acknowledging several events at once is a POST to the list.
fn is_acknowledgement(provider: &str, events: &str) -> bool {
    provider.eq_ignore_ascii_case("Microsoft.Maintenance") && events.eq_ignore_ascii_case("scheduledevents")
}

/// The segments of a path. Clients send double slashes.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_role_may_ask_of_arm() {
        let vm = "/subscriptions/S/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/vm1";
        let list = format!("{vm}/providers/Microsoft.Maintenance/scheduledevents");
        let role = Needs::Role;
        for (method, path, needs) in [
            (Method::GET, vm.to_owned(), role(Role::Reader)),
            (Method::HEAD, vm.to_owned(), role(Role::Reader)),
            (Method::GET, list.clone(), role(Role::Reader)),
            (Method::POST, list.clone(), role(Role::Operator)),
            (Method::POST, list.to_uppercase(), role(Role::Operator)),
            (Method::POST, format!("{list}/ID/acknowledge"), role(Role::Operator)),
            (Method::POST, format!("{vm}//restart/"), role(Role::Operator)),
            (Method::POST, format!("{vm}/redeploy"), role(Role::Operator)),
            (Method::POST, format!("{vm}/performmaintenance"), role(Role::Operator)),
            (Method::POST, format!("{vm}/simulateEviction"), role(Role::Owner)),
            (Method::POST, format!("{vm}/deallocate"), role(Role::Owner)),
            (Method::POST, format!("{vm}/delete"), role(Role::Owner)),
            (Method::PUT, vm.to_owned(), role(Role::Owner)),
            (Method::PUT, format!("{vm}/restart"), role(Role::Owner)),
            (Method::PATCH, vm.to_owned(), role(Role::Owner)),
            (Method::DELETE, vm.to_owned(), role(Role::Owner)),
            (Method::OPTIONS, vm.to_owned(), role(Role::Owner)),
            (Method::GET, "/nothing".to_owned(), role(Role::Reader)),
            (Method::GET, "/aliases.json".to_owned(), Needs::Nothing),
            (Method::PUT, "/aliases.json".to_owned(), role(Role::Owner)),
            (Method::GET, "/subscriptions/aliases.json".to_owned(), role(Role::Reader)),
        ] {
            assert_eq!(arm_needs(&method, &path), needs, "{method} {path}");
        }
    }

    #[test]
    fn paths_of_arm_begin_with_its_roots() {
        for path in ["/subscriptions", "//Subscriptions/S", "/providers/x", "/tenants"] {
            assert!(is_arm_path(path), "{path}");
        }
        for path in ["/", "/api/v1/machines", "/metadata/endpoints", "/x/subscriptions"] {
            assert!(!is_arm_path(path), "{path}");
        }
    }
}
