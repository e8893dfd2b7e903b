//! Shows who said that a host is off, and when.

use std::collections::BTreeMap;
use std::sync::Arc;

use forewarn_api::find_fencing;
use forewarn_api_types as types;
use forewarn_core::{Host, HostState, Name, Timestamp};
use forewarn_render::Convert;
use forewarn_widgets::words;

use super::page_context::PageContext;

/// Hosts whose statement a list shows. Each takes a query.
const HOSTS_MAX: usize = 50;

/// A statement that a host is off.
pub struct Fencing(types::Fencing);

impl Fencing {
    /// The statement behind the state of a host, if there is one.
    pub async fn find(context: &PageContext, host: &Host) -> Option<Fencing> {
        let found = find_fencing(context.portal.engine(), host).await;
        let found = found.inspect_err(|error| tracing::error!(%error, "cannot read history"));
        found.ok().flatten().map(Fencing)
    }

    /// The statements about these hosts, by name.
    pub async fn find_all(context: &PageContext, hosts: &[Arc<Host>]) -> BTreeMap<Name, Fencing> {
        let mut found = BTreeMap::new();
        for host in hosts.iter().filter(|host| host.state == HostState::Failed).take(HOSTS_MAX) {
            found.extend(Fencing::find(context, host).await.map(|fencing| (host.name.clone(), fencing)));
        }
        found
    }

    /// A line below the state of the host. HTML.
    pub fn render_note(&self) -> String {
        format!("<small>{}</small>", self.render())
    }

    /// `fenced by ann, 12:03`. HTML.
    pub fn render(&self) -> String {
        let at: Timestamp = self.0.at.convert();
        format!("fenced by {}, {}", words::escape_html(&self.0.by), words::time(at))
    }
}
