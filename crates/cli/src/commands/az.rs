//! `forewarn az`: creates a configuration directory with which the Azure CLI talks to the server, and leaves the user's own
//! configuration alone. `forewarn ca`: prints the certificate that such programs must trust.
//!
//! ```text
//!  data directory ── client and secret ──┐
//!                                        ├─▶ DIR: config, clouds.config, azureProfile.json,
//!  server ── https address, authority ───┘        service_principal_entries.json, ca-bundle.pem
//! ```

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use forewarn_access::{Role, client_in};
use forewarn_api::SUBSCRIPTION_DEFAULT;
use forewarn_config::data_directory;
use forewarn_connect::fingerprint;
use serde_json::{Value, json};

use crate::args::{AzArgs, CaCommand};
use crate::client::{Api, Call};
use crate::connect::connect;
use crate::failure::Failure;
use crate::output;

/// Name of the cloud in the Azure CLI.
const CLOUD: &str = "Forewarn";

const BUNDLE: &str = "ca-bundle.pem";

/// Locations of the system's trusted authorities, most common first.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Sign-in caches of the Azure CLI, which become invalid when the account changes.
const CACHES: [&str; 3] = ["msal_token_cache.json", "msal_token_cache.bin", "msal_http_cache.bin"];

/// Value of AZURE_CONFIG_DIR on failure: no directory can exist there, so az fails instead of using Azure.
const NOWHERE: &str = "/dev/null/forewarn-az-has-failed";

pub fn run(args: &AzArgs) -> Result<(), Failure> {
    if !args.az.is_empty() {
        return run_az(args, prepare(args)?);
    }
    match prepare(args) {
        Ok(variables) => variables.iter().try_for_each(|(name, value)| output::print_line(&export(name, value))),
        Err(failure) => Err(fail_eval(failure)),
    }
}

/// Makes `eval` fail: evaluating nothing would succeed, and the next az would use the account of the user.
fn fail_eval(failure: Failure) -> Failure {
    if io::stdout().is_terminal() {
        return failure;
    }
    let advised = failure.with_advice(
        "AZURE_CONFIG_DIR is set to an invalid path so that az cannot reach Azure by accident; `unset AZURE_CONFIG_DIR` undoes this",
    );
    output::print_line(&fail_eval_lines()).err().unwrap_or(advised)
}

fn fail_eval_lines() -> String {
    format!("{}\nfalse", export("AZURE_CONFIG_DIR", NOWHERE))
}

/// The same for usage errors.
pub fn print_eval_guard(words: &[OsString]) {
    let runs_az = words.iter().any(|word| word == "--");
    if words.get(1).is_some_and(|word| word == "az") && !runs_az && !io::stdout().is_terminal() {
        // The usage error follows.
        let _ = output::print_line(&fail_eval_lines());
    }
}

/// Creates the directory and returns the environment for az.
fn prepare(args: &AzArgs) -> Result<Variables, Failure> {
    let data = data_directory(args.connection.data.clone())?;
    let api = connect(&args.connection)?;
    let server = ServerInfo::fetch(&api)?;
    let stored = client_in(&data, args.role).map_err(|error| Failure::Refused(error.to_string()))?;
    let stored = stored.filter(|(tenant, _)| *tenant == server.tenant);
    let stored = stored.map(|(_, client)| (client.client_id, client.secret));
    let dir = match (&args.dir, &stored) {
        (Some(dir), _) => dir.clone(),
        (None, Some(_)) => data.join("azure"),
        (None, None) => cache_directory(&server)?,
    };
    let dir = std::path::absolute(&dir).map_err(|error| cannot_write(&dir, &error))?;
    let account = Account::find(&api, &data, args.role, stored)?;
    write_all(&dir, &server, &account)?;
    if args.dir.is_none() && !dir.starts_with(std::path::absolute(&data).unwrap_or(data)) {
        output::print_stderr(&format!(
            "The data directory belongs to another server, so the az configuration is in {}. Delete that directory when you delete the server.",
            dir.display()
        ));
    }
    Ok(variables(&dir, &server))
}

/// A directory of the user for a server without a data directory.
fn cache_directory(server: &ServerInfo) -> Result<PathBuf, Failure> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = || absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let base = absolute("XDG_RUNTIME_DIR").or_else(cache).ok_or_else(|| {
        Failure::Usage("neither XDG_RUNTIME_DIR nor HOME is set: choose a directory with --dir".into())
    })?;
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let address: String = server.https.trim_start_matches("https://").chars().map(plain).collect();
    Ok(base.join("forewarn").join(format!("azure-{address}")))
}

fn run_az(args: &AzArgs, variables: Variables) -> Result<(), Failure> {
    let error = Command::new("az").args(&args.az).envs(variables).exec();
    Err(match error.kind() {
        io::ErrorKind::NotFound => Failure::Refused(
            "az not found in PATH: install the Azure CLI, for example with `pip install azure-cli`".into(),
        ),
        _ => Failure::Refused(format!("cannot run az: {error}")),
    })
}

pub fn show_authority(api: &Api, command: &CaCommand) -> Result<(), Failure> {
    let pem = authority(api)?.ok_or_else(no_authority)?;
    match command {
        CaCommand::Show => output::print_line(pem.trim_end()),
        CaCommand::Fingerprint => output::print_line(&fingerprint(&pem)?),
    }
}

fn authority(api: &Api) -> Result<Option<String>, Failure> {
    api.text(&Call::path("/ca.pem"))
}

fn no_authority() -> Failure {
    Failure::Refused(
        "the server has no certificate authority: it has no https listener, or its certificate was set with \
         --management-tls-cert"
            .into(),
    )
}

/// The server's description of itself.
struct ServerInfo {
    https: String,
    tenant: String,
    /// None if the server uses a certificate that was given to it.
    authority: Option<String>,
}

impl ServerInfo {
    fn fetch(api: &Api) -> Result<ServerInfo, Failure> {
        let unexpected =
            || Failure::Refused("the server does not report an https address: it may be an older version".into());
        let text = api.text(&Call::path("/metadata/endpoints"))?.ok_or_else(unexpected)?;
        let endpoints: Value = serde_json::from_str(&text).map_err(|_| unexpected())?;
        let field = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(unexpected);
        Ok(ServerInfo {
            https: field(&endpoints["resourceManager"])?,
            tenant: field(&endpoints["authentication"]["tenant"])?,
            authority: authority(api)?,
        })
    }

    fn host(&self) -> &str {
        let address = self.https.trim_start_matches("https://");
        address.rsplit_once(':').map_or(address, |(host, _)| host)
    }
}

/// The account that az signs in with.
struct Account {
    client: String,
    secret: String,
    /// ID and name.
    subscriptions: Vec<(String, String)>,
}

impl Account {
    fn find(api: &Api, data: &Path, role: Role, stored: Option<(String, String)>) -> Result<Account, Failure> {
        // A server without authentication accepts any secret.
        let (client, secret) = stored.unwrap_or_else(|| (role.as_str().to_owned(), "none".to_owned()));
        if !api.can_sign_in(&client, &secret)? {
            return Err(Failure::Refused(format!(
                "the server rejected the {} secret in {}: set --data to the server's data directory",
                role.as_str(),
                data.display()
            )));
        }
        Ok(Account { client, secret, subscriptions: subscriptions(api) })
    }
}

/// The subscriptions of the server, or the default one.
fn subscriptions(api: &Api) -> Vec<(String, String)> {
    let listed = api.get(&Call::path("/subscriptions").with("api-version", Some("2022-12-01"))).unwrap_or_default();
    let entry = |value: &Value| {
        let id = value["subscriptionId"].as_str()?;
        Some((id.to_owned(), value["displayName"].as_str().unwrap_or(CLOUD).to_owned()))
    };
    let found: Vec<_> = listed["value"].as_array().into_iter().flatten().filter_map(entry).collect();
    if found.is_empty() { vec![(SUBSCRIPTION_DEFAULT.to_owned(), CLOUD.to_owned())] } else { found }
}

type Variables = Vec<(&'static str, String)>;

fn variables(dir: &Path, server: &ServerInfo) -> Variables {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let mut variables = vec![("AZURE_CONFIG_DIR", text(dir.to_owned()))];
    if server.authority.is_some() {
        variables.push(("REQUESTS_CA_BUNDLE", text(dir.join(BUNDLE))));
    }
    variables.extend(no_proxy(server.host()).map(|value| ("NO_PROXY", value)));
    variables
}

/// Excludes the server from a proxy.
fn no_proxy(host: &str) -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let proxied = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].iter().any(|name| set(name).is_some());
    let before = set("NO_PROXY").or_else(|| set("no_proxy")).unwrap_or_default();
    let there = before.split(',').any(|entry| entry.trim() == host || entry.trim() == "*");
    let joined = || if before.is_empty() { host.to_owned() } else { format!("{before},{host}") };
    (proxied && !there).then(joined)
}

/// An assignment for the shell, quoted.
fn export(name: &str, value: &str) -> String {
    format!("export {name}='{}'", value.replace('\'', r"'\''"))
}

fn write_all(dir: &Path, server: &ServerInfo, account: &Account) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| cannot_write(dir, &error))?;
    // Keep the changes of `az config set`.
    if !dir.join("config").exists() {
        write(dir, "config", &settings())?;
    }
    write(dir, "clouds.config", &cloud(&server.https))?;
    let signs_in = json!([{ "client_id": account.client, "tenant": server.tenant, "client_secret": account.secret }]);
    if write(dir, "service_principal_entries.json", &signs_in.to_string())? == WriteResult::Changed {
        write(dir, "azureProfile.json", &profile(server, account).to_string())?;
        CACHES.iter().for_each(|name| drop(fs::remove_file(dir.join(name))));
    }
    if let Some(authority) = &server.authority {
        write(dir, BUNDLE, &format!("{}{authority}", system_bundle(dir)))?;
    }
    Ok(())
}

fn settings() -> String {
    format!(
        "[cloud]\nname = {CLOUD}\n\n[core]\ninstance_discovery = false\ncollect_telemetry = false\nencrypt_token_cache = false\n"
    )
}

fn cloud(https: &str) -> String {
    format!(
        "[{CLOUD}]\n\
         endpoint_active_directory = {https}\n\
         endpoint_active_directory_resource_id = {https}\n\
         endpoint_management = {https}\n\
         endpoint_resource_manager = {https}\n\
         endpoint_vm_image_alias_doc = {https}/aliases.json\n\
         suffix_storage_endpoint = storage.invalid\n"
    )
}

fn profile(server: &ServerInfo, account: &Account) -> Value {
    let subscription = |(index, (id, name)): (usize, &(String, String))| {
        json!({
            "id": id, "name": name, "state": "Enabled", "isDefault": index == 0,
            "user": { "name": account.client, "type": "servicePrincipal" },
            "tenantId": server.tenant, "environmentName": CLOUD,
        })
    };
    json!({ "subscriptions": account.subscriptions.iter().enumerate().map(subscription).collect::<Vec<_>>() })
}

/// The authorities that the user already trusts.
fn system_bundle(dir: &Path) -> String {
    let own = dir.join(BUNDLE);
    let given = std::env::var_os("REQUESTS_CA_BUNDLE").map(PathBuf::from).filter(|path| *path != own);
    let candidates = given.into_iter().chain(SYSTEM_BUNDLES.iter().map(PathBuf::from));
    let mut found = candidates.filter_map(|path| fs::read_to_string(path).ok());
    found.next().map(|text| format!("{}\n", text.trim_end())).unwrap_or_default()
}

#[derive(PartialEq, Eq)]
enum WriteResult {
    Changed,
    Unchanged,
}

/// Replaces the file by one that only its owner can read.
fn write(dir: &Path, name: &str, text: &str) -> Result<WriteResult, Failure> {
    let path = dir.join(name);
    if fs::read_to_string(&path).is_ok_and(|before| before == text) {
        return Ok(WriteResult::Unchanged);
    }
    let beside = dir.join(format!("{name}.new"));
    let written = || {
        let _ = fs::remove_file(&beside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&beside, &path)
    };
    written().map_err(|error| cannot_write(&path, &error))?;
    Ok(WriteResult::Changed)
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("cannot write {}: {error}; choose another directory with --dir", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_the_shell_are_taken_literally() {
        assert_eq!(export("A", "/plain"), "export A='/plain'");
        let nasty = r#"/a b/$(touch x)/`y`/"q"/it's"#;
        let line = export("A", nasty);
        let shown = Command::new("sh").args(["-c", &format!("{line}\nprintf %s \"$A\"")]).output().unwrap();
        assert_eq!(String::from_utf8(shown.stdout).unwrap(), nasty);
    }
}
