//! Rendered documents. Each is made at most once per change and version, on first demand, from one
//! fragment per event, so that one change in a long list renders one event. Empty ones are shared.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use forewarn_core::{Event, EventId, EventKind, Region, Scope, ScopeId, Source, Status};
use forewarn_wire::document::{self, EventView, Names};
use forewarn_wire::version::Version;
use http::HeaderValue;

use crate::faults::Alter;

/// Scopes whose documents are kept. One that shows events and is asked for takes some kilobytes; more
/// than this many at the same time are rendered anew now and then.
pub const SCOPES_KEPT_MAX: usize = 16_384;

/// Incarnations up to this share their empty document.
const EMPTY_SHARED: usize = 4096;

const SHARDS: usize = 16;
const VERSIONS: usize = Version::ALL.len();

/// A document as it is sent.
#[derive(Debug)]
pub struct Rendered {
    pub incarnation: u64,
    pub body: Bytes,
    pub etag: HeaderValue,
}

pub struct Documents {
    names: Names,
    empty: Vec<OnceLock<Arc<Rendered>>>,
    shards: Vec<Mutex<Shard>>,
    /// Grows with each sweep.
    age: AtomicU64,
}

type Shard = HashMap<ScopeId, Arc<Kept>, BuildHasherDefault<IdHasher>>;

/// The documents of one scope.
#[derive(Default)]
struct Kept {
    versions: [ArcSwapOption<Rendered>; VERSIONS],
    fragments: Mutex<[Fragments; VERSIONS]>,
    /// The sweep before which it was last asked for.
    asked: AtomicU64,
}

/// An event looks different once it has started, and never again.
type Fragments = HashMap<(EventId, bool), Bytes>;

impl Documents {
    pub fn new(names: Names) -> Documents {
        Documents {
            names,
            empty: (0..EMPTY_SHARED).map(|_| OnceLock::new()).collect(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            age: AtomicU64::new(0),
        }
    }

    /// The scope's document in this region, or a newer one.
    pub fn get(&self, region: &Region, scope: &Scope, version: Version) -> Arc<Rendered> {
        if scope.live.is_empty() {
            return self.empty(scope.incarnation);
        }
        let kept = self.kept(scope.id);
        let slot = &kept.versions[version as usize];
        if let Some(rendered) = &*slot.load()
            && rendered.incarnation >= scope.incarnation
        {
            return rendered.clone();
        }
        self.render(region, scope, version, &kept)
    }

    /// A document that is not true, which nobody keeps.
    pub fn altered(&self, region: &Region, scope: &Scope, version: Version, alter: Alter) -> Rendered {
        let incarnation = alter.incarnation(scope.incarnation);
        if alter.events_vanish {
            return rendered(incarnation, document::render_document(incarnation, NOTHING));
        }
        let shown_as = |event: &Event| if alter.unknown_type { document::Kind::Unknown } else { kind(event.kind) };
        let pieces = shown(region, scope, version).map(|event| self.fragment(event, shown_as(event), version));
        rendered(incarnation, document::render_document(incarnation, pieces))
    }

    /// Forgets the documents that nobody has asked for since the sweep before this one.
    pub fn sweep(&self) {
        let age = self.age.fetch_add(1, Ordering::Relaxed);
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|_, kept| kept.asked.load(Ordering::Relaxed) >= age);
        }
    }

    fn empty(&self, incarnation: u64) -> Arc<Rendered> {
        let make = || Arc::new(rendered(incarnation, document::render_document(incarnation, NOTHING)));
        match self.empty.get(incarnation as usize) {
            Some(shared) => shared.get_or_init(make).clone(),
            None => make(),
        }
    }

    fn kept(&self, scope: ScopeId) -> Arc<Kept> {
        let age = self.age.load(Ordering::Relaxed);
        let mut shard = self.shards[scope.0 as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = shard.get(&scope) {
            if kept.asked.load(Ordering::Relaxed) != age {
                kept.asked.store(age, Ordering::Relaxed);
            }
            return kept.clone();
        }
        if shard.len() >= SCOPES_KEPT_MAX / SHARDS {
            let any = shard.keys().next().copied();
            any.map(|any| shard.remove(&any));
        }
        let kept = Arc::new(Kept { asked: AtomicU64::new(age), ..Kept::default() });
        shard.insert(scope, kept.clone());
        kept
    }

    fn render(&self, region: &Region, scope: &Scope, version: Version, kept: &Kept) -> Arc<Rendered> {
        let mut fragments = kept.fragments.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &kept.versions[version as usize];
        // Somebody else may have rendered it while this one waited for the lock.
        if let Some(rendered) = slot.load_full().filter(|rendered| rendered.incarnation >= scope.incarnation) {
            return rendered;
        }
        let before = std::mem::take(&mut fragments[version as usize]);
        let mut after = Fragments::with_capacity(scope.live.len());
        let pieces = shown(region, scope, version).map(|event| {
            let key = (event.id, matches!(event.status, Status::Started { .. }));
            let piece = before.get(&key).cloned().unwrap_or_else(|| self.fragment(event, kind(event.kind), version));
            after.insert(key, piece.clone());
            piece
        });
        let body = document::render_document(scope.incarnation, pieces);
        fragments[version as usize] = after;
        let rendered = Arc::new(rendered(scope.incarnation, body));
        slot.store(Some(rendered.clone()));
        rendered
    }

    fn fragment(&self, event: &Event, kind: document::Kind, version: Version) -> Bytes {
        let machine = |role_instance| match role_instance {
            true => document::Machine::RoleInstance,
            false => document::Machine::Iaas,
        };
        let resources: Vec<_> = event
            .resources
            .iter()
            .map(|resource| document::Resource { name: &resource.name, machine: machine(resource.role_instance) })
            .collect();
        let view = EventView {
            id: event.id.0,
            status: match event.status {
                Status::Scheduled => document::Status::Scheduled,
                Status::Started { .. } | Status::Ended { .. } => document::Status::Started,
            },
            kind,
            resources: &resources,
            not_before_unix_secs: Some(event.not_before.as_secs()),
            description: &event.description,
            source: match event.cause.source() {
                Source::Platform => document::Source::Platform,
                Source::User => document::Source::User,
            },
            duration_secs: event.duration_secs,
        };
        document::render_event(version, self.names, &view).into()
    }
}

const NOTHING: [&[u8]; 0] = [];

/// The events of the scope that this version knows.
fn shown<'r>(region: &'r Region, scope: &Scope, version: Version) -> impl Iterator<Item = &'r Arc<Event>> {
    region.document(scope.id).filter(move |event| document::is_shown(version, kind(event.kind)))
}

fn rendered(incarnation: u64, body: Vec<u8>) -> Rendered {
    Rendered { incarnation, body: body.into(), etag: HeaderValue::from(incarnation) }
}

fn kind(kind: EventKind) -> document::Kind {
    match kind {
        EventKind::Freeze => document::Kind::Freeze,
        EventKind::Reboot => document::Kind::Reboot,
        EventKind::Redeploy => document::Kind::Redeploy,
        EventKind::Preempt => document::Kind::Preempt,
        EventKind::Terminate => document::Kind::Terminate,
    }
}
/// Ids are small numbers given out in order: a multiplication spreads them well enough.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, id: u64) {
        let mixed = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
