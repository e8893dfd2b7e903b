//! The Kubernetes action with the real `kubectl`, against a recording stand-in for the API server.
//!
//! No package registry has an API server. The stand-in has one node and its pods, and answers exactly what kubectl asks for
//! when it cordons, drains and uncordons.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::support::{Guest, World};
use forewarn_test_support::{Need, can_run};

/// A cluster with the node `web`, a pod of a deployment and a pod of a daemon set.
#[derive(Default)]
struct Cluster {
    is_cordoned: bool,
    is_evicted: bool,
    /// Requests that change something, in order.
    changes: Vec<String>,
}

/// Serves the cluster until the test ends, and returns its address.
fn serve(cluster: &Arc<Mutex<Cluster>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let cluster = cluster.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let cluster = cluster.clone();
            thread::spawn(move || answer(&cluster, stream));
        }
    });
    address
}

fn answer(cluster: &Mutex<Cluster>, mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut words = line.split_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return };
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let (status, found) = cluster.lock().unwrap().respond(method, target, &body);
    let text = found.to_string();
    let head = "Content-Type: application/json\r\nConnection: close";
    let _ = write!(stream, "HTTP/1.1 {status} X\r\n{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len());
}

impl Cluster {
    fn respond(&mut self, method: &str, target: &str, body: &Value) -> (u16, Value) {
        let path = target.split('?').next().unwrap_or_default();
        if method != "GET" {
            let shown = if method == "PATCH" { body["spec"].to_string() } else { String::new() };
            self.changes.push(format!("{method} {path} {shown}").trim_end().to_owned());
        }
        match (method, path) {
            ("GET", "/api") => (200, json!({ "kind": "APIVersions", "versions": ["v1"] })),
            ("GET", "/apis") => (200, json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups() })),
            ("GET", "/api/v1") => (200, resources("v1", &[("nodes", "Node"), ("pods", "Pod")])),
            ("GET", "/apis/policy/v1") => (200, resources("policy/v1", &[])),
            ("GET", "/apis/apps/v1") => (200, resources("apps/v1", &[("daemonsets", "DaemonSet")])),
            ("GET", "/api/v1/nodes/web") => (200, self.node()),
            ("PATCH", "/api/v1/nodes/web") => {
                self.is_cordoned = body["spec"]["unschedulable"] == json!(true);
                (200, self.node())
            }
            ("GET", "/api/v1/pods") => {
                let pods = [(!self.is_evicted).then(|| pod("app", "ReplicaSet")), Some(pod("logs", "DaemonSet"))];
                let pods: Vec<Value> = pods.into_iter().flatten().collect();
                (200, json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods }))
            }
            ("GET", "/apis/apps/v1/namespaces/shop/daemonsets/owner") => {
                (200, json!({ "kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": { "name": "owner" } }))
            }
            ("POST", "/api/v1/namespaces/shop/pods/app/eviction") => {
                self.is_evicted = true;
                (201, json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }))
            }
            ("GET", "/api/v1/namespaces/shop/pods/app") if !self.is_evicted => (200, pod("app", "ReplicaSet")),
            _ => (
                404,
                json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404 }),
            ),
        }
    }

    fn node(&self) -> Value {
        let spec = if self.is_cordoned { json!({ "unschedulable": true }) } else { json!({}) };
        json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "web" }, "spec": spec })
    }
}

fn groups() -> Value {
    let group = |name: &str| {
        let version = json!({ "groupVersion": format!("{name}/v1"), "version": "v1" });
        json!({ "name": name, "versions": [version], "preferredVersion": version })
    };
    json!([group("apps"), group("policy")])
}

fn resources(version: &str, kinds: &[(&str, &str)]) -> Value {
    let resource = |(name, kind): &(&str, &str)| {
        json!({ "name": name, "singularName": "", "namespaced": *kind != "Node", "kind": kind,
            "verbs": ["get", "list", "patch"] })
    };
    let mut resources: Vec<Value> = kinds.iter().map(resource).collect();
    if version == "v1" {
        resources.push(json!({ "name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy",
            "version": "v1", "kind": "Eviction", "verbs": ["create"] }));
    }
    json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources })
}

fn pod(name: &str, owner: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "name": name, "namespace": "shop", "uid": name, "ownerReferences": [
            { "apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": "owner", "controller": true },
        ] },
        "spec": { "nodeName": "web", "containers": [] }, "status": { "phase": "Running" },
    })
}

#[test]
fn kubectl_cordons_drains_and_uncordons_the_node() {
    if !can_run(&[Need::Program("kubectl")]) {
        return;
    }
    let cluster = Arc::new(Mutex::new(Cluster::default()));
    let address = serve(&cluster);
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("config");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": address } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "" } }],
    });
    fs::write(&kubeconfig, config.to_string()).unwrap();

    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.config(&format!("[[action]]\nkubernetes = {{ node = 'web', kubeconfig = '{}' }}", kubeconfig.display()));
    guest.start();
    world.wait_until_on(machine);
    world.restart(machine, 0xE1);
    world.wait_until_started(0xE1);
    let changes = cluster.lock().unwrap().changes.clone();
    let drained =
        ["PATCH /api/v1/nodes/web {\"unschedulable\":true}", "POST /api/v1/namespaces/shop/pods/app/eviction"];
    assert_eq!(changes, drained);
    world.advance(600);
    guest.wait_for_log("action kubernetes.restore succeeded");
    let cluster = cluster.lock().unwrap();
    assert!(!cluster.is_cordoned);
    assert_eq!(cluster.changes[drained.len()..], ["PATCH /api/v1/nodes/web {\"unschedulable\":null}"]);
}
