//! The nftables script. Pure.

use std::fmt::Write as _;
use std::net::IpAddr;

use forewarn_metadata::{MarkMask, PortName};

/// The table of Forewarn, in the family `bridge`. Operators may have tables of similar names.
pub const TABLE: &str = "forewarn_guests";

/// The priority of the chain: before the rules of bridge filters and of NAT.
const PRIORITY: i32 = -310;

/// Replaces the table, in one transaction. The first two lines remove an earlier table, whether or not there is one.
///
/// Only packets to the endpoint get a mark. Bits of the mask that a packet has already are cleared, so that no rule of
/// another program can make one guest look like another.
pub fn render(endpoints: &[IpAddr], mask: MarkMask, marks: &[(PortName, u32)]) -> String {
    let mut script = format!("table bridge {TABLE}\n{}", remove());
    let elements: Vec<String> = marks.iter().map(|(port, mark)| format!("{} : {mark:#010x}", port.index)).collect();
    let elements = match elements.as_slice() {
        [] => String::new(),
        elements => format!(" elements = {{ {} }};", elements.join(", ")),
    };
    let _ = writeln!(script, "table bridge {TABLE} {{");
    let _ = writeln!(script, "  map ports {{ type iface_index : mark;{elements} }}");
    let _ = writeln!(script, "  chain prerouting {{");
    let _ = writeln!(script, "    type filter hook prerouting priority {PRIORITY}; policy accept;");
    for endpoint in endpoints {
        let family = if endpoint.is_ipv4() { "ip" } else { "ip6" };
        let _ = writeln!(script, "    {family} daddr {endpoint} jump identify");
    }
    let _ = writeln!(script, "  }}\n  chain identify {{");
    let _ = writeln!(script, "    meta mark set meta mark and {:#010x}", !mask.bits());
    let _ = writeln!(script, "    meta mark set meta iif map @ports\n  }}\n}}");
    script
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
        let endpoints = ["169.254.169.254".parse().unwrap(), "fd00::254".parse().unwrap()];
        let port = |index: u32| PortName { index, name: format!("vnet{index}") };
        let marks = [(port(5), 0x10_0000), (port(12), 0x20_0000)];
        let expected = "\
table bridge forewarn_guests
delete table bridge forewarn_guests
table bridge forewarn_guests {
  map ports { type iface_index : mark; elements = { 5 : 0x00100000, 12 : 0x00200000 }; }
  chain prerouting {
    type filter hook prerouting priority -310; policy accept;
    ip daddr 169.254.169.254 jump identify
    ip6 daddr fd00::254 jump identify
  }
  chain identify {
    meta mark set meta mark and 0x800fffff
    meta mark set meta iif map @ports
  }
}
";
        assert_eq!(render(&endpoints, MarkMask::DEFAULT, &marks), expected);
        assert!(render(&endpoints, MarkMask::DEFAULT, &[]).contains("map ports { type iface_index : mark; }"));
    }
}
