//! Rendered documents. Each is rendered at most once per change and version, on first demand, from one fragment per event, so
//! that one change in a long list renders one event. Empty documents are shared.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use forewarn_core::{Event, EventId, EventKind, Region, Scope, ScopeId, Source, Status};
use forewarn_wire::document::{self, EventView, NameStyle};
use forewarn_wire::version::Version;

use crate::faults::DocumentFault;

/// Event groups whose documents are cached. A group with events takes a few kilobytes.
pub const CACHED_SCOPES_MAX: usize = 16_384;

/// Empty documents are cached for incarnations below this.
const EMPTY_CACHED: usize = 4096;

const SHARDS: usize = 16;
const VERSIONS: usize = Version::COUNT;

/// A document as it is sent.
#[derive(Clone, Debug)]
pub struct Rendered {
    pub incarnation: u64,
    pub body: Bytes,
}

pub struct Documents {
    names: NameStyle,
    empty: Vec<OnceLock<Rendered>>,
    shards: Vec<Mutex<Shard>>,
    sweeps: AtomicU64,
}

type Shard = HashMap<ScopeId, Box<CachedScope>, BuildHasherDefault<IdHasher>>;

/// The documents of one scope.
#[derive(Default)]
struct CachedScope {
    versions: [CachedDocument; VERSIONS],
    fragments: Arc<Mutex<[Fragments; VERSIONS]>>,
}

/// One document, in one cache line: with many groups, a poll finds it outside the cache.
#[derive(Default)]
#[repr(align(64))]
struct CachedDocument {
    rendered: Option<Rendered>,
    /// The number of sweeps before the last use.
    used: u64,
}

/// A fragment per event and whether the event has started: nothing else changes how it looks.
type Fragments = HashMap<(EventId, bool), Bytes>;

impl Documents {
    pub fn new(names: NameStyle) -> Documents {
        Documents {
            names,
            empty: (0..EMPTY_CACHED).map(|_| OnceLock::new()).collect(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            sweeps: AtomicU64::new(0),
        }
    }

    /// The document of an event group in this region, or a newer one.
    pub fn get(&self, region: &Region, scope: &Scope, version: Version) -> Rendered {
        if scope.live.is_empty() {
            return self.empty(scope.incarnation);
        }
        match self.find(scope, version) {
            Ok(rendered) => rendered,
            Err(fragments) => self.render(region, scope, version, &mut lock(&fragments)),
        }
    }

    /// A document altered by a fault. Never cached.
    pub fn render_altered(&self, region: &Region, scope: &Scope, version: Version, alter: DocumentFault) -> Rendered {
        let incarnation = alter.incarnation(scope.incarnation);
        if alter.events_vanish {
            return rendered(incarnation, document::render_document(incarnation, NO_EVENTS));
        }
        let kind_shown =
            |event: &Event| if alter.unknown_type { document::Kind::Unknown } else { wire_kind(event.kind) };
        let pieces = visible_events(region, scope, version)
            .map(|event| render_event(self.names, event, kind_shown(event), version));
        rendered(incarnation, document::render_document(incarnation, pieces))
    }

    /// Drops the documents that were not used since the sweep before this one.
    pub fn sweep(&self) {
        let sweeps = self.sweeps.fetch_add(1, Ordering::Relaxed);
        for shard in &self.shards {
            lock(shard).retain(|_, cached| cached.versions.iter().any(|document| document.used >= sweeps));
        }
    }

    fn empty(&self, incarnation: u64) -> Rendered {
        let make = || rendered(incarnation, document::render_document(incarnation, NO_EVENTS));
        match self.empty.get(incarnation as usize) {
            Some(shared) => shared.get_or_init(make).clone(),
            None => make(),
        }
    }

    /// The cached document, or the fragments from which to render it.
    fn find(&self, scope: &Scope, version: Version) -> Result<Rendered, Arc<Mutex<[Fragments; VERSIONS]>>> {
        let mut shard = self.shard(scope.id);
        let cached = cached(&mut shard, scope.id);
        let document = &mut cached.versions[version as usize];
        document.used = self.sweeps.load(Ordering::Relaxed);
        match &document.rendered {
            Some(rendered) if rendered.incarnation >= scope.incarnation => Ok(rendered.clone()),
            Some(_) | None => Err(cached.fragments.clone()),
        }
    }

    fn shard(&self, scope: ScopeId) -> MutexGuard<'_, Shard> {
        lock(&self.shards[scope.0 as usize % SHARDS])
    }

    /// Renders while other groups of the shard are read.
    fn render(
        &self,
        region: &Region,
        scope: &Scope,
        version: Version,
        fragments: &mut [Fragments; VERSIONS],
    ) -> Rendered {
        // Another thread may have rendered it while this one waited for the lock.
        if let Ok(rendered) = self.find(scope, version) {
            return rendered;
        }
        let before = std::mem::take(&mut fragments[version as usize]);
        let mut after = Fragments::with_capacity(scope.live.len());
        let pieces = visible_events(region, scope, version).map(|event| {
            let key = (event.id, matches!(event.status, Status::Started { .. }));
            let piece = before
                .get(&key)
                .cloned()
                .unwrap_or_else(|| render_event(self.names, event, wire_kind(event.kind), version));
            after.insert(key, piece.clone());
            piece
        });
        let body = document::render_document(scope.incarnation, pieces);
        fragments[version as usize] = after;
        let rendered = rendered(scope.incarnation, body);
        cached(&mut self.shard(scope.id), scope.id).versions[version as usize].rendered = Some(rendered.clone());
        rendered
    }
}

/// The entry of a scope. Makes room for it if the shard is full.
fn cached(shard: &mut Shard, scope: ScopeId) -> &mut CachedScope {
    if shard.len() >= CACHED_SCOPES_MAX / SHARDS && !shard.contains_key(&scope) {
        let any = shard.keys().next().copied();
        any.map(|any| shard.remove(&any));
    }
    shard.entry(scope).or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The document of an event group, rendered without a cache.
pub fn render_document(names: NameStyle, region: &Region, scope: &Scope, version: Version) -> Bytes {
    let pieces =
        visible_events(region, scope, version).map(|event| render_event(names, event, wire_kind(event.kind), version));
    document::render_document(scope.incarnation, pieces).into()
}

/// An event as one version shows it.
fn render_event(names: NameStyle, event: &Event, kind: document::Kind, version: Version) -> Bytes {
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
    document::render_event(version, names, &view).into()
}

const NO_EVENTS: [&[u8]; 0] = [];

/// The events of an event group that this version shows.
fn visible_events<'r>(region: &'r Region, scope: &Scope, version: Version) -> impl Iterator<Item = &'r Arc<Event>> {
    region.document(scope.id).filter(move |event| document::is_shown(version, wire_kind(event.kind)))
}

fn rendered(incarnation: u64, body: Vec<u8>) -> Rendered {
    Rendered { incarnation, body: body.into() }
}

fn wire_kind(kind: EventKind) -> document::Kind {
    match kind {
        EventKind::Freeze => document::Kind::Freeze,
        EventKind::Reboot => document::Kind::Reboot,
        EventKind::Redeploy => document::Kind::Redeploy,
        EventKind::Preempt => document::Kind::Preempt,
        EventKind::SpotRebalanceRecommendation => document::Kind::SpotRebalanceRecommendation,
        EventKind::Terminate => document::Kind::Terminate,
    }
}

/// Hashes IDs. They are small and consecutive, so one multiplication spreads them well enough.
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
