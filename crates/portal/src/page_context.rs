//! Everything that a page is rendered from: one snapshot, one time, one visitor.

use std::sync::Arc;

use forewarn_core::{Region, Snapshot, Timestamp};
use forewarn_widgets::html::RenderMode;

use super::Portal;
use super::visitor::Visitor;
use forewarn_previews::preview::Preview;

pub struct PageContext {
    pub portal: Portal,
    pub snapshot: Arc<Snapshot>,
    pub now: Timestamp,
    pub visitor: Visitor,
    pub mode: RenderMode,
}

impl PageContext {
    pub fn now(portal: &Portal, visitor: &Visitor, mode: RenderMode) -> PageContext {
        // The snapshot first, so that nothing in it is later than the time.
        let snapshot = portal.engine().snapshot();
        let now = portal.engine().now();
        PageContext { snapshot, now, portal: portal.clone(), visitor: visitor.clone(), mode }
    }

    /// The name of a person or program, or `you` for the visitor.
    pub fn name_requester<'n>(&self, name: &'n str) -> &'n str {
        if *name == *self.visitor.session.holder.principal.name { "you" } else { name }
    }

    pub fn region(&self) -> &Region {
        &self.snapshot.region
    }

    pub fn preview(&self) -> Preview<'_> {
        Preview { region: self.region(), now: self.now, mode: self.mode }
    }
}
