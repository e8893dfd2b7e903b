//! Shows who said that a host is off, and when.

use std::collections::BTreeMap;
use std::sync::Arc;

use forewarn_api::find_fencing;
use forewarn_api_types::Fencing;
use forewarn_core::{Host, HostState, Name, Timestamp};
use forewarn_render::Convert;
use forewarn_widgets::words;

use super::page_context::PageContext;

/// Hosts whose statement a list shows. Each takes a query.
const HOSTS_MAX: usize = 50;

/// The statement behind the state of a host, if there is one.
pub async fn find(context: &PageContext, host: &Host) -> Option<Fencing> {
    let found = find_fencing(context.portal.engine(), host).await;
    found.inspect_err(|error| tracing::error!(%error, "cannot read history")).ok().flatten()
}

/// The statements about these hosts, by name.
pub async fn find_all(context: &PageContext, hosts: &[Arc<Host>]) -> BTreeMap<Name, Fencing> {
    let mut found = BTreeMap::new();
    for host in hosts.iter().filter(|host| host.state == HostState::Failed).take(HOSTS_MAX) {
        found.extend(find(context, host).await.map(|fencing| (host.name.clone(), fencing)));
    }
    found
}

/// A line below the state of the host. HTML.
pub fn render_note(fencing: &Fencing) -> String {
    format!("<small>{}</small>", render(fencing))
}

/// `fenced by ann, 12:03`. HTML.
pub fn render(fencing: &Fencing) -> String {
    let at: Timestamp = fencing.at.convert();
    format!("fenced by {}, {}", words::escape_html(&fencing.by), words::time(at))
}
