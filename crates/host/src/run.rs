//! Runs the agent as a program: until SIGTERM or Ctrl-C.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::agent::{RunningAgent, start};
use crate::config::HostConfig;
use crate::host_driver::OpenDriver;
use crate::service_manager::ServiceManager;

/// Worker threads. A host agent serves its own guests only, and should leave the processors to them.
const THREADS: usize = 2;

/// Runs an agent. `announce` is called once it serves.
pub fn run(config: HostConfig, driver: OpenDriver, announce: impl FnOnce(&RunningAgent)) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let runtime = runtime.context("cannot start threads")?;
    let ended = runtime.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let agent = start(config, driver).await?;
        announce(&agent);
        let manager = ServiceManager::from_environment();
        manager.notify("READY=1");
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = stay_alive(&manager) => {}
        }
        manager.notify("STOPPING=1");
        tracing::info!("stopping");
        agent.stop().await;
        Ok(())
    });
    runtime.shutdown_background();
    ended
}

async fn stay_alive(manager: &ServiceManager) {
    let Some(every) = manager.alive_every else { return std::future::pending().await };
    loop {
        manager.notify("WATCHDOG=1");
        sleep(every).await;
    }
}
