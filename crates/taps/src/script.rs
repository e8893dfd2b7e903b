//! The nftables script. Pure.

use std::fmt::Write as _;
use std::net::IpAddr;

use forewarn_metadata::{MarkMask, PortName};

use crate::bridges::EndpointPort;

/// The table of Forewarn, in the family `bridge`. Operators may have tables of similar names.
pub const TABLE: &str = "forewarn_guests";

/// The priority of the chain: before the rules of bridge filters and of NAT.
const PRIORITY: i32 = -310;

/// Replaces the table, in one transaction. The first two lines remove an earlier table, whether or not there is one.
///
/// Only packets to the endpoint get a mark. Bits of the mask that a packet has already are cleared, so that no rule of
/// another program can make one guest look like another.
///
/// `own`: the ports whose guests stay at the endpoint of this host. A guest that was migrated while it runs still sends to the
/// MAC address of the host that it has left, so its packets to the endpoint get the MAC address of their own bridge. ARP
/// requests for the endpoint stay on this host: otherwise all hosts would answer, and guests would turn to another host
/// whenever the rules are absent, for example while Forewarn restarts.
pub fn render(endpoints: &[IpAddr], mask: MarkMask, marks: &[(PortName, u32)], own: &[EndpointPort]) -> String {
    let mut script = format!("table bridge {TABLE}\n{}", remove());
    let marks = elements(marks.iter().map(|(port, mark)| format!("{} : {mark:#010x}", port.index)));
    let bridges = elements(own.iter().map(|port| format!("{} : {}", port.index, port.bridge_mac)));
    let own = elements(own.iter().map(|port| port.index.to_string()));
    let _ = writeln!(script, "table bridge {TABLE} {{");
    let _ = writeln!(script, "  map ports {{ type iface_index : mark;{marks} }}");
    let _ = writeln!(script, "  map bridges {{ type iface_index : ether_addr;{bridges} }}");
    let _ = writeln!(script, "  set own {{ type iface_index;{own} }}");
    let _ = writeln!(script, "  chain prerouting {{");
    let _ = writeln!(script, "    type filter hook prerouting priority {PRIORITY}; policy accept;");
    for endpoint in endpoints {
        let family = if endpoint.is_ipv4() { "ip" } else { "ip6" };
        let _ = writeln!(script, "    {family} daddr {endpoint} jump identify");
    }
    let _ = writeln!(script, "  }}\n  chain identify {{");
    let _ = writeln!(script, "    meta mark set meta mark and {:#010x}", !mask.bits());
    let _ = writeln!(script, "    meta mark set meta iif map @ports");
    let _ = writeln!(script, "    ether daddr set meta iif map @bridges meta pkttype set host");
    let _ = writeln!(script, "  }}\n  chain forward {{");
    let _ = writeln!(script, "    type filter hook forward priority filter; policy accept;");
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.is_ipv4()) {
        let _ = writeln!(script, "    arp daddr ip {endpoint} meta iif @own drop");
    }
    script + "  }\n}\n"
}

/// The elements of a map or set. An empty list is a syntax error.
fn elements(elements: impl Iterator<Item = String>) -> String {
    let elements: Vec<String> = elements.collect();
    if elements.is_empty() { String::new() } else { format!(" elements = {{ {} }};", elements.join(", ")) }
}

/// Removes the table.
pub fn remove() -> String {
    format!("delete table bridge {TABLE}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_replaces_the_table_and_maps_ports_by_index() {
        let own = [EndpointPort { index: 5, bridge_mac: "52:54:00:00:00:fe".into() }];
        let endpoints = ["169.254.169.254".parse().unwrap(), "fd00::254".parse().unwrap()];
        let port = |index: u32| PortName { index, name: format!("vnet{index}") };
        let marks = [(port(5), 0x10_0000), (port(12), 0x20_0000)];
        let expected = "\
table bridge forewarn_guests
delete table bridge forewarn_guests
table bridge forewarn_guests {
  map ports { type iface_index : mark; elements = { 5 : 0x00100000, 12 : 0x00200000 }; }
  map bridges { type iface_index : ether_addr; elements = { 5 : 52:54:00:00:00:fe }; }
  set own { type iface_index; elements = { 5 }; }
  chain prerouting {
    type filter hook prerouting priority -310; policy accept;
    ip daddr 169.254.169.254 jump identify
    ip6 daddr fd00::254 jump identify
  }
  chain identify {
    meta mark set meta mark and 0x800fffff
    meta mark set meta iif map @ports
    ether daddr set meta iif map @bridges meta pkttype set host
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    arp daddr ip 169.254.169.254 meta iif @own drop
  }
}
";
        assert_eq!(render(&endpoints, MarkMask::DEFAULT, &marks, &own), expected);
        let empty = render(&endpoints, MarkMask::DEFAULT, &[], &[]);
        assert!(empty.contains("map ports { type iface_index : mark; }"), "{empty}");
        assert!(empty.contains("set own { type iface_index; }"), "{empty}");
    }
}
