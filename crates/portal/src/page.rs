//! Every page: its path, its panels, the frame around them. A panel is a list of fragments, each an element with an id
//! of its own; the stream sends the same fragments again when they have changed.

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use forewarn_core::{GroupId, Guid, Region, Timestamp};
use forewarn_wire::guid;
use forewarn_wire::version::Version;
use http::{StatusCode, Uri, header};

use super::Portal;
use super::chunk::Shelf;
use super::field::Problems;
use super::overview::{Show, Start};
use super::view::View;
use super::visitor::Visitor;
use super::{event, group, hosts, machine, maintenance, overview, plan, scale_set_wizard, sign_in, test_kit, words};
use forewarn_api::Refused;
use forewarn_core::Snapshot;
use forewarn_engine::clock::Kind;

/// Where pages are; those with forms of their own are in the table of routes.
pub const PATHS: [&str; 5] = ["/", "/machines/{machine}", "/events/{event}", "/scale-sets", "/hosts/{host}"];

#[derive(Clone, Debug, PartialEq)]
pub enum Page {
    Overview {
        search: String,
        show: Show,
        start: Start,
    },
    Machine {
        vm_id: Guid,
        version: Version,
    },
    Group {
        id: GroupId,
        from: usize,
    },
    Event(Guid),
    ScaleSets,
    AddSet,
    Hosts,
    Host(String),
    /// With what the address fills in.
    Maintenance(HashMap<String, String>),
    /// The same.
    Kit(HashMap<String, String>),
}

/// Something with a heading.
pub struct Panel {
    /// The id of its list.
    pub id: &'static str,
    pub title: String,
    /// HTML above the list that does not change.
    pub before: String,
    /// HTML that is in one frame with the list, above it.
    pub inside: String,
    pub fragments: Vec<Fragment>,
    /// Instead of fragments, when there may be very many.
    pub shelves: Vec<Shelf>,
    /// What to say when there are none.
    pub empty: &'static str,
}

/// One element, with this id.
#[derive(Clone)]
pub struct Fragment {
    pub id: String,
    /// Where it stands among the others: by this text.
    pub sort: String,
    pub html: String,
}

impl Fragment {
    pub fn of(id: impl Into<String>, sort: impl Into<String>, template: &impl Template) -> Fragment {
        Fragment { id: id.into(), sort: sort.into(), html: sign_in::rendered(template).0 }
    }
}

impl Panel {
    pub fn new(id: &'static str, title: impl Into<String>, fragments: Vec<Fragment>) -> Panel {
        Panel {
            id,
            title: title.into(),
            before: String::new(),
            inside: String::new(),
            fragments,
            shelves: Vec::new(),
            empty: "",
        }
    }

    /// One fragment, whose id is the panel's.
    pub fn one(id: &'static str, title: impl Into<String>, template: &impl Template) -> Panel {
        Panel::new(id, title, vec![Fragment::of(format!("{id}-content"), "", template)])
    }

    pub fn or(mut self, empty: &'static str) -> Panel {
        self.empty = empty;
        self
    }

    pub fn below(mut self, before: String) -> Panel {
        self.before = before;
        self
    }

    pub fn around(mut self, inside: String) -> Panel {
        self.inside = inside;
        self
    }

    pub fn shelved(mut self, shelves: Vec<Shelf>) -> Panel {
        self.shelves = shelves;
        self
    }

    /// Everything that is drawn of it, each with the id of the list that it is in.
    pub fn drawn(&self) -> impl Iterator<Item = (&str, &Fragment)> {
        let shelved = self.shelves.iter().filter_map(|shelf| Some((shelf.id.as_str(), shelf.fragments.as_ref()?)));
        let lists = std::iter::once((self.id, &self.fragments)).chain(shelved);
        lists.flat_map(|(list, fragments)| fragments.iter().map(move |fragment| (list, fragment)))
    }
}

/// Whether a browser gets a page or what has changed of it since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    First,
    Later,
}

/// What a page is drawn from: one moment.
pub struct Scene {
    pub service: Portal,
    pub snapshot: Arc<Snapshot>,
    pub now: Timestamp,
    pub visitor: Visitor,
    pub look: Look,
    /// What the viewer looks at; nothing is said of that at the first look.
    pub view: Option<View>,
}

impl Scene {
    pub fn now(service: &Portal, visitor: &Visitor, look: Look) -> Scene {
        // The snapshot first: nothing in it is later than the time.
        let snapshot = service.engine().snapshot();
        let now = service.engine().now();
        Scene { snapshot, now, service: service.clone(), visitor: visitor.clone(), look, view: None }
    }

    pub fn region(&self) -> &Region {
        &self.snapshot.region
    }
}

/// A page without its frame.
pub struct Drawn {
    pub title: String,
    /// Above the panels.
    pub lead: String,
    pub panels: Vec<Panel>,
}

/// Why there is no such page.
#[derive(Debug)]
pub struct Missing(pub String);

impl Page {
    /// The page at this address.
    pub fn at(uri: &Uri) -> Option<Page> {
        let query: HashMap<String, String> =
            form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        let text = |name: &str| query.get(name).cloned().unwrap_or_default();
        let from = text("from").parse().unwrap_or(0);
        let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        match parts[..] {
            [] => Some(Page::Overview {
                search: text("search"),
                show: Show::of(&text("show")),
                start: Start { scopes: from, strands: text("events").parse().unwrap_or(0) },
            }),
            ["machines", id] => {
                let version = Version::ALL.into_iter().find(|version| version.as_str() == text("version"));
                let version = version.unwrap_or(Version::ALL[Version::ALL.len() - 1]);
                Some(Page::Machine { vm_id: Guid(guid::parse(id)?), version })
            }
            ["groups", id] => Some(Page::Group { id: GroupId(id.parse().ok()?), from }),
            ["events", id] => Some(Page::Event(Guid(guid::parse(id)?))),
            ["scale-sets"] => Some(Page::ScaleSets),
            ["scale-sets", "add"] => Some(Page::AddSet),
            ["hosts"] => Some(Page::Hosts),
            ["hosts", name] => Some(Page::Host(unescaped(name)?)),
            ["maintenance"] => Some(Page::Maintenance(query)),
            ["test-test_kit"] => Some(Page::Kit(query)),
            _ => None,
        }
    }

    /// Whether it shows what machines ask, which is no commit.
    pub fn shows_requests(&self) -> bool {
        match self {
            Page::Machine { .. } | Page::Kit(_) => true,
            Page::Overview { .. }
            | Page::Group { .. }
            | Page::Event(_)
            | Page::ScaleSets
            | Page::AddSet
            | Page::Hosts
            | Page::Host(_)
            | Page::Maintenance(_) => false,
        }
    }

    pub async fn draw(&self, scene: &Scene) -> Result<Drawn, Missing> {
        match self {
            Page::Overview { search, show, start } => Ok(overview::draw(scene, search, *show, *start).await),
            Page::Machine { vm_id, version } => machine::draw(scene, *vm_id, *version).await,
            Page::Group { id, from } => group::draw(scene, *id, *from, None).await,
            Page::Event(id) => event::draw(scene, *id).await,
            Page::ScaleSets => Ok(group::draw_sets(scene)),
            Page::AddSet => Ok(scale_set_wizard::draw(scene)),
            Page::Hosts => Ok(hosts::draw_all(scene, "", &Problems::default())),
            Page::Host(name) => hosts::draw_one(scene, name).await,
            Page::Maintenance(query) => Ok(maintenance::draw(scene, &plan::Typed::of_query(query))),
            Page::Kit(query) => Ok(test_kit::draw(scene, &test_kit::Typed::of_query(query))),
        }
    }
}

/// A segment of a path without its escapes. A plus is a plus there, not a blank.
fn unescaped(segment: &str) -> Option<String> {
    let pair = segment.replace('+', "%2B");
    form_urlencoded::parse(pair.as_bytes()).next().map(|(name, _)| name.into_owned())
}

#[derive(Template)]
#[template(path = "page.html")]
struct Frame<'a> {
    title: &'a str,
    lead: &'a str,
    panels: &'a [Panel],
    name: &'a str,
    role: &'a str,
    csrf: &'a str,
    /// The address of this page, for the stream.
    here: &'a str,
    now_ms: i64,
    /// What the page was drawn from.
    revision: u64,
    manual: bool,
    problem: &'a str,
    section: &'a str,
}

/// For who comes to where only forms go, by a bookmark or by the address of a page that answered one.
pub async fn first() -> Redirect {
    Redirect::to("/")
}

pub async fn show(State(service): State<Portal>, visitor: Visitor, request: Request) -> Response {
    let here = request.uri().path_and_query().map_or("/", |address| address.as_str());
    at(&service, &visitor, here, None).await
}

/// Nothing: there is no page at this path and query.
pub fn page_at(here: &str) -> Option<Page> {
    Page::at(&here.starts_with('/').then(|| here.parse::<Uri>().ok())??)
}

/// The page at `here`, with a refusal above it when there is one.
pub async fn at(service: &Portal, visitor: &Visitor, here: &str, problem: Option<&Refused>) -> Response {
    let page = page_at(here);
    let scene = Scene::now(service, visitor, Look::First);
    let drawn = match page {
        Some(page) => page.draw(&scene).await,
        None => Err(Missing("There is no such page.".into())),
    };
    let (status, drawn) = match drawn {
        Ok(drawn) => (StatusCode::OK, drawn),
        Err(Missing(why)) => (
            StatusCode::NOT_FOUND,
            Drawn { title: "Not found".into(), lead: words::sentence(&why), panels: Vec::new() },
        ),
    };
    let status = problem.map_or(status, |problem| problem.status);
    (status, [(header::CACHE_CONTROL, "no-store")], framed(&scene, here, &drawn, problem.map_or("", |p| &p.message)))
        .into_response()
}

pub fn framed(scene: &Scene, here: &str, drawn: &Drawn, problem: &str) -> Html<String> {
    let principal = &scene.visitor.session.holder.principal;
    sign_in::rendered(&Frame {
        title: &drawn.title,
        lead: &drawn.lead,
        panels: &drawn.panels,
        name: &principal.name,
        role: principal.role.word(),
        csrf: &scene.visitor.session.csrf,
        here,
        now_ms: scene.now.0,
        revision: scene.snapshot.revision,
        manual: scene.service.engine().clock_kind() == Kind::Manual,
        problem,
        section: here.split(['/', '?']).nth(1).unwrap_or_default(),
    })
}
