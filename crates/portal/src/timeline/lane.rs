//! One lane: who, the picture, the facts.

use askama::Template;
use forewarn_core::Region;

use super::window::Window;
use super::{Life, Stage, scope_name};
use crate::page::{Fragment, Look, Scene};
use crate::words;

/// Whether a lane names its scope, or stands below the name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Told,
    Known,
}

#[derive(Template)]
#[template(path = "lane.html")]
struct Lane<'a> {
    id: &'a str,
    sort: &'a str,
    life: &'a Life,
    class: String,
    names: String,
    /// Empty: it is known.
    scope: &'a str,
    /// The same, for the facts.
    named: &'a str,
    due_html: String,
    appeared_html: String,
    approved_html: Option<(String, &'a str)>,
    /// Who approved, in short.
    ready: &'a str,
    started_html: Option<String>,
    ended_html: Option<String>,
    facts: String,
    shapes: Shapes,
}

/// The picture of one event, also a part of that of many.
#[derive(Template)]
#[template(path = "shapes.html")]
pub struct Shapes {
    from: i64,
    /// Where notice ends: at the start, or as announced.
    to: i64,
    due: i64,
    approved: Option<i64>,
    started: Option<i64>,
    ended: Option<i64>,
    now: i64,
    /// For the first look; later script knows better.
    window: Option<Window>,
}

impl Lane<'_> {
    fn is_coming(&self) -> bool {
        self.life.stage() == Stage::Coming
    }
}

impl Shapes {
    pub fn of(life: &Life, scene: &Scene) -> Shapes {
        Shapes {
            from: life.appeared.0,
            to: life.started.or(life.ended).unwrap_or(life.not_before).0,
            due: life.not_before.0,
            approved: life.approved.as_ref().map(|(at, _)| at.0),
            started: life.started.map(|at| at.0),
            ended: life.ended.map(|at| at.0),
            now: scene.now.0,
            window: (scene.look == Look::First).then(|| Window::first(scene.now)),
        }
    }

    /// What can be told apart in the picture.
    pub fn key(&self) -> [i64; 6] {
        let or = |at: Option<i64>| at.unwrap_or(-1);
        [self.from, self.to, self.due, or(self.approved), or(self.started), or(self.ended)]
    }

    fn bar(&self, begin: &i64, end: &i64) -> String {
        self.window.map_or_else(String::new, |window| window.bar(*begin, *end))
    }

    fn line(&self, at: &i64) -> String {
        self.window.map_or_else(String::new, |window| window.line(*at))
    }

    fn mark(&self, at: &i64) -> String {
        self.window.map_or_else(String::new, |window| window.mark(*at))
    }
}

impl Life {
    pub fn lane(&self, scene: &Scene, sort: &str, scope: Scope) -> Fragment {
        let id = words::event_name(self.id);
        let names = words::few(&self.names);
        let place = match scope {
            Scope::Told => "",
            Scope::Known => " below",
        };
        let named = self.scope_now(scene.region());
        let scope = match scope {
            Scope::Told if named != names => named.as_str(),
            Scope::Told | Scope::Known => "",
        };
        let lane = Lane {
            id: &id,
            sort,
            life: self,
            class: format!("{} {}{place}", self.kind.to_lowercase(), self.stage().class()),
            names,
            scope,
            named: &named,
            due_html: words::time(self.not_before),
            appeared_html: words::time(self.appeared),
            approved_html: self.approved.as_ref().map(|(at, by)| (words::time(*at), by.as_str())),
            ready: self.approved.as_ref().map_or("", |(_, by)| short(by)),
            started_html: self.started.map(words::time),
            ended_html: self.ended.map(words::time),
            facts: self.facts(),
            shapes: Shapes::of(self, scene),
        };
        Fragment::of(format!("lane-{id}"), sort, &lane)
    }

    /// Since it appeared, another scope of the same name may have come.
    fn scope_now(&self, region: &Region) -> String {
        let known = self.scope_id.map(|scope| scope_name(region, scope)).filter(|name| !name.is_empty());
        known.unwrap_or_else(|| self.scope.clone())
    }

    /// For those who cannot see the picture.
    fn facts(&self) -> String {
        let mut facts = format!(
            "{} of {}, {}: appeared {}, not before {}",
            self.kind,
            words::few(&self.names),
            self.status.to_lowercase(),
            words::utc(self.appeared),
            words::utc(self.not_before)
        );
        if let Some((at, by)) = &self.approved {
            facts += &format!(", approved by {by} {}", words::utc(*at));
        }
        for (word, at) in [("started", self.started), ("ended", self.ended)] {
            facts += &at.map_or_else(String::new, |at| format!(", {word} {}", words::utc(at)));
        }
        facts
    }
}

/// The name alone.
fn short(approver: &str) -> &str {
    let name = approver.strip_prefix("machine ").unwrap_or(approver);
    name.strip_suffix(" (management)").unwrap_or(name)
}

impl Stage {
    fn class(self) -> &'static str {
        match self {
            Stage::Coming => "coming",
            Stage::UnderWay => "underway",
            Stage::Over => "over",
        }
    }
}
