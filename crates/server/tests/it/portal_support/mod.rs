//! A browser without JavaScript: signs in, requests pages, sends forms and reads the stream.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use forewarn_access::{AUDIENCE, Role, SignIn, client_in};
use serde_json::{Value, json};

use crate::api_support::{Answer, Client, NONE, Server, check};

/// Timeout for things that must happen. A test that reaches it has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with a session.
pub struct Browser<'s> {
    pub server: &'s Server,
    pub client: Client,
    pub csrf: String,
}

impl<'s> Browser<'s> {
    /// Signs in with a link from the API.
    pub fn by_link(server: &'s Server) -> Browser<'s> {
        let path = link(server);
        Browser::of(server, &Client::to(server.management).send(server.management, &format!("GET {path}"), b""))
    }

    /// Signs in with a link that was created with this token.
    pub fn with_token(server: &'s Server, token: &str) -> Browser<'s> {
        let asking = Client::to(server.management).header("Authorization", &format!("Bearer {token}"));
        let link = asking.send(server.management, "POST /api/v1/portal-links", b"").json();
        let line = format!("GET {}", link["path"].as_str().unwrap());
        Browser::of(server, &Client::to(server.management).send(server.management, &line, b""))
    }

    /// Signs in with the button of a server that requires no token.
    pub fn at_once(server: &'s Server) -> Browser<'s> {
        Browser::of(server, &Client::to(server.management).send(server.management, "POST /portal/sign-in", b""))
    }

    pub fn of(server: &'s Server, answer: &Answer) -> Browser<'s> {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let cookie = answer.header("set-cookie").expect("a cookie is set");
        for must in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
            assert!(cookie.contains(must), "{cookie}");
        }
        let client = Client::to(server.management).header("Cookie", cookie.split(';').next().unwrap());
        let mut browser = Browser { server, client, csrf: String::new() };
        browser.csrf = between(&browser.get("/").text(), "name=\"csrf\" value=\"", "\"");
        browser
    }

    pub fn get(&self, path: &str) -> Answer {
        self.client.send(self.server.management, &format!("GET {path}"), b"")
    }

    pub fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let csrf = ("csrf", self.csrf.as_str());
        self.post_plain(path, &[&[csrf], fields].concat())
    }

    pub fn post_plain(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let client = self.client.clone().header("Content-Type", "application/x-www-form-urlencoded");
        client.send(self.server.management, &format!("POST {path}"), body.join("&").as_bytes())
    }

    /// The messages of a page's stream, read on a thread. More query fields can follow the page.
    pub fn live(&self, page: &str) -> mpsc::Receiver<Value> {
        let mut stream = TcpStream::connect(self.server.management).unwrap();
        let cookie = self.client.clone();
        let head = cookie.head(&format!("GET /portal/live?page={page}"));
        stream.write_all(head.as_bytes()).unwrap();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let Some(data) = line.strip_prefix("data: ") else { continue };
                if sender.send(serde_json::from_str(data).unwrap()).is_err() {
                    return;
                }
            }
        });
        receiver
    }
}

pub fn link(server: &Server) -> String {
    let made = check(server, "POST /portal-links", NONE, 201, json!({}));
    made["path"].as_str().unwrap().to_owned()
}

pub fn between(text: &str, before: &str, after: &str) -> String {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}"));
    rest.split_once(after).unwrap().0.to_owned()
}

/// Waits for a message that contains this text.
pub fn await_html(messages: &mpsc::Receiver<Value>, what: &str) -> Value {
    let until = Instant::now() + PATIENCE;
    while let Ok(message) = messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if message["put"].to_string().contains(what) {
            return message;
        }
    }
    panic!("no message contains {what}");
}

pub fn vm_id(server: &Server, name: &str) -> String {
    check(server, &format!("GET /machines/{name}"), NONE, 200, json!({}))["vmId"].as_str().unwrap().to_owned()
}

/// A token for the client with this role, signed with the key in this directory.
pub fn token_for(dir: &Path, role: Role) -> String {
    let (_, client) = client_in(dir, role).unwrap().unwrap();
    let sign_in = SignIn::in_directory(dir).unwrap();
    let subject = sign_in.client(&client.client_id, &client.secret).unwrap();
    sign_in.issue(&subject, AUDIENCE, now(), 3600).token
}

/// The real time, because tokens do not use the manual clock.
pub fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64
}
