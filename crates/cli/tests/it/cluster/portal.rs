//! The portal of a follower: its forms reach the leader, and sessions belong to the region.

use std::net::SocketAddr;

use super::has_etcd;
use super::nodes::{Answer, Cluster, poll_until, request_with};

/// A signed-in browser.
pub struct Browser {
    cookie: String,
    csrf: String,
}

impl Browser {
    /// Signs in with the form, with a token or only with the button.
    pub fn sign_in(server: SocketAddr, token: &str) -> Browser {
        let form = "Content-Type: application/x-www-form-urlencoded";
        let answer = request_with(server, "POST", "/portal/sign-in", form, &format!("token={token}")).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        Browser::with_cookie_of(server, &answer)
    }

    pub fn with_cookie_of(server: SocketAddr, answer: &Answer) -> Browser {
        let cookie = answer
            .head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("set-cookie: ").map(str::to_owned));
        let cookie = cookie.expect("a cookie").split(';').next().unwrap().to_owned();
        let browser = Browser { cookie, csrf: String::new() };
        let page = browser.get(server, "/");
        assert_eq!(page.status, 200, "{}", page.body);
        let csrf = page.body.split_once("name=\"csrf\" value=\"").expect("a form").1;
        Browser { csrf: csrf.split('"').next().unwrap().to_owned(), ..browser }
    }

    pub fn get(&self, server: SocketAddr, path: &str) -> Answer {
        request_with(server, "GET", path, &format!("Cookie: {}", self.cookie), "").expect("an answer")
    }

    pub fn post(&self, server: SocketAddr, path: &str, fields: &str) -> Answer {
        self.post_as(server, path, &format!("csrf={}&{fields}", self.csrf))
    }

    fn post_as(&self, server: SocketAddr, path: &str, body: &str) -> Answer {
        let headers = format!("Content-Type: application/x-www-form-urlencoded\r\nCookie: {}", self.cookie);
        request_with(server, "POST", path, &headers, body).expect("an answer")
    }

    pub fn is_signed_in(&self, server: SocketAddr) -> bool {
        self.get(server, "/portal/session").status == 204
    }
}

#[test]
fn forms_of_a_follower_reach_the_leader_and_sessions_belong_to_the_region() {
    if !has_etcd() {
        return;
    }
    let cluster = Cluster::start();
    let (servers, follower) = (&cluster.servers, cluster.servers.follower());
    let (here, other) = (servers.management[follower], servers.management[(follower + 1) % 3]);
    super::schedule(&cluster, follower, "web");
    let browser = Browser::sign_in(here, "");
    for address in &servers.management {
        poll_until("the session at every server", || browser.is_signed_in(*address).then_some(()));
    }
    let act = "act=redeploy&target=web&back=%2F";
    let forged = browser.post_as(here, "/portal/act", act);
    assert_eq!(forged.status, 403, "without the CSRF token: {}", forged.body);
    let stranger = Browser { cookie: "forewarn-region-north=made-up".into(), csrf: browser.csrf.clone() };
    assert_eq!(stranger.post(here, "/portal/act", act).status, 401);
    let origin = format!(
        "Origin: http://evil.example\r\nContent-Type: application/x-www-form-urlencoded\r\nCookie: {}",
        browser.cookie
    );
    let foreign = request_with(here, "POST", "/portal/act", &origin, &format!("csrf={}&{act}", browser.csrf)).unwrap();
    assert_eq!(foreign.status, 403, "{}", foreign.body);

    let done = browser.post(here, "/portal/act", act);
    assert_eq!(done.status, 303, "{}", done.body);
    let events = servers.get(follower, "/api/v1/events").expect("a list");
    let kinds: Vec<_> =
        events["value"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"Redeploy"), "a server reads its own writes: {kinds:?}");
    assert!(!done.head.contains("forewarn-confirmation"), "{}", done.head);
    let location = done.head.lines().find_map(|line| line.strip_prefix("location: ")).expect("a next page");
    let page = browser.get(here, location);
    assert!(page.body.contains("id=\"toast\""), "{}", page.body);

    let refused = browser.post(here, "/portal/act", "act=restart&target=nothing&back=%2F");
    assert!(refused.status >= 400 && refused.body.contains("nothing"), "{}", refused.body);

    let out = browser.post(other, "/portal/sign-out", "");
    assert_eq!(out.status, 303, "{}", out.body);
    for address in &servers.management {
        poll_until("the session has ended everywhere", || (!browser.is_signed_in(*address)).then_some(()));
    }
}
