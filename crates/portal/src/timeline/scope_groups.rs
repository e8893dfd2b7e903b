//! The time line of many scopes: the lanes of a scope stand together below its name. A scope with one event is that lane; where
//! there are many lanes, scopes with several are folded to one picture until somebody opens them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use askama::Template;
use forewarn_core::ScopeId;

use super::expected::{Ghost, ghosts};
use super::lane::{Scope, Shapes};
use super::{Life, Stage, frame, live};
use crate::chunk::Shelving;
use crate::overview::Wanted;
use crate::page::{Fragment, Panel, Scene};
use crate::view::{Fold, View};
use crate::words;

/// Scopes that are drawn together.
pub const SHELF: usize = 20;

/// With more lanes than this, scopes with several are folded.
const LANES_OPEN_MAX: usize = 40;

/// Lanes of one scope; its own page has more.
const LANES_MAX: usize = 100;

/// Pictures of events in that of a folded scope; more cannot be told apart.
const PICTURES_MAX: usize = 24;

/// A scope and its events.
struct Strand {
    scope: Option<ScopeId>,
    sort: String,
    lives: Vec<Arc<Life>>,
    /// Of roll-outs, what is expected.
    ghosts: Vec<Ghost>,
}

#[derive(Template)]
#[template(path = "scope_group.html")]
struct Head<'a> {
    number: u64,
    sort: &'a str,
    name: &'a str,
    href: &'a str,
    fold: Fold,
    /// Those that are coming, under way, over.
    stages: [usize; 3],
    /// When the next one is due.
    due: Option<i64>,
    pictures: Vec<Shapes>,
    /// More than are shown.
    left_out: usize,
}

impl Head<'_> {
    fn is_open(&self) -> bool {
        self.fold == Fold::Open
    }

    /// `2 coming, 1 under way`
    fn counts(&self) -> String {
        let words = ["coming", "under way", "over"];
        let counted = self.stages.iter().zip(words).filter(|(count, _)| **count > 0);
        counted.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }
}

/// The panel of everything that is wanted, as far as it is looked at.
pub async fn strands(scene: &Scene, wanted: &Wanted<'_>, view: &View, address: &str) -> Panel {
    let mut lives = live(scene.region(), |_, _| true);
    lives.extend(scene.service.shared.past.over(scene, |_| true).await);
    lives.retain(|life| wanted.is_life(life));
    let otherwise = if lives.len() > LANES_OPEN_MAX { Fold::Closed } else { Fold::Open };
    let mut expected = ghosts(scene.region());
    expected.retain(|ghost| wanted.is_ghost(scene.region(), ghost.scope));
    let strands = by_scope(lives, expected);
    let shelving =
        Shelving { list: "timeline", size: SHELF, view, noun: "Scopes with events,", address, field: "events" };
    let shelves = shelving.shelves(&strands, |strand| strand.fragments(scene, view, otherwise));
    let panel = frame(scene, Panel::new("timeline", "Time line", Vec::new()).shelved(shelves));
    if wanted.is_everything() { panel } else { panel.or("No event is found.") }
}

fn by_scope(lives: Vec<Arc<Life>>, ghosts: Vec<Ghost>) -> Vec<Strand> {
    let mut scopes: BTreeMap<Option<ScopeId>, Vec<Arc<Life>>> = BTreeMap::new();
    for life in lives {
        scopes.entry(life.scope_id).or_default().push(life);
    }
    let mut expected: BTreeMap<Option<ScopeId>, Vec<Ghost>> = BTreeMap::new();
    for ghost in ghosts {
        scopes.entry(Some(ghost.scope)).or_default();
        expected.entry(Some(ghost.scope)).or_default().push(ghost);
    }
    let mut strand = |(scope, lives)| Strand::new(scope, lives, expected.remove(&scope).unwrap_or_default());
    let mut strands: Vec<Strand> = scopes.into_iter().map(&mut strand).collect();
    strands.sort_by(|one, other| one.sort.cmp(&other.sort));
    strands
}

impl Strand {
    fn new(scope: Option<ScopeId>, mut lives: Vec<Arc<Life>>, ghosts: Vec<Ghost>) -> Strand {
        lives.sort_by_cached_key(|life| life.place());
        // The first one decides: the next deadline, or else the newest end.
        let first = lives.first().map(|life| format!("{}-{}", life.order(), life.scope));
        let first = first.or(ghosts.first().map(Ghost::order)).unwrap_or_default();
        let sort = format!("{first}-{:012}", scope.map_or(0, |scope| scope.0));
        Strand { scope, sort, lives, ghosts }
    }

    fn fragments(&self, scene: &Scene, view: &View, otherwise: Fold) -> Vec<Fragment> {
        if let ([only], []) = (&self.lives[..], &self.ghosts[..]) {
            return vec![only.lane(scene, &self.sort, Scope::Told)];
        }
        let number = self.scope.map_or(0, |scope| scope.0);
        let fold = view.fold(number, otherwise);
        let mut fragments = vec![self.head(scene, number, fold)];
        if fold == Fold::Open {
            let sort = |place: String| format!("{}-1-{place}", self.sort);
            let lanes = self.lives.iter().take(LANES_MAX);
            fragments.extend(lanes.map(|life| life.lane(scene, &sort(life.place()), Scope::Known)));
            fragments.extend(self.ghosts.iter().map(|ghost| ghost.lane(scene, &sort(ghost.order()))));
            fragments.sort_by(|one, other| one.sort.cmp(&other.sort));
        }
        fragments
    }

    fn head(&self, scene: &Scene, number: u64, fold: Fold) -> Fragment {
        let region = scene.region();
        let known = self.scope.and_then(|scope| region.scope(scope)).map(|scope| words::scope(region, scope));
        let (name, href) = match &known {
            Some(known) => (known.name.as_str(), known.href.as_str()),
            None => (self.lives.first().map_or("", |life| &life.scope), ""),
        };
        let count = |stage| self.lives.iter().filter(|life| life.stage() == stage).count();
        let coming = self.lives.iter().filter(|life| life.stage() == Stage::Coming);
        let sort = format!("{}-0", self.sort);
        let head = Head {
            number,
            sort: &sort,
            name: if name.is_empty() { "A scope that has gone" } else { name },
            href,
            fold,
            stages: [count(Stage::Coming), count(Stage::UnderWay), count(Stage::Over)],
            due: coming.map(|life| life.not_before.0).min(),
            pictures: if fold == Fold::Closed { self.pictures(scene) } else { Vec::new() },
            left_out: if fold == Fold::Open { self.lives.len().saturating_sub(LANES_MAX) } else { 0 },
        };
        Fragment::of(format!("strand-{number}"), sort.as_str(), &head)
    }

    /// Those that look the same stand for each other.
    fn pictures(&self, scene: &Scene) -> Vec<Shapes> {
        let mut seen = BTreeSet::new();
        let shapes = self.lives.iter().map(|life| Shapes::of(life, scene));
        shapes.filter(|shapes| seen.insert(shapes.key())).take(PICTURES_MAX).collect()
    }
}
