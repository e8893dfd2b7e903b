//! Sign-in, tokens and roles.

use std::path::Path;

use crate::api_support::{Answer, Client, Server, open, token_in};
use forewarn_access::{AUDIENCE, Role, SignIn, Subject, TOKEN_SECS, client_in};
use forewarn_server::{Config, ManagementTls};
use serde_json::{Value, json};

fn real_now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn secret_of(directory: &Path, role: Role) -> String {
    client_in(directory, role).unwrap().unwrap().1.secret
}

fn form(fields: &[(&str, &str)]) -> String {
    fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn sign_in(server: &Server, tenant: &str, fields: &[(&str, &str)]) -> Answer {
    let client = Client::to(server.management).header("Content-Type", "application/x-www-form-urlencoded");
    client.send(server.management, &format!("POST /{tenant}/oauth2/v2.0/token"), form(fields).as_bytes())
}

fn signed_in(server: &Server, directory: &Path, role: Role) -> String {
    let secret = secret_of(directory, role);
    let fields = [("grant_type", "client_credentials"), ("client_id", role.as_str()), ("client_secret", &secret)];
    let answer = sign_in(server, "common", &fields);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["access_token"].as_str().unwrap().to_owned()
}

fn with(server: &Server, token: &str, line: &str, body: Value) -> Answer {
    let client = Client::to(server.management)
        .header("Authorization", &format!("Bearer {token}"))
        .header("Content-Type", "application/json");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.send(server.management, line, body.as_bytes())
}

fn made(directory: &Path, audience: &str, from: i64, length_secs: i64) -> String {
    let subject = Subject { name: "ann".into(), client_id: "c".into(), object_id: "o".into(), role: Role::Owner };
    SignIn::in_directory(directory).unwrap().issue(&subject, audience, from, length_secs).token
}

#[test]
fn clients_get_from_the_list_of_endpoints_to_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    let get = |path: &str| Client::to(server.management).send(server.management, &format!("GET {path}"), b"");
    let https = format!("https://{}", server.https.unwrap());
    let endpoints = get("/metadata/endpoints?api-version=2022-09-01").json();
    assert_eq!(endpoints["resourceManager"], https);
    let list = get("/metadata/endpoints?api-version=2019-05-01").json();
    assert_eq!(list[0]["authentication"]["audiences"][0], https);

    let tenant = endpoints["authentication"]["tenant"].as_str().unwrap().to_owned();
    for tenant in [tenant.as_str(), "common", "organizations", "adfs"] {
        for path in [format!("/{tenant}/v2.0"), format!("/{tenant}")] {
            let configuration = get(&format!("{path}/.well-known/openid-configuration")).json();
            let endpoint = configuration["token_endpoint"].as_str().unwrap();
            assert!(endpoint.starts_with(&format!("{https}/{tenant}/oauth2/")), "{endpoint}");
        }
    }
    // Some clients append the tenant to the login endpoint, whichever it is.
    for version in ["2022-09-01", "2015-01-01", "1.0"] {
        let endpoints = get(&format!("/metadata/endpoints?api-version={version}")).json();
        let login = endpoints["authentication"]["loginEndpoint"].as_str().unwrap().to_owned();
        let path = login.strip_prefix(&https).unwrap().trim_end_matches('/');
        for middle in ["", "/v2.0"] {
            let configuration = get(&format!("{path}/{tenant}{middle}/.well-known/openid-configuration")).json();
            let endpoint = configuration["token_endpoint"].as_str().unwrap();
            assert_eq!(endpoint, format!("{https}/{tenant}/oauth2/v2.0/token"), "{version}");
        }
    }
    let scope = format!("{https}/.default");
    let secret = secret_of(dir.path(), Role::Owner);
    let fields =
        [("grant_type", "client_credentials"), ("client_id", "owner"), ("client_secret", &secret), ("scope", &scope)];
    let answer = sign_in(&server, &tenant, &fields);
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
    let answer = answer.json();
    assert_eq!((&answer["token_type"], &answer["expires_in"]), (&json!("Bearer"), &json!(TOKEN_SECS)));
    let token = answer["access_token"].as_str().unwrap();
    assert_eq!(with(&server, token, "GET /api/v1/machines", Value::Null).status, 200);
}

#[test]
fn failed_sign_ins_get_oauth_errors() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    let secret = secret_of(dir.path(), Role::Reader);
    let credentials = ("grant_type", "client_credentials");
    let check = |tenant: &str, fields: &[(&str, &str)], status: u16, error: &str| {
        let answer = sign_in(&server, tenant, fields);
        assert_eq!((answer.status, answer.json()["error"].as_str()), (status, Some(error)), "{fields:?}");
        let sentence = answer.json()["error_description"].as_str().unwrap().to_owned();
        assert!(sentence.ends_with('.') && !sentence.contains(&secret), "{sentence}");
    };
    let reader = [credentials, ("client_id", "reader"), ("client_secret", &secret)];
    check("common", &[credentials, ("client_id", "reader"), ("client_secret", "x")], 401, "invalid_client");
    check("common", &[credentials, ("client_id", "owner"), ("client_secret", &secret)], 401, "invalid_client");
    check("common", &[credentials, ("client_id", "reader")], 401, "invalid_client");
    check("common", &[("grant_type", "password")], 400, "unsupported_grant_type");
    check("common", &[], 400, "invalid_request");
    check("somewhere-else", &reader, 400, "invalid_request");
    let foreign = [&reader[..], &[("scope", "https://vault.azure.net/.default")]].concat();
    check("common", &foreign, 400, "invalid_scope");
    check("common", &[&reader[..], &[("scope", "nonsense")]].concat(), 400, "invalid_scope");
}

#[test]
fn arm_paths_without_a_token_get_arm_errors() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    for (line, code) in [
        ("GET /subscriptions?api-version=2022-12-01", "AuthenticationFailed"),
        ("PUT /subscriptions/s/resourceGroups/rg", "AuthenticationFailed"),
        ("GET /tenants", "AuthenticationFailed"),
        ("GET /api/v1/machines", "Unauthorized"),
        ("GET /nothing", "Unauthorized"),
        ("POST /metadata/endpoints", "Unauthorized"),
    ] {
        let answer = Client::to(server.management).send(server.management, line, b"");
        assert_eq!((answer.status, answer.code().as_str()), (401, code), "{line}");
        assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"), "{line}");
    }
}

#[test]
fn expired_forged_and_foreign_tokens_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    let check = |token: &str, words: &str| {
        let answer = with(&server, token, "GET /api/v1/machines", Value::Null);
        assert_eq!(answer.status, 401, "{words}");
        assert!(answer.text().contains(words), "{}", answer.text());
    };
    let good = made(dir.path(), AUDIENCE, real_now(), TOKEN_SECS);
    assert_eq!(with(&server, &good, "GET /api/v1/machines", Value::Null).status, 200);
    check(&made(dir.path(), AUDIENCE, real_now() - 2 * TOKEN_SECS, TOKEN_SECS), "has expired");
    check(&made(dir.path(), "https://vault.azure.net", real_now(), TOKEN_SECS), "another service");
    let elsewhere = tempfile::tempdir().unwrap();
    check(&made(elsewhere.path(), AUDIENCE, real_now(), TOKEN_SECS), "not signed by this server");
    let mut changed = good.clone();
    changed.replace_range(60..61, if &good[60..61] == "A" { "B" } else { "A" });
    check(&changed, "not signed by this server");
    check(&good[..good.len() - 1], "not");
    check("nonsense", "The token is not valid");
    let port = server.https.unwrap().port();
    check(&made(dir.path(), &format!("https://127.0.0.1:{}", port ^ 1), real_now(), TOKEN_SECS), "another service");
    check(&made(dir.path(), &format!("https://evil.example:{port}"), real_now(), TOKEN_SECS), "another service");
}

#[test]
fn each_role_can_do_exactly_what_it_permits() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    let [reader, operator, owner] = Role::ALL.map(|role| signed_in(&server, dir.path(), role));
    let arm = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/vm";
    let machine = json!({ "name": "web" });
    assert_eq!(with(&server, &owner, "POST /api/v1/machines", machine.clone()).status, 201);
    let event = "00000000-0000-4000-8000-000000000001";
    for (line, body, needs) in [
        ("GET /api/v1/machines".to_owned(), Value::Null, Role::Reader),
        ("GET /metrics".to_owned(), Value::Null, Role::Reader),
        ("POST /api/v1/machines".to_owned(), machine, Role::Owner),
        ("POST /api/v1/machines/web/stop".to_owned(), Value::Null, Role::Owner),
        ("POST /api/v1/machines/web/restart".to_owned(), Value::Null, Role::Operator),
        (
            "POST /api/v1/maintenance".to_owned(),
            json!({"target": {"machine": "web"}, "type": "Reboot"}),
            Role::Operator,
        ),
        (format!("POST /api/v1/events/{event}/approve"), Value::Null, Role::Operator),
        (format!("POST /api/v1/events/{event}/cancel"), Value::Null, Role::Operator),
        (format!("POST /api/v1/operations/{event}/cancel"), Value::Null, Role::Operator),
        ("PUT /api/v1/machines/web/identity".to_owned(), Value::Null, Role::Owner),
        ("DELETE /api/v1/hosts/h".to_owned(), Value::Null, Role::Owner),
        ("PUT /api/v1/clock".to_owned(), json!({"now": "2030-01-01T00:00:00Z"}), Role::Owner),
        (format!("GET {arm}"), Value::Null, Role::Reader),
        (format!("PUT {arm}"), json!({}), Role::Owner),
        (format!("POST {arm}/restart"), Value::Null, Role::Operator),
        (format!("DELETE {arm}"), Value::Null, Role::Owner),
    ] {
        for (role, token) in [(Role::Reader, &reader), (Role::Operator, &operator), (Role::Owner, &owner)] {
            let answer = with(&server, token, &line, body.clone());
            let refused = answer.status == 403;
            assert_eq!(refused, role < needs, "{line} as {}: {}", role.as_str(), answer.text());
            assert!(answer.status != 401, "{line} as {}", role.as_str());
            if refused {
                assert_eq!(answer.code(), "AuthorizationFailed");
                assert!(answer.text().contains(&format!("requires the role {}", needs.as_str())), "{}", answer.text());
            }
        }
    }
}

#[test]
fn history_records_the_caller() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    let operator = signed_in(&server, dir.path(), Role::Operator);
    let ann = made(dir.path(), AUDIENCE, real_now(), TOKEN_SECS);
    assert_eq!(with(&server, &ann, "POST /api/v1/machines", json!({ "name": "web" })).status, 201);
    server.listen_as("web");
    let operation = with(&server, &operator, "POST /api/v1/machines/web/restart", Value::Null).json();
    assert_eq!(operation["requestedBy"], "operator");
    let event = operation["events"][0]["id"].as_str().unwrap();
    let approved = with(&server, &ann, &format!("POST /api/v1/events/{event}/approve"), Value::Null).json();
    assert_eq!(approved["approval"]["approvedBy"], "management:ann");
    let history = with(&server, &token_in(dir.path()), "GET /api/v1/history?kind=audit", Value::Null).json();
    let actors: Vec<_> = history["value"].as_array().unwrap().iter().map(|row| row["actor"].clone()).collect();
    assert_eq!(actors, ["ann", "operator", "ann"]);
}

#[test]
fn without_authentication_any_token_and_any_secret_are_accepted() {
    let tls = ManagementTls::At("127.0.0.1:0".parse().unwrap());
    let server = Server::new(Config { management_tls: tls, ..open() });
    assert_eq!(with(&server, "anything", "POST /api/v1/machines", json!({ "name": "a" })).status, 201);
    let fields = [("grant_type", "client_credentials"), ("client_id", "any"), ("client_secret", "any")];
    let answer = sign_in(&server, "11111111-2222-3333-4444-555555555555", &fields);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn metadata(server: &Server, line: &str) -> Answer {
    Client::to(server.metadata).header("Metadata", "true").send(server.metadata, line, b"")
}

const IDENTITY: &str = "/metadata/identity/oauth2/token?api-version=2018-02-01";

#[test]
fn a_machine_with_an_identity_gets_tokens_for_the_management_api() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    let owner = token_in(dir.path());
    assert_eq!(with(&server, &owner, "POST /api/v1/machines", json!({ "name": "web" })).status, 201);
    let https = format!("https://{}", server.https.unwrap());
    let line = format!("GET /vm/web{IDENTITY}&resource={https}");

    let none = metadata(&server, &line);
    assert_eq!((none.status, none.json()["error"].as_str()), (400, Some("invalid_request")));
    assert!(none.text().contains("Identity not found"), "{}", none.text());
    let route = "/api/v1/machines/web/identity";
    assert_eq!(with(&server, &owner, &format!("GET {route}"), Value::Null).status, 404);

    let given = with(&server, &owner, &format!("PUT {route}"), Value::Null);
    assert_eq!((given.status, &given.json()["role"]), (200, &json!("reader")), "{}", given.text());
    let id = given.json()["principalId"].as_str().unwrap().to_owned();
    let answer = metadata(&server, &line);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!((&answer["client_id"], &answer["expires_in"]), (&json!(id), &json!("3600")));
    let token = answer["access_token"].as_str().unwrap();
    assert_eq!(with(&server, token, "GET /api/v1/machines", Value::Null).status, 200);
    let refused = with(&server, token, "POST /api/v1/machines", json!({ "name": "b" }));
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("'machine:web'"), "{}", refused.text());

    with(&server, &owner, &format!("PUT {route}"), json!({ "role": "operator" }));
    let azures = format!("GET /vm/web{IDENTITY}&resource=https%3A%2F%2Fmanagement.azure.com%2F&client_id={id}");
    let token = metadata(&server, &azures).json()["access_token"].as_str().unwrap().to_owned();
    assert_eq!(with(&server, &token, "POST /api/v1/machines/web/restart", Value::Null).status, 202);

    server.stop();
    let server = Server::secured(dir.path());
    assert_eq!(metadata(&server, &azures).status, 200, "an identity survives a restart");
    assert_eq!(with(&server, &owner, &format!("DELETE {route}"), Value::Null).status, 204);
    assert_eq!(metadata(&server, &azures).status, 400);
    assert_eq!(with(&server, &owner, &format!("DELETE {route}"), Value::Null).status, 404);
}

#[test]
fn token_requests_of_machines_are_validated() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    let owner = token_in(dir.path());
    with(&server, &owner, "POST /api/v1/machines", json!({ "name": "web" }));
    with(&server, &owner, "PUT /api/v1/machines/web/identity", Value::Null);
    let resource = "resource=https://management.azure.com/";
    let path = format!("/vm/web{IDENTITY}");
    for (line, status, error) in [
        (format!("GET {path}"), 400, "invalid_request"),
        (format!("GET {path}&resource="), 400, "invalid_request"),
        (format!("GET {path}&resource=https://vault.azure.net"), 400, "invalid_resource"),
        (format!("GET {path}&{resource}&client_id=unknown"), 400, "invalid_request"),
        (format!("POST {path}&{resource}"), 405, ""),
        (format!("GET {path}&{resource}&{resource}"), 400, ""),
        (format!("GET /vm/web/metadata/identity/oauth2/token?{resource}"), 400, ""),
        (format!("GET /vm/missing{IDENTITY}&{resource}"), 404, ""),
    ] {
        let answer = metadata(&server, &line);
        assert_eq!(answer.status, status, "{line}: {}", answer.text());
        assert!(error.is_empty() || answer.json()["error"] == error, "{line}: {}", answer.text());
    }
    let without_header = Client::to(server.metadata);
    assert_eq!(without_header.send(server.metadata, &format!("GET {path}&{resource}"), b"").status, 400);
    let forwarded = Client::to(server.metadata).header("Metadata", "true").header("X-Forwarded-For", "10.0.0.1");
    assert_eq!(forwarded.send(server.metadata, &format!("GET {path}&{resource}"), b"").status, 400);
}

#[test]
fn a_guest_cannot_reach_the_management_api() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::secured(dir.path());
    let owner = token_in(dir.path());
    for path in [
        "/metadata/endpoints",
        "/common/oauth2/v2.0/token",
        "/adfs/.well-known/openid-configuration",
        "/ca.pem",
        "/subscriptions",
        "/api/v1/machines",
        "/healthz",
        "/openapi.json",
        "/metrics",
    ] {
        for (method, prefix) in [("GET", ""), ("POST", ""), ("GET", "/vm/web")] {
            let client = Client::to(server.metadata).header("Metadata", "true");
            let client = client.header("Authorization", &format!("Bearer {owner}"));
            let answer = client.send(server.metadata, &format!("{method} {prefix}{path}?api-version=2020-07-01"), b"");
            assert_eq!(answer.status, 404, "{method} {prefix}{path}: {}", answer.text());
        }
    }
    let inside = Client::to(server.management).header("Metadata", "true");
    let line = format!("GET {IDENTITY}&resource=https://management.azure.com/");
    assert_eq!(inside.send(server.management, &line, b"").status, 401, "nor the other way round");
}
