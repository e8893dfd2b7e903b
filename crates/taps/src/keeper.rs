//! Keeps the rules and the table of ports current: with the interfaces and addresses of this computer, and with the domains of
//! libvirt.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use forewarn_drivers::MachineWatch as _;
use forewarn_drivers::libvirt::{DomainWatch, Target};
use forewarn_metadata::{BoundAddress, BoundListener, GuestPorts, MarkMask, PortName};
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bridges::{self, EndpointPort};
use crate::kernel;
use crate::links::LinkChanges;

/// The interval between two checks without a change. Finds rules that another program has removed.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// The interval between two readings of the owners of ports if no event triggers one: each asks libvirtd twice for every domain.
const READ_OWNERS_EVERY: Duration = Duration::from_secs(60);

/// The shortest pause between two checks: interfaces change several times while a domain starts.
const CHECK_PAUSE: Duration = Duration::from_millis(50);

/// The pause before libvirtd is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// How guests are identified by their ports.
#[derive(Clone, Debug)]
pub struct Settings {
    pub mask: MarkMask,
    /// The socket of this host's libvirtd, which knows the owners of ports.
    pub libvirt_socket: PathBuf,
}

struct Keeper {
    ports: Arc<GuestPorts>,
    endpoints: Vec<IpAddr>,
    target: Target,
    /// The ports whose guests the loaded rules keep at this host. Rules are loaded by one task at a time.
    loaded: Mutex<Vec<EndpointPort>>,
    /// The ports have changed, so their owners must be read again.
    changed: Notify,
}

/// Loads the rules and lets these listeners identify guests by their ports. The rules are kept current until `stop`, and then
/// removed; wait for `tasks` before the program ends.
///
/// # Errors
///
/// If no listener is for guests on a bridge, or the system lacks a requirement. The message says which.
pub async fn start(
    settings: Settings,
    listeners: Vec<BoundListener>,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> anyhow::Result<Vec<BoundListener>> {
    let endpoints = find_endpoints(&listeners)?;
    if !bridges::has_bridge() {
        bail!(
            "--guests-by mark needs a Linux bridge, and this computer has none: create one, or identify guests by address"
        );
    }
    kernel::accept_marks()?;
    let ports = Arc::new(GuestPorts::new(settings.mask));
    let links = LinkChanges::subscribe().context("cannot watch network interfaces")?;
    let keeper = Arc::new(Keeper {
        ports: ports.clone(),
        endpoints,
        target: Target::qemu(settings.libvirt_socket),
        loaded: Mutex::default(),
        changed: Notify::new(),
    });
    ports.replace(&bridges::list_ports().context("cannot read network interfaces")?);
    keeper.load().await?;
    tasks.spawn(keeper.clone().follow_interfaces(links, stop.clone()));
    tasks.spawn(keeper.follow_domains(stop.clone()));
    let by_port = |listener: BoundListener| match listener.is_for_bridged_guests() {
        true => listener.with_ports(&ports),
        false => Ok(listener),
    };
    listeners.into_iter().map(by_port).collect()
}

/// The addresses of the listeners for guests on bridges.
fn find_endpoints(listeners: &[BoundListener]) -> anyhow::Result<Vec<IpAddr>> {
    let mut endpoints = Vec::new();
    for listener in listeners.iter().filter(|listener| listener.is_for_bridged_guests()) {
        if let BoundAddress::Tcp(address) = listener.address()? {
            if address.ip().is_unspecified() {
                bail!(
                    "--guests-by mark cannot use the listener {address}: name an address of the bridge, such as 169.254.169.254"
                );
            }
            endpoints.push(address.ip());
        }
    }
    endpoints.sort();
    endpoints.dedup();
    if endpoints.is_empty() {
        bail!("--guests-by mark needs a listener for guests on a bridge: add --metadata 169.254.169.254:80");
    }
    Ok(endpoints)
}

impl Keeper {
    /// Follows the interfaces of this computer, and removes the rules at stop.
    async fn follow_interfaces(self: Arc<Self>, links: LinkChanges, stop: CancellationToken) {
        let mut quiet_until = Instant::now();
        while stop.run_until_cancelled(self.wait_for_interfaces(&links, &mut quiet_until)).await.is_some() {
            match bridges::list_ports() {
                Ok(found) if self.ports.replace(&found) => {
                    self.changed.notify_one();
                    self.try_load().await;
                }
                Ok(_) if !kernel::has_rules().await => {
                    tracing::warn!("another program has removed the rules that identify guests; loading them again");
                    self.ports.note_missing_rules();
                    self.try_load().await;
                }
                Ok(_) if !self.is_current().await => self.try_load().await,
                Ok(_) => {}
                Err(error) => tracing::error!(%error, "cannot read network interfaces"),
            }
        }
        let _turn = self.loaded.lock().await;
        if let Err(error) = kernel::remove_rules().await {
            tracing::warn!(error = format!("{error:#}"), "cannot remove the rules that identify guests");
        }
    }

    /// `quiet_until`: connections without a mark are no reason to check before. Guests must not keep this program busy.
    async fn wait_for_interfaces(&self, links: &LinkChanges, quiet_until: &mut Instant) {
        let unmarked = async |until: Instant| {
            sleep_until(until).await;
            self.ports.unmarked.notified().await;
        };
        tokio::select! {
            changed = links.changed() => if let Err(error) = changed {
                tracing::error!(%error, "cannot watch network interfaces");
                sleep(RETRY).await;
            },
            () = unmarked(*quiet_until) => *quiet_until = Instant::now() + RETRY,
            () = sleep(CHECK_EVERY) => {}
        }
        sleep(CHECK_PAUSE).await;
    }

    /// Follows the domains of libvirt, through restarts of libvirtd. Without contact, ports keep their owners.
    async fn follow_domains(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match stop.run_until_cancelled(DomainWatch::open(&self.target)).await {
                None => return,
                Some(Ok(watch)) => drop(stop.run_until_cancelled(self.follow(watch)).await),
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot query libvirtd for the owners of network interfaces")
                }
            }
            stop.run_until_cancelled(sleep(RETRY)).await;
        }
    }

    /// Reads the owners after every change, until the connection ends.
    async fn follow(&self, mut watch: DomainWatch) {
        loop {
            let Ok(before) = bridges::list_ports() else { return };
            let Ok(owners) = watch.taps().await else { return };
            let Ok(after) = bridges::list_ports() else { return };
            let checked: Vec<PortName> = before.into_iter().filter(|port| after.contains(port)).collect();
            let replaced = self.ports.replace(&after);
            if self.ports.assign(&owners, &checked) || replaced {
                self.try_load().await;
            }
            if checked.len() < after.len() {
                // A port has appeared meanwhile, so its owner is unknown.
                self.changed.notify_one();
            }
            tokio::select! {
                exists = watch.changed() => if !exists { return },
                () = self.changed.notified() => {}
                () = sleep(READ_OWNERS_EVERY) => {}
            }
        }
    }

    async fn try_load(&self) {
        if let Err(error) = self.load().await {
            tracing::error!(error = format!("{error:#}"), "cannot load the rules that identify guests");
        }
    }

    /// Whether the loaded rules know the current addresses of the bridges.
    async fn is_current(&self) -> bool {
        let loaded = self.loaded.lock().await;
        bridges::list_endpoint_ports(&self.endpoints).is_ok_and(|own| own == *loaded)
    }

    async fn load(&self) -> anyhow::Result<()> {
        let mut loaded = self.loaded.lock().await;
        let own = bridges::list_endpoint_ports(&self.endpoints).context("cannot read the addresses of bridges")?;
        kernel::load_rules(&self.endpoints, self.ports.mask(), &self.ports.marks(), &own).await?;
        *loaded = own;
        Ok(())
    }
}
