//! The bridge ports of guests, by the marks of their connections.
//!
//! The firewall puts a mark on every packet that a guest sends to the endpoint, and the kernel copies it to the accepted
//! socket. A mark stands for one port, whatever address the guest uses. `forewarn-taps` keeps the firewall and this table
//! current; nothing here touches the system.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use forewarn_core::Guid;
use forewarn_wire::error::MetadataError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A port without a machine may be that of a machine that is just starting: it gets 503 for this long, then 404.
pub const SETTLE_TIME: Duration = Duration::from_secs(5);

/// Connections without a mark belong to one episode if they are not further apart than this.
const EPISODE_PAUSE: Duration = Duration::from_secs(30);

/// The `Retry-After` of a request from a port that may get a machine soon.
const RETRY_AFTER_SECS: u32 = 1;

/// The bits of a mark that Forewarn uses. They are adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkMask(u32);

/// Enough for the guests of a small host. Fewer marks would be used again too soon.
const MASK_BITS_MIN: u32 = 8;

impl MarkMask {
    /// 2,047 marks, in bits that no value of Kubernetes (0x4000, 0x8000) or Tailscale (0x40000, 0x80000) has.
    pub const DEFAULT: MarkMask = MarkMask(0x7ff0_0000);

    pub fn bits(self) -> u32 {
        self.0
    }

    /// Marks are numbered from 1: a mark of 0 is no mark.
    fn slots(self) -> u32 {
        self.0 >> self.0.trailing_zeros()
    }

    fn mark(self, slot: u32) -> u32 {
        slot << self.0.trailing_zeros()
    }
}

impl FromStr for MarkMask {
    type Err = String;

    fn from_str(text: &str) -> Result<MarkMask, String> {
        let expected = || {
            format!("invalid mask '{text}': use adjacent bits, at least {MASK_BITS_MIN}, such as {}", MarkMask::DEFAULT)
        };
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).ok_or_else(expected)?;
        let bits = u32::from_str_radix(digits, 16).map_err(|_| expected())?;
        let is_adjacent = bits.count_ones() + bits.leading_zeros() + bits.trailing_zeros() == u32::BITS;
        if is_adjacent && bits.count_ones() >= MASK_BITS_MIN { Ok(MarkMask(bits)) } else { Err(expected()) }
    }
}

impl fmt::Display for MarkMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// A port of a bridge. Names are used again for other guests; the index is not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortName {
    pub index: u32,
    pub name: String,
}

/// A port with its mark. Lives as long as the port belongs to the same guest.
#[derive(Debug)]
pub struct GuestPort {
    pub port: PortName,
    pub mark: u32,
    appeared: Instant,
    machine: OnceLock<Guid>,
    /// The guest has left the port, so its connections must end.
    gone: CancellationToken,
}

impl GuestPort {
    /// The VM ID of the port's machine.
    fn machine(&self) -> Option<Guid> {
        self.machine.get().copied()
    }

    pub async fn wait_until_gone(&self) {
        self.gone.cancelled().await;
    }
}

/// All ports of the host's bridges.
pub struct GuestPorts {
    mask: MarkMask,
    table: RwLock<PortTable>,
    /// A connection without a mark has arrived: the rules may be missing.
    pub unmarked: Notify,
}

struct PortTable {
    by_mark: HashMap<u32, Arc<GuestPort>>,
    last_slot: u32,
    /// When marks were last known to be incomplete.
    incomplete_at: Instant,
    /// The first and the last connection without a mark in the current episode. The first ones may come from a port that is so
    /// new that it has no mark yet.
    unmarked: Option<(Instant, Instant)>,
    /// Whether the owners of ports were read since the start. Before, any port may belong to a machine.
    has_owners: bool,
}

impl GuestPorts {
    pub fn new(mask: MarkMask) -> GuestPorts {
        let table = PortTable {
            by_mark: HashMap::new(),
            last_slot: 0,
            incomplete_at: Instant::now(),
            unmarked: None,
            has_owners: false,
        };
        GuestPorts { mask, table: RwLock::new(table), unmarked: Notify::new() }
    }

    pub fn mask(&self) -> MarkMask {
        self.mask
    }

    /// The port of a connection with this mark.
    pub fn find(&self, mark: u32) -> Option<Arc<GuestPort>> {
        let found = self.read().by_mark.get(&(mark & self.mask.bits())).cloned();
        if found.is_none() {
            self.write().note_unmarked(Instant::now());
            self.unmarked.notify_one();
        }
        found
    }

    /// The VM ID of the machine that a connection belongs to, or its refusal.
    pub fn identify(&self, port: Option<&GuestPort>) -> Result<Guid, MetadataError> {
        if let Some(machine) = port.and_then(GuestPort::machine) {
            return Ok(machine);
        }
        let table = self.read();
        let unmarked_since = || table.unmarked.map_or(table.incomplete_at, |(first, _)| first.max(table.incomplete_at));
        let since = port.map_or_else(unmarked_since, |port| port.appeared);
        match table.has_owners && since.elapsed() >= SETTLE_TIME {
            true => Err(MetadataError::UnknownPort),
            false => Err(MetadataError::NotOnThisHost { retry_after_secs: RETRY_AFTER_SECS }),
        }
    }

    /// The rules were missing: connections of known guests may have arrived without a mark.
    pub fn note_missing_rules(&self) {
        self.write().incomplete_at = Instant::now();
    }

    /// The marks of all ports, by index.
    pub fn marks(&self) -> Vec<(PortName, u32)> {
        let mut marks: Vec<_> = self.read().by_mark.values().map(|port| (port.port.clone(), port.mark)).collect();
        marks.sort();
        marks
    }

    /// Replaces the ports by those that exist now. Connections of other ports end. Returns whether marks have changed.
    pub fn replace(&self, found: &[PortName]) -> bool {
        let mut table = self.write();
        let found: HashSet<&PortName> = found.iter().collect();
        let before = table.by_mark.len();
        table.by_mark.retain(|_, port| {
            let exists = found.contains(&port.port);
            if !exists {
                port.gone.cancel();
            }
            exists
        });
        let known: HashSet<PortName> = table.by_mark.values().map(|port| port.port.clone()).collect();
        let mut new: Vec<&PortName> = found.into_iter().filter(|port| !known.contains(*port)).collect();
        new.sort();
        let changed = table.by_mark.len() != before || !new.is_empty();
        new.into_iter().for_each(|port| table.add(self.mask, port.clone()));
        changed
    }

    /// Takes note of the machines that own ports. `owners`: names of ports and VM IDs; `checked`: the ports that have existed
    /// the whole time while the owners were read. A port that changes hands gets another mark, and its connections end.
    /// Returns whether marks have changed.
    pub fn assign(&self, owners: &[(String, Guid)], checked: &[PortName]) -> bool {
        let mut table = self.write();
        table.has_owners = true;
        let mut changed = false;
        for port in checked {
            let Some(known) = table.by_mark.values().find(|known| known.port == *port).cloned() else { continue };
            let mut claims = owners.iter().filter(|(name, _)| *name == port.name).map(|(_, machine)| *machine);
            // Two owners: one of them has just stopped, and the next reading will tell which.
            let owner = claims.next().filter(|owner| claims.all(|other| other == *owner));
            match (known.machine.get(), owner) {
                (Some(before), Some(owner)) if *before == owner => {}
                (None, None) => {}
                (None, Some(owner)) => drop(known.machine.set(owner)),
                (Some(_), _) => {
                    known.gone.cancel();
                    table.by_mark.remove(&known.mark);
                    table.add(self.mask, port.clone());
                    let again = table.by_mark.values().find(|known| known.port == *port);
                    again.zip(owner).map(|(again, owner)| again.machine.set(owner));
                    changed = true;
                }
            }
        }
        changed
    }

    fn read(&self) -> RwLockReadGuard<'_, PortTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, PortTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PortTable {
    fn note_unmarked(&mut self, now: Instant) {
        let current = self.unmarked.filter(|(_, last)| now.duration_since(*last) < EPISODE_PAUSE);
        self.unmarked = Some((current.map_or(now, |(first, _)| first), now));
    }

    /// Marks go round, so that none is used again while a connection with it may wait to be accepted.
    fn add(&mut self, mask: MarkMask, port: PortName) {
        let slots = mask.slots();
        let next = (1..=slots).map(|step| (self.last_slot + step - 1) % slots + 1);
        let free = next.into_iter().find(|slot| !self.by_mark.contains_key(&mask.mark(*slot)));
        let Some(slot) = free else {
            tracing::error!(port = port.name, %mask, "all packet marks are in use: set --mark-mask to a mask with more bits");
            return;
        };
        self.last_slot = slot;
        self.incomplete_at = Instant::now();
        let mark = mask.mark(slot);
        let (machine, gone) = (OnceLock::new(), CancellationToken::new());
        self.by_mark.insert(mark, Arc::new(GuestPort { port, mark, appeared: self.incomplete_at, machine, gone }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(index: u32, name: &str) -> PortName {
        PortName { index, name: name.into() }
    }

    /// A table with these ports and their owners.
    fn ports(found: &[(u32, &str, u128)]) -> GuestPorts {
        let table = GuestPorts::new(MarkMask::DEFAULT);
        update(&table, found);
        table
    }

    /// One reading; a machine of 0 stands for none.
    fn update(table: &GuestPorts, found: &[(u32, &str, u128)]) -> bool {
        let names: Vec<PortName> = found.iter().map(|(index, name, _)| port(*index, name)).collect();
        let owned = found.iter().filter(|(.., machine)| *machine != 0);
        let owners: Vec<_> = owned.map(|(_, name, machine)| ((*name).to_owned(), Guid(*machine))).collect();
        let changed = table.replace(&names);
        table.assign(&owners, &names) || changed
    }

    fn mark_of(table: &GuestPorts, index: u32) -> u32 {
        table.marks().iter().find(|(port, _)| port.index == index).unwrap().1
    }

    #[test]
    fn masks_are_adjacent_bits() {
        assert_eq!(
            "0x7f00".parse::<MarkMask>().unwrap_err(),
            "invalid mask '0x7f00': use adjacent bits, at least 8, such as 0x7ff00000"
        );
        for text in ["", "0x", "255", "0x0", "0xf0f0", "0x1ffffffff", "0xff "] {
            assert!(text.parse::<MarkMask>().is_err(), "{text}");
        }
        for text in ["0xff", "0xFFF00000", "0xffffffff", "0x0003fc00"] {
            text.parse::<MarkMask>().unwrap();
        }
    }

    #[test]
    fn a_mark_is_the_machine_of_its_port_and_other_bits_do_not_matter() {
        let table = ports(&[(5, "vnet0", 1), (6, "vnet1", 2)]);
        for (index, machine) in [(5, 1), (6, 2)] {
            let mark = mark_of(&table, index);
            assert_eq!(mark & !MarkMask::DEFAULT.bits(), 0);
            assert_eq!(table.find(mark | 0x42).unwrap().machine(), Some(Guid(machine)));
        }
        assert!(table.find(0).is_none() && table.find(0x42).is_none());
        assert!(!update(&table, &[(5, "vnet0", 1), (6, "vnet1", 2)]), "nothing has changed");
    }

    #[test]
    fn a_name_that_is_used_again_is_another_port() {
        let table = ports(&[(5, "vnet0", 1)]);
        let mark = mark_of(&table, 5);
        let before = table.find(mark).unwrap();
        assert!(update(&table, &[(9, "vnet0", 2)]));
        assert!(before.gone.is_cancelled(), "its connections end");
        assert!(table.find(mark).is_none(), "the mark is not used again at once");
        assert_eq!(table.find(mark_of(&table, 9)).unwrap().machine(), Some(Guid(2)));
    }

    #[test]
    fn a_port_that_changes_hands_gets_another_mark() {
        let table = ports(&[(5, "vnet0", 1)]);
        let before = table.find(mark_of(&table, 5)).unwrap();
        for owner in [0, 2] {
            assert_eq!(update(&table, &[(5, "vnet0", owner)]), owner == 0);
        }
        assert!(before.gone.is_cancelled());
        assert_eq!(table.find(mark_of(&table, 5)).unwrap().machine(), Some(Guid(2)));
    }

    #[test]
    fn a_port_that_two_machines_claim_has_none() {
        let table = ports(&[(5, "vnet0", 0)]);
        let owners = [("vnet0".to_owned(), Guid(1)), ("vnet0".to_owned(), Guid(2))];
        table.assign(&owners, &[port(5, "vnet0")]);
        assert!(table.find(mark_of(&table, 5)).unwrap().machine().is_none());
        table.assign(&owners[1..], &[]);
        assert!(table.find(mark_of(&table, 5)).unwrap().machine().is_none(), "the port was not checked");
    }

    #[test]
    fn a_port_without_a_machine_is_refused_softly_at_first() {
        let table = GuestPorts::new(MarkMask::DEFAULT);
        let status = |ago: Duration| {
            let appeared = Instant::now().checked_sub(ago).unwrap();
            let (machine, gone) = (OnceLock::new(), CancellationToken::new());
            let port = GuestPort { port: port(5, "vnet0"), mark: 1, appeared, machine, gone };
            table.identify(Some(&port)).unwrap_err().status()
        };
        assert_eq!(status(2 * SETTLE_TIME), 503, "the owners of ports are not known yet");
        table.assign(&[], &[]);
        assert_eq!(status(Duration::ZERO), 503);
        assert_eq!(status(SETTLE_TIME - Duration::from_secs(1)), 503);
        assert_eq!(status(SETTLE_TIME), 404);
        assert_eq!(table.identify(None).unwrap_err().status(), 503);
    }

    #[test]
    fn connections_without_a_mark_are_refused_softly_at_first() {
        let table = GuestPorts::new(MarkMask::DEFAULT);
        table.assign(&[], &[]);
        let now = Instant::now();
        let ago = |secs| now.checked_sub(Duration::from_secs(secs)).unwrap();
        table.write().incomplete_at = ago(100);
        let status = || table.identify(None).unwrap_err().status();
        assert!(table.find(0).is_none());
        assert_eq!(status(), 503, "the first one may come from a new port");
        table.write().unmarked = Some((ago(6), ago(1)));
        assert!(table.find(0).is_none());
        assert_eq!(status(), 404, "they go on");
        table.write().unmarked = Some((ago(90), ago(31)));
        assert!(table.find(0).is_none());
        assert_eq!(status(), 503, "another episode");
    }

    #[test]
    fn more_ports_than_marks_stay_without() {
        let table = GuestPorts::new("0xff".parse().unwrap());
        let names: Vec<PortName> = (1..=300).map(|index| port(index, &format!("vnet{index}"))).collect();
        table.replace(&names);
        assert_eq!(table.marks().len(), 255);
        table.replace(&names[255..]);
        assert_eq!(table.marks().len(), 45, "marks of ports that are gone are free again");
    }
}
