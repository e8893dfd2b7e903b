//! Tasks of a leader: webhooks, the first machine of a new region, and its contact to the other servers. Tasks of every server: the region's token.

use std::sync::Arc;

use forewarn_webhooks::Webhooks;
use tokio_util::sync::CancellationToken;

use super::Cluster;
use super::contact::watch_contact;
use crate::first_machine::register_first;

/// Runs the tasks of a server in a cluster until it stops; those of the leader whenever it leads.
pub async fn supervise(
    cluster: Arc<Cluster>,
    webhooks: Arc<Webhooks>,
    first_machine: Option<String>,
    stop: CancellationToken,
) {
    let leading = async {
        loop {
            if cluster.engine.accepts_commands() {
                lead(&cluster, &webhooks, first_machine.clone(), &stop).await;
            }
            tokio::time::sleep(super::LEADER_POLL).await;
        }
    };
    let tasks = async { tokio::join!(leading, cluster.keep_token()) };
    let _: Option<((), ())> = stop.run_until_cancelled(tasks).await;
}

async fn lead(
    cluster: &Arc<Cluster>,
    webhooks: &Arc<Webhooks>,
    first_machine: Option<String>,
    stop: &CancellationToken,
) {
    if let Err(error) = register_first(&cluster.engine, first_machine).await {
        tracing::warn!(error = format!("{error:#}"), "cannot register the first machine");
    }
    if let Err(error) = webhooks.reload().await {
        tracing::error!(%error, "cannot load the webhooks");
    }
    let term = stop.child_token();
    let deliveries = tokio::spawn(webhooks.clone().run(term.clone()));
    let has_ended = async {
        while cluster.engine.accepts_commands() {
            tokio::time::sleep(super::LEADER_POLL).await;
        }
    };
    tokio::select! {
        () = has_ended => {}
        () = watch_contact(cluster) => {}
    }
    term.cancel();
    let _ = deliveries.await;
}
