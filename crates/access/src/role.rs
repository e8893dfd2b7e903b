//! The access that a request requires.

pub use forewarn_api_types::Role;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredAccess {
    /// No authentication.
    Nothing,
    Role(Role),
}

/// Whether a path belongs to the ARM API, whose errors have ARM's codes.
pub fn is_arm_path(path: &str) -> bool {
    // Clients send double slashes.
    let first = path.split('/').find(|segment| !segment.is_empty()).unwrap_or_default();
    ["subscriptions", "providers", "tenants"].iter().any(|root| first.eq_ignore_ascii_case(root))
}

#[cfg(test)]
mod tests {
    use super::*;

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
