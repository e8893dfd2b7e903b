//! Finds the server for the program's requests: a temporary one, or an existing one.

use std::net::{IpAddr, SocketAddr};

use forewarn_api_types::{
    ActionOptions, EventType, Listener, Listeners, Machine, MachineChange, MachinePriority, MaintenanceTarget,
    MaintenanceType, NewMachine, NewMaintenance, Nullable, ResourceName, TerminateNotification,
};
use forewarn_config::{self as config, Origin, RawSetting, RawValue, Sources};
use forewarn_server::{BoundAddress, Config, Running};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::companion::CompanionReady;
use super::relay::Upstream;
use crate::args::{Connection, Output, RunOptions};
use crate::client::{Api, Call};
use crate::connect::connect;
use crate::decode::decode;
use crate::failure::Failure;
use crate::serve;

/// A metadata endpoint, and the temporary server if there is one.
pub struct Endpoint {
    pub upstream: Upstream,
    machine: String,
    management: String,
    temporary: Option<Running>,
}

impl Endpoint {
    pub fn ready(&self, options: &RunOptions) -> CompanionReady {
        let mut ports = options.reach.clone();
        let local = local_port(&self.management);
        ports.extend(local);
        ports.sort_unstable();
        ports.dedup();
        CompanionReady {
            machine: self.machine.clone(),
            temporary: self.temporary.as_ref().map(|_| self.management.clone()),
            server: local.map(|_| self.management.clone()),
            ports,
        }
    }
}

/// Checks the options before anything is started.
pub fn check(options: &RunOptions) -> Result<(), Failure> {
    if options.server.is_none() {
        return temporary_config(options).map(|_| ());
    }
    options.flags.first().map_or(Ok(()), |given| {
        Err(Failure::Usage(format!(
            "{} configures a temporary server and cannot be used with --server or FOREWARN_SERVER",
            given.origin
        )))
    })
}

pub fn find(options: &RunOptions, runtime: &Runtime) -> Result<Endpoint, Failure> {
    let endpoint = match &options.server {
        None => start_temporary(options, runtime)?,
        Some(server) => find_on_server(options, server)?,
    };
    if let Some(kind) = options.schedule {
        schedule_event(&endpoint, options, kind)?;
    }
    Ok(endpoint)
}

/// Schedules an event. Polls once first, because events are announced only to machines that poll.
fn schedule_event(endpoint: &Endpoint, options: &RunOptions, kind: EventType) -> Result<(), Failure> {
    let api = connect(&connection(options, &endpoint.management))?;
    if endpoint.temporary.is_some() {
        prepare_machine(&api, &endpoint.machine, kind)?;
    }
    let machine = Call::api(&["machines", &endpoint.machine]);
    let found = || decode::<Machine>(&api.get(&machine)?);
    if kind == EventType::Terminate && found()?.terminate_notification.is_none() {
        return Err(Failure::Refused(format!(
            "{0} has no terminate notification, so its deletion would not create an event: enable it with `forewarn vm update \
             {0} --terminate-notification-time 5`",
            endpoint.machine
        )));
    }
    probe(&endpoint.upstream, "/metadata/scheduledevents?api-version=2020-07-01")?;
    let scheduled = match kind {
        EventType::Freeze => start_maintenance(&api, &endpoint.machine, MaintenanceType::Freeze),
        EventType::Reboot => start_maintenance(&api, &endpoint.machine, MaintenanceType::Reboot),
        EventType::Redeploy => start_maintenance(&api, &endpoint.machine, MaintenanceType::Redeploy),
        EventType::Preempt => {
            api.post(&Call::api(&["machines", &endpoint.machine, "evict"]), &ActionOptions::default())
        }
        EventType::SpotRebalanceRecommendation => {
            api.post(&Call::api(&["machines", &endpoint.machine, "recommend-rebalance"]), &ActionOptions::default())
        }
        EventType::Terminate => api.delete(&machine),
    };
    scheduled.map(|_| ())
}

fn start_maintenance(api: &Api, machine: &str, kind: MaintenanceType) -> Result<Value, Failure> {
    let target = MaintenanceTarget::Machines(vec![machine.to_owned()]);
    api.post(&Call::api(&["maintenance"]), &NewMaintenance::of(target, kind))
}

/// Prepares the machine of a temporary server for this type of event.
fn prepare_machine(api: &Api, name: &str, kind: EventType) -> Result<(), Failure> {
    let machine = Call::api(&["machines", name]);
    let made = match kind {
        EventType::Freeze | EventType::Reboot | EventType::Redeploy => return Ok(()),
        EventType::Preempt | EventType::SpotRebalanceRecommendation => {
            api.delete(&machine)?;
            let new = NewMachine {
                addresses: Some(Vec::new()),
                priority: Some(MachinePriority::Spot),
                ..NewMachine::named(ResourceName(name.to_owned()))
            };
            api.post(&Call::api(&["machines"]), &new)
        }
        EventType::Terminate => {
            let notification = Nullable::Value(TerminateNotification::default());
            let change = MachineChange { terminate_notification: notification, ..MachineChange::default() };
            api.patch(&machine, &change)
        }
    };
    made.map(|_| ())
}

fn connection(options: &RunOptions, server: &str) -> Connection {
    Connection {
        server: Some(server.to_owned()),
        data: options.data.clone(),
        token: options.token.clone(),
        output: Output::Json,
    }
}

fn machine_name(options: &RunOptions) -> String {
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = options.vm.clone().unwrap_or_else(host);
    if options.vm.is_none() && !is_name(&name) { "vm".into() } else { name }
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.()-".contains(c);
    (1..=128).contains(&name.len()) && name.chars().all(fits)
}

/// The configuration of a temporary server: in memory, without a token, on free ports.
fn temporary_config(options: &RunOptions) -> Result<(Config, config::Choices), Failure> {
    let machine = machine_name(options);
    if !is_name(&machine) {
        let expected = "1 to 128 letters, digits, '_', '.', '(', ')' or '-'";
        return Err(Failure::Usage(format!("invalid machine name {machine:?} for --vm: use {expected}")));
    }
    let fixed = [
        ("memory", "true"),
        ("no_auth", "true"),
        ("metadata", "127.0.0.1:0"),
        ("management", "127.0.0.1:0"),
        ("log_level", "error"),
    ];
    let mut flags: Vec<RawSetting> = fixed.iter().map(|(key, text)| flag_setting(key, text)).collect();
    flags.extend(options.flags.iter().cloned());
    let resolved = config::read(&Sources { file: None, environment: Vec::new(), flags })?;
    let config = Config { first_machine: Some(machine), ..resolved.choices.to_config()? };
    Ok((config, resolved.choices))
}

fn flag_setting(key: &str, text: &str) -> RawSetting {
    let origin = Origin::Flag(key.replace('_', "-"));
    RawSetting { key: key.into(), origin, values: vec![RawValue::Text(text.into())] }
}

fn start_temporary(options: &RunOptions, runtime: &Runtime) -> Result<Endpoint, Failure> {
    let (config, choices) = temporary_config(options)?;
    serve::log_to_stderr(&choices);
    let machine = machine_name(options);
    let running = runtime.block_on(forewarn_server::start(config));
    let running = running.map_err(|error| Failure::Refused(format!("{error:#}")))?;
    let Some(BoundAddress::Tcp(metadata)) = running.metadata.first() else {
        return Err(Failure::Refused("the server has no metadata listener".into()));
    };
    let upstream = Upstream { authority: metadata.to_string(), prefix: format!("/vm/{machine}") };
    let management = format!("http://{}", running.management);
    Ok(Endpoint { upstream, machine, management, temporary: Some(running) })
}

fn find_on_server(options: &RunOptions, server: &str) -> Result<Endpoint, Failure> {
    let api = connect(&connection(options, server))?;
    let machine = machine_name(options);
    let found = api.get(&Call::api(&["machines", &machine])).map_err(|failure| {
        let message = failure.message().unwrap_or_default().to_owned();
        match failure {
            Failure::Refused(_) => Failure::Refused(format!(
                "{message} Choose another machine with --vm, or create it with `forewarn vm create {machine} --no-address`"
            )),
            other => other,
        }
    })?;
    let id = decode::<Machine>(&found)?.vm_id;
    let management = api.server().to_owned();
    let authority = match &options.metadata {
        Some(url) => authority_of(url).to_owned(),
        None => {
            let listeners: Listeners = decode(&api.get(&Call::api(&["listeners"]))?)?;
            choose_listener(&listeners.value, &management)?
        }
    };
    let upstream = Upstream { authority, prefix: format!("/vm/{id}") };
    // A request that does not count as polling.
    probe(&upstream, "/metadata/versions")?;
    Ok(Endpoint { upstream, machine, management, temporary: None })
}

/// The first listener that accepts machine names in the path, with an address that is reachable from here.
fn choose_listener(listeners: &[Listener], management: &str) -> Result<String, Failure> {
    let usable = listeners.iter().filter(|listener| listener.prefix);
    let address = usable.filter_map(|listener| listener.address.parse::<SocketAddr>().ok()).next();
    let address = address.ok_or_else(|| {
        Failure::Refused(
            "the server has no metadata listener that accepts machine names in the path: start it with --metadata \
             127.0.0.1:8169,prefix=on, or set --metadata to such a listener"
                .into(),
        )
    })?;
    if !address.ip().is_unspecified() {
        return Ok(address.to_string());
    }
    Ok(format!("{}:{}", host_of(authority_of(management)), address.port()))
}

/// Checks that the metadata endpoint answers.
fn probe(upstream: &Upstream, path: &str) -> Result<(), Failure> {
    let url = format!("http://{}{}{path}", upstream.authority, upstream.prefix);
    let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent();
    let what = match agent.get(&url).header("Metadata", "true").call() {
        Ok(answer) if answer.status().is_success() => return Ok(()),
        Ok(mut answer) => {
            let body: Option<Value> = answer.body_mut().read_json().ok();
            body.and_then(|body| Some(body["error"].as_str()?.to_owned())).unwrap_or(answer.status().to_string())
        }
        Err(error) => error.to_string(),
    };
    Err(Failure::Unreachable(format!(
        "cannot reach the metadata endpoint at http://{}: {}; set its address with --metadata",
        upstream.authority, what
    )))
}

fn authority_of(url: &str) -> &str {
    url.strip_prefix("http://").unwrap_or(url).split('/').next().unwrap_or_default()
}

fn host_of(authority: &str) -> &str {
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// The port of a server on this host, which must be relayed into the namespace.
fn local_port(management: &str) -> Option<u16> {
    let (host, port) = authority_of(management).rsplit_once(':')?;
    let is_v4_loopback = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback() && ip.is_ipv4());
    port.parse().ok().filter(|_| is_v4_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reachable_listener_with_prefixes_is_chosen() {
        let check = |listeners: &[Listener], expected: Option<&str>| {
            let found = choose_listener(listeners, "http://build:8170");
            assert_eq!(found.ok().as_deref(), expected);
        };
        let at = |address: &str, prefix: bool| Listener {
            address: address.into(),
            machine: None,
            network: "default".into(),
            prefix,
        };
        check(&[at("10.0.0.1:80", false), at("unix:/run/x", true), at("127.0.0.1:81", true)], Some("127.0.0.1:81"));
        check(&[at("0.0.0.0:8169", true)], Some("build:8169"));
        check(&[at("10.0.0.1:80", false)], None);
    }

    #[test]
    fn only_servers_on_this_host_need_a_relayed_port() {
        for (url, expected) in [
            ("http://127.0.0.1:8170", Some(8170)),
            ("http://localhost:1", Some(1)),
            ("http://10.0.0.1:8170", None),
            ("http://[::1]:8170", None),
        ] {
            assert_eq!(local_port(url), expected, "{url}");
        }
    }
}
