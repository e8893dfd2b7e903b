//! What is coming, what is under way, and every scope with its machines; of long lists what the viewer looks at.

use std::sync::Arc;

use askama::Template;
use forewarn_core::{Region, Scope, ScopeId, Status};

use super::chunk::Shelving;
use super::page::{Drawn, Panel, Scene};
use super::timeline::{Life, Stage};
use super::view::View;
use super::{scope, sign_in, timeline, words};

pub use super::scope::{Chip, chip};

/// Scopes that are drawn together: whole rows of one, two, three or four.
const SHELF: usize = 12;

/// What the page is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    All,
    Coming,
    UnderWay,
}

impl Show {
    const EACH: [Show; 3] = [Show::All, Show::Coming, Show::UnderWay];

    /// As addresses have it; what is not known is everything.
    pub fn of(word: &str) -> Show {
        Show::EACH.into_iter().find(|show| show.word() == word).unwrap_or(Show::All)
    }

    fn word(self) -> &'static str {
        match self {
            Show::All => "",
            Show::Coming => "coming",
            Show::UnderWay => "under-way",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Show::All => "All",
            Show::Coming => "Coming",
            Show::UnderWay => "Under way",
        }
    }

    fn has(self, stage: Stage) -> bool {
        match self {
            Show::All => true,
            Show::Coming => stage == Stage::Coming,
            Show::UnderWay => stage == Stage::UnderWay,
        }
    }
}

/// Where a page begins that comes without script: with these stretches of its lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    pub scopes: usize,
    pub strands: usize,
}

/// What is looked for, in the time line and among the scopes.
pub struct Wanted<'a> {
    show: Show,
    /// In lower case.
    search: &'a str,
}

impl Wanted<'_> {
    pub fn is_everything(&self) -> bool {
        self.show == Show::All && self.search.is_empty()
    }

    pub fn is_life(&self, life: &Life) -> bool {
        self.show.has(life.stage()) && (self.names(&life.scope) || life.names.iter().any(|name| self.names(name)))
    }

    /// Of what is expected in this scope.
    pub fn is_ghost(&self, region: &Region, scope: ScopeId) -> bool {
        self.show.has(Stage::Coming) && region.scope(scope).is_some_and(|scope| self.is_named(region, scope))
    }

    fn is_scope(&self, region: &Region, scope: &Scope) -> bool {
        let is_shown = || match self.show {
            Show::All => true,
            Show::Coming | Show::UnderWay => scope.live.iter().filter_map(|id| region.event(*id)).any(|event| {
                let is_started = matches!(event.status, Status::Started { .. });
                self.show.has(if is_started { Stage::UnderWay } else { Stage::Coming })
            }),
        };
        is_shown() && self.is_named(region, scope)
    }

    fn is_named(&self, region: &Region, scope: &Scope) -> bool {
        self.search.is_empty()
            || self.names(&words::scope(region, scope).name)
            || region.members(scope.id).any(|machine| self.names(&machine.name))
    }

    fn names(&self, name: &str) -> bool {
        self.search.is_empty() || name.to_lowercase().contains(self.search)
    }
}

#[derive(Template)]
#[template(path = "counts.html")]
struct Counts {
    machines: usize,
    scopes: usize,
    listening: usize,
    scheduled: usize,
    started: usize,
    next: Option<String>,
    /// Scopes that are shown, when not all are wanted.
    found: Option<usize>,
}

#[derive(Template)]
#[template(path = "search.html")]
struct Search<'a> {
    search: &'a str,
    show: &'static str,
    /// Address, label, whether it is this one.
    shows: Vec<(String, &'static str, bool)>,
}

#[derive(Template)]
#[template(path = "start.html")]
struct Beginning;

pub async fn draw(scene: &Scene, search: &str, show: Show, start: Start) -> Drawn {
    let region = scene.region();
    let lowered = search.trim().to_lowercase();
    let wanted = Wanted { show, search: &lowered };
    let first = || {
        let shelves = [start.scopes / SHELF, start.scopes / SHELF + 1].map(|number| format!("scopes-{number}"));
        View::of(shelves.into_iter().chain([format!("timeline-{}", start.strands / timeline::SHELF)]))
    };
    let view = scene.view.clone().unwrap_or_else(first);
    let address = |show: Show| address(search, show);
    let shows = Show::EACH.map(|each| (address(each), each.label(), each == show)).into();
    let search = Search { search, show: show.word(), shows };
    let found = found(scene, &wanted);
    let counts = counts(region, (!wanted.is_everything()).then_some(found.len()));
    let mut panels = vec![
        Panel::one("counts", "At a glance", &counts).below(sign_in::rendered(&search).0),
        timeline::strands(scene, &wanted, &view, &address(show)).await,
        scopes(region, &found, &view, &address(show)),
    ];
    if region.machines().len() == 0 {
        panels.insert(0, Panel::one("start", "To begin with", &Beginning));
    }
    Drawn { title: "Overview".into(), lead: String::new(), panels }
}

/// Ends where one more field can follow.
fn address(search: &str, show: Show) -> String {
    let mut fields = form_urlencoded::Serializer::new(String::new());
    for (name, value) in [("search", search), ("show", show.word())] {
        if !value.is_empty() {
            fields.append_pair(name, value);
        }
    }
    let fields = fields.finish();
    if fields.is_empty() { "/?".into() } else { format!("/?{fields}&") }
}

fn found(scene: &Scene, wanted: &Wanted<'_>) -> Arc<[ScopeId]> {
    let region = scene.region();
    let order = scene.service.shared.order(&scene.snapshot);
    if wanted.is_everything() {
        return order;
    }
    let is_wanted = |id: &&ScopeId| region.scope(**id).is_some_and(|scope| wanted.is_scope(region, scope));
    order.iter().filter(is_wanted).copied().collect()
}

fn scopes(region: &Region, found: &[ScopeId], view: &View, address: &str) -> Panel {
    let shelving = Shelving { list: "scopes", size: SHELF, view, noun: "Scopes", address, field: "from" };
    let card = |id: &ScopeId| region.scope(*id).map(|scope| scope::card(region, scope)).into_iter().collect();
    Panel::new("scopes", "Machines", Vec::new()).shelved(shelving.shelves(found, card)).or("No machine is found.")
}

fn counts(region: &Region, found: Option<usize>) -> Counts {
    let live = || region.events().filter(|event| event.is_live());
    let started = live().filter(|event| matches!(event.status, Status::Started { .. })).count();
    let scheduled = || live().filter(|event| event.status == Status::Scheduled);
    let next = scheduled().map(|event| event.not_before).min();
    Counts {
        machines: region.machines().len(),
        scopes: region.scopes().len(),
        listening: region.scopes().filter(|scope| region.is_on(scope.id)).count(),
        scheduled: scheduled().count(),
        started,
        next: next.map(|at| format!(r#"{} <span class="count" data-until="{}"></span>"#, words::time(at), at.0)),
        found,
    }
}
