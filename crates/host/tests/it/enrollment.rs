//! Joining: tokens, certificates, and agents that claim to be another host.

use std::sync::Arc;

use bytes::Bytes;
use forewarn_access::{HOST_CERTIFICATE_SECS, HostAuthority, HostKey};
use forewarn_api_types::host_link::{GuestApproval, GuestProperties, GuestToken, LinkRefusal, TurnOn, paths};
use forewarn_host::{Identity, OpenDriver};
use forewarn_server::{Config, StoreChoice};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::fleet::{Fleet, blocking, config, eventually, post, redirect};

/// Sends a request on the link with the certificate of a host.
async fn call(identity: &Identity, path: &str, body: &impl Serialize) -> anyhow::Result<(u16, LinkRefusal)> {
    let (status, answer) = send(identity, path, body).await?;
    Ok((status, serde_json::from_value(answer)?))
}

/// Sends a request as a host, without an agent.
pub async fn send(identity: &Identity, path: &str, body: &impl Serialize) -> anyhow::Result<(u16, Value)> {
    let stream = TcpStream::connect(&identity.server).await?;
    let (config, name) = identity.client_config()?;
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let (mut sender, driver) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(driver);
    let request = http::Request::post(format!("https://forewarn-hosts{path}"));
    let response = sender.send_request(request.body(Full::<Bytes>::from(serde_json::to_vec(body)?))?).await?;
    let status = response.status().as_u16();
    Ok((status, serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_works_once_and_for_an_hour() {
    let fleet = Fleet::start().await;
    let dir = tempfile::tempdir().unwrap();
    let join = async |token: &str| {
        let (dir, url, token) = (dir.path().to_owned(), fleet.url(), token.to_owned());
        let trust = forewarn_connect::Trust::System(None);
        blocking(move || forewarn_host::join(&dir, &url, &trust, &token)).await.map_err(|error| error.to_string())
    };
    let token = fleet.token("node1").await;
    assert_eq!(join(&token).await.unwrap().host, "node1");
    assert!(fleet.region().host("node1").is_some(), "joining registers the host");
    let used = join(&token).await.unwrap_err();
    assert!(used.contains("was used"), "{used}");

    let late = fleet.token("node1").await;
    fleet.advance(60).await;
    let expired = join(&late).await.unwrap_err();
    assert!(expired.contains("has expired"), "{expired}");

    let (first, second) = (fleet.token("node1").await, fleet.token("node1").await);
    assert!(join(&first).await.is_err(), "a new token replaces the earlier one");
    let of_another = second.replace("node1", "node2");
    assert!(join(&of_another).await.is_err(), "a token is for one host");
    assert!(join("x").await.is_err());
    assert_eq!(join(&second).await.unwrap().host, "node1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_not_one_uses_no_token_up() {
    let fleet = Fleet::start().await;
    let (token, url) = (fleet.token("node1").await, format!("{}/api/v1/host-joins", fleet.url()));
    let body = json!({ "token": token, "request": "hello" });
    let (status, refusal) = blocking(move || post(&url, &body)).await;
    assert_eq!((status, refusal["error"]["target"].as_str()), (400, Some("request")), "{refusal}");
    let dir = tempfile::tempdir().unwrap();
    let (path, url) = (dir.path().to_owned(), fleet.url());
    let joined = blocking(move || forewarn_host::join(&path, &url, &forewarn_connect::Trust::System(None), &token));
    assert_eq!(joined.await.unwrap().host, "node1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_agent_with_the_same_name_is_refused_while_the_first_lives() {
    let fleet = Fleet::start().await;
    let mut first = fleet.host("node1").await;
    first.connected().await;
    let second = tempfile::tempdir().unwrap();
    Identity::read(first.dir.path()).unwrap().write(second.path()).unwrap();
    let twin = forewarn_host::start(config(second.path()), OpenDriver::default()).await.unwrap();
    let is_refused = || twin.status.problem().is_some_and(|problem| problem.contains("another agent is connected"));
    eventually("the second agent is refused", is_refused).await;
    assert!(first.agent().status.is_connected() && !twin.status.is_connected());
    first.stop().await;
    eventually("the second agent takes over", || twin.status.is_connected()).await;
    twin.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_again_revokes_the_earlier_certificate() {
    let fleet = Fleet::start().await;
    let first = fleet.host("node1").await;
    first.connected().await;
    let other = tempfile::tempdir().unwrap();
    fleet.join("node1", other.path()).await.unwrap();
    let is_revoked = || first.agent().status.problem().is_some_and(|problem| problem.contains("revoked"));
    eventually("the first agent loses contact", is_revoked).await;
    let heir = forewarn_host::start(config(other.path()), OpenDriver::default()).await.unwrap();
    eventually("the new agent is connected", || heir.status.is_connected()).await;
    heir.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_another_authority_are_refused_on_both_sides() {
    let (fleet, other) = (Fleet::start().await, Fleet::start().await);
    let dir = tempfile::tempdir().unwrap();
    let foreign = other.join("node1", dir.path()).await.unwrap();
    let server = fleet.server.hosts.unwrap().to_string();
    let turn_on = TurnOn { machine: 1 };
    let refused = call(&Identity { server: server.clone(), ..foreign.clone() }, paths::TURN_ON, &turn_on).await;
    assert!(refused.is_err(), "the agent does not trust the server: {refused:?}");
    let dir = tempfile::tempdir().unwrap();
    let own = fleet.join("node1", dir.path()).await.unwrap();
    let gullible = Identity { server, authority: own.authority, ..foreign };
    let refused = call(&gullible, paths::TURN_ON, &turn_on).await;
    assert!(refused.is_err(), "the server does not trust the agent: {refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_cannot_act_for_machines_of_another_host() {
    let fleet = Fleet::start().await;
    let dir = tempfile::tempdir().unwrap();
    fleet.join("node1", tempfile::tempdir().unwrap().path()).await.unwrap();
    let two = fleet.join("node2", dir.path()).await.unwrap();
    let machine = fleet.machine("web1", "node1").await;
    let turned_on = call(&two, paths::TURN_ON, &TurnOn { machine: machine.0 }).await.unwrap();
    assert_eq!(turned_on.0, 403, "{turned_on:?}");
    let token = GuestToken { machine: machine.0, resource: "https://management.azure.com/".into(), client_id: None };
    assert_eq!(call(&two, paths::TOKEN, &token).await.unwrap().0, 403);
    let properties = GuestProperties { machine: machine.0 };
    assert_eq!(call(&two, paths::PROPERTIES, &properties).await.unwrap().0, 403);
    let approval = GuestApproval { machine: machine.0, events: vec![] };
    let approved = call(&two, paths::APPROVE, &approval).await.unwrap();
    assert!(matches!(&approved.1, LinkRefusal::OtherHost { message } if message.contains("web1")), "{approved:?}");
    assert_eq!(call(&two, paths::TURN_ON, &TurnOn { machine: 999 }).await.unwrap().0, 404);
    assert!(!fleet.region().is_on(fleet.region().machine(machine).unwrap().scope));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_renewed_halfway_and_the_old_one_is_then_invalid() {
    let fleet = Fleet::start().await;
    let mut host = fleet.host("node1").await;
    host.connected().await;
    host.stop().await;
    let joined = Identity::read(host.dir.path()).unwrap();
    let aged = Identity { issued: joined.issued - 16 * 86_400, ..joined.clone() };
    aged.write(host.dir.path()).unwrap();
    host.run().await;
    let renewed = || Identity::read(host.dir.path()).unwrap();
    eventually("the certificate is renewed", || renewed().certificate != joined.certificate).await;
    assert_ne!(renewed().key, joined.key);
    let contacts = host.agent().status.contacts();
    eventually("the new certificate is in use", || host.agent().status.contacts() > contacts + 2).await;
    let is_refused = async || call(&joined, paths::TURN_ON, &TurnOn { machine: 1 }).await.unwrap().0 == 401;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_refused().await {
        assert!(std::time::Instant::now() < deadline, "the old certificate is still valid");
    }
    assert!(host.agent().status.is_connected());
}

/// A host that was switched off for longer than its certificate is valid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_certificate_is_refused_until_the_host_joins_again() {
    let data = tempfile::tempdir().unwrap();
    let fleet = Fleet::start_in(StoreChoice::Directory(data.path().to_owned()), Config::default().driver).await;
    let mut host = fleet.host("node1").await;
    fleet.machine("web1", "node1").await;
    host.shows("web1", "an empty document", |document| document["Events"] == json!([])).await;
    host.stop().await;
    let joined = Identity::read(host.dir.path()).unwrap();
    let expired = expire(&joined, &HostAuthority::in_directory(data.path()).unwrap());
    let refused = send(&expired, paths::TURN_ON, &TurnOn { machine: 1 }).await;
    assert!(refused.is_err(), "the handshake fails: {refused:?}");
    expired.write(host.dir.path()).unwrap();
    host.run().await;
    let is_explained = || host.agent().status.problem().is_some_and(|problem| problem.contains("has expired; join"));
    eventually("the agent names the reason", is_explained).await;
    assert_eq!(host.get("web1").await.status, 200, "the guest keeps its copy");
    fleet.shows_host("node1", "unreachable", |host| host["reachable"] == false).await;
    host.stop().await;
    fleet.join("node1", host.dir.path()).await.unwrap();
    redirect(host.dir.path(), host.proxy.address);
    host.run().await;
    host.connected().await;
}

/// The identity of a host whose certificate expired a minute before it joined.
fn expire(joined: &Identity, authority: &HostAuthority) -> Identity {
    let (key, issued) = (HostKey::generate().unwrap(), joined.issued - HOST_CERTIFICATE_SECS - 60);
    let certificate = authority.sign(&key.request().unwrap(), &joined.host, issued).unwrap();
    Identity { certificate, key: key.secret(), issued, ..joined.clone() }
}
