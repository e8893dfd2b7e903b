//! Bodies that clients read while signing in: the list of endpoints, the OpenID configuration, tokens, and
//! OAuth errors. This module does not check or issue tokens.

use serde_json::{Value, json};

/// The only version of `/metadata/endpoints` whose body is a list.
pub const ENDPOINTS_LIST_VERSION: &str = "2019-05-01";

/// The default cloud of the Azure CLI. Listing ourselves under this name makes extra configuration unnecessary.
const FIRST_CLOUD: &str = "AzureCloud";

/// The name of our cloud.
pub const CLOUD: &str = "Forewarn";

/// The versions of `/metadata/endpoints` with flat names, which old clients and Azure Stack use.
const ENDPOINTS_FLAT_VERSIONS: [&str; 2] = ["2015-01-01", "1.0"];

/// The body of `/metadata/endpoints`: an object, or a list of objects for one old version.
pub fn endpoints(base: &str, tenant: &str, api_version: Option<&str>) -> Value {
    if api_version.is_some_and(|version| ENDPOINTS_FLAT_VERSIONS.contains(&version)) {
        return flat_endpoints(base);
    }
    if api_version == Some(ENDPOINTS_LIST_VERSION) {
        json!([cloud(FIRST_CLOUD, base, tenant), cloud(CLOUD, base, tenant)])
    } else {
        cloud(CLOUD, base, tenant)
    }
}

/// Clients append a tenant to the login endpoint themselves.
fn flat_endpoints(base: &str) -> Value {
    json!({
        "galleryEndpoint": base,
        "graphEndpoint": base,
        "portalEndpoint": base,
        "authentication": { "loginEndpoint": format!("{base}/"), "audiences": [base] },
    })
}

/// All endpoints are at one address. The login endpoint ends in `/adfs`, because clients then do not ask
/// Microsoft to validate it.
fn cloud(name: &str, base: &str, tenant: &str) -> Value {
    json!({
        "name": name,
        "portal": base,
        "authentication": {
            "loginEndpoint": format!("{base}/adfs"),
            "audiences": [base],
            "tenant": tenant,
            "identityProvider": "ADFS",
        },
        "resourceManager": base,
        "graph": base,
        "graphAudience": base,
        "microsoftGraphResourceId": base,
        "gallery": base,
        "batch": base,
        "media": base,
        "sqlManagement": base,
        "activeDirectoryDataLake": base,
        "vmImageAliasDoc": format!("{base}/aliases.json"),
        "suffixes": {
            "acrLoginServer": "azurecr.invalid",
            "keyVaultDns": "vault.invalid",
            "sqlServerHostname": "database.invalid",
            "storage": "storage.invalid",
        },
    })
}

/// The OpenID configuration of a tenant, or of `common`, `organizations` or `adfs`.
pub fn openid_configuration(base: &str, tenant: &str) -> Value {
    let (issuer, oauth) = match tenant {
        "adfs" => (format!("{base}/adfs"), format!("{base}/adfs/oauth2")),
        tenant => (format!("{base}/{tenant}/v2.0"), format!("{base}/{tenant}/oauth2/v2.0")),
    };
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{oauth}/authorize"),
        "token_endpoint": format!("{oauth}/token"),
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": ["token"],
        "subject_types_supported": ["pairwise"],
    })
}

/// A token for a client that has proved its secret.
pub fn token(token: &str, expires_in_secs: i64) -> Value {
    json!({
        "token_type": "Bearer",
        "expires_in": expires_in_secs,
        "ext_expires_in": expires_in_secs,
        "access_token": token,
    })
}

/// A token for a machine. Numbers are strings here, as in Azure.
pub fn machine_token(token: &str, client_id: &str, resource: &str, from: i64, until: i64) -> Value {
    let length = (until - from).to_string();
    json!({
        "access_token": token,
        "client_id": client_id,
        "expires_in": length,
        "expires_on": until.to_string(),
        "ext_expires_in": length,
        "not_before": from.to_string(),
        "resource": resource,
        "token_type": "Bearer",
    })
}

/// An OAuth error.
pub fn refusal(error: &str, description: &str) -> Value {
    json!({ "error": error, "error_description": description })
}

/// The resource of a scope such as `https://host/.default`.
pub fn resource_of_scope(scope: &str) -> Option<&str> {
    let named = scope.split_whitespace().find_map(|word| word.strip_suffix(".default"));
    named.map(|resource| resource.trim_end_matches('/')).filter(|resource| !resource.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "https://127.0.0.1:8171";

    #[test]
    fn endpoints_are_an_object_except_in_one_version() {
        for version in [None, Some("2022-09-01"), Some("2023-11-01")] {
            let object = endpoints(BASE, "T", version);
            assert_eq!(object["resourceManager"], BASE);
            assert_eq!(object["authentication"]["loginEndpoint"], "https://127.0.0.1:8171/adfs");
            assert_eq!(object["authentication"]["audiences"][0], BASE);
        }
        let list = endpoints(BASE, "T", Some(ENDPOINTS_LIST_VERSION));
        let names: Vec<_> = list.as_array().unwrap().iter().map(|cloud| cloud["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["AzureCloud", "Forewarn"]);
    }

    #[test]
    fn the_oldest_versions_have_flat_names() {
        for version in ENDPOINTS_FLAT_VERSIONS {
            let object = endpoints(BASE, "T", Some(version));
            assert_eq!((&object["graphEndpoint"], &object["galleryEndpoint"]), (&json!(BASE), &json!(BASE)));
            assert_eq!(object["authentication"]["loginEndpoint"], "https://127.0.0.1:8171/");
            assert_eq!(object.get("resourceManager"), None);
        }
    }

    #[test]
    fn each_tenant_has_its_own_token_endpoint() {
        let endpoint = |tenant| openid_configuration(BASE, tenant)["token_endpoint"].clone();
        assert_eq!(endpoint("T"), "https://127.0.0.1:8171/T/oauth2/v2.0/token");
        assert_eq!(endpoint("adfs"), "https://127.0.0.1:8171/adfs/oauth2/token");
    }

    #[test]
    fn a_scope_contains_its_resource() {
        for (scope, resource) in [
            ("https://h:1/.default", Some("https://h:1")),
            ("https://h:1//.default", Some("https://h:1")),
            ("openid https://h/.default offline_access", Some("https://h")),
            ("https://h", None),
            (".default", None),
            ("", None),
        ] {
            assert_eq!(resource_of_scope(scope), resource, "{scope}");
        }
    }
}
