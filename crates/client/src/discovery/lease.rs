//! Option 245 in the lease files of DHCP clients.
//!
//! | who | where | how |
//! |---|---|---|
//! | dhclient | `/var/lib/dhcp`, `/var/lib/dhclient`, `/var/lib/NetworkManager` | `option unknown-245 a8:3f:81:10;`, or a string with escapes when the bytes are text |
//! | systemd-networkd | `/run/systemd/netif/leases` | `OPTION_245=a83f8110` |
//! | NetworkManager | `/run/NetworkManager/devices`, `/var/lib/NetworkManager` | `dhcp4.private_245=a8:3f:81:10`, `OPTION_245=a83f8110` |
//!
//! All forms are understood in all files: who wrote a file is not always what its name says. A client
//! that renews its lease writes it again at the end, so the last entry of a file counts.

use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const DIRECTORIES: [&str; 6] = [
    "run/systemd/netif/leases",
    "run/NetworkManager/devices",
    "var/lib/NetworkManager",
    "var/lib/dhcp",
    "var/lib/dhclient",
    "var/lib/dhcpcd",
];

/// dhclient appends to its file and starts it anew once in a while; a lease has some 700 bytes. Of a
/// larger file the end is read.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Machines have a file for each interface and, with luck, for no interface that is gone.
const FILES_MAX: usize = 256;

/// What the lease files below `root` say, the newest file first.
pub(super) fn find(root: &Path) -> Vec<(PathBuf, Ipv4Addr)> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for directory in DIRECTORIES {
        let Ok(entries) = std::fs::read_dir(root.join(directory)) else { continue };
        let dated = entries.flatten().filter_map(|entry| {
            let metadata = entry.metadata().ok().filter(|metadata| metadata.is_file())?;
            Some((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path()))
        });
        files.extend(dated.take(FILES_MAX));
    }
    // Names decide between files of the same moment, so that the order is always the same.
    files.sort_by(|(time, path), (other_time, other_path)| other_time.cmp(time).then(path.cmp(other_path)));
    files.into_iter().filter_map(|(_, path)| address(&read(&path)?).map(|address| (path, address))).collect()
}

/// The address in the last entry that has one.
pub(super) fn address(text: &str) -> Option<Ipv4Addr> {
    text.lines().rev().find_map(|line| value(option(line)?))
}

/// The value of option 245, when the line has it.
fn option(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = ["option ", "dhcp4."].iter().find_map(|prefix| line.strip_prefix(prefix)).unwrap_or(line).trim_start();
    let names = ["unknown-245", "OPTION_245", "private_245", "unknown_245", "option-245", "private-245"];
    let rest = names.iter().find_map(|name| rest.strip_prefix(name))?;
    rest.strip_prefix([' ', '\t', '=']).map(|rest| rest.trim_start_matches([' ', '=', '\t']))
}

fn value(text: &str) -> Option<Ipv4Addr> {
    let text = text.trim().trim_end_matches(';').trim_end();
    if let Some(quoted) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        return four(&unescape(quoted)?).or_else(|| plain(quoted));
    }
    plain(text)
}

fn plain(text: &str) -> Option<Ipv4Addr> {
    let bytes: Option<Vec<u8>> = match text {
        _ if text.contains('.') => return text.parse().ok(),
        // dhclient leaves out leading zeros: a:58:0:1
        _ if text.contains(':') => text.split(':').map(|part| hex(part, 1..=2)).collect(),
        _ if text.len() == 8 && text.is_ascii() => (0..4).map(|at| hex(&text[at * 2..at * 2 + 2], 2..=2)).collect(),
        _ => None,
    };
    four(&bytes?)
}

fn four(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from)
}

fn hex(digits: &str, count: std::ops::RangeInclusive<usize>) -> Option<u8> {
    let good = count.contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    good.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// The bytes of a string of dhclient: `\` and three octal digits, or `\` and the byte itself.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'\\' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let octal = after.get(..3).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match octal {
            Some(digits) => {
                let number = digits.iter().fold(0u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
                bytes.push(u8::try_from(number).ok()?);
                rest = &after[3..];
            }
            None => {
                bytes.push(*after.first()?);
                rest = &after[1..];
            }
        }
    }
    Some(bytes)
}

/// Lease files hold strings from the network, so not all of it need be text.
fn read(path: &Path) -> Option<String> {
    use std::io::Seek;
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(std::io::SeekFrom::Start(length.saturating_sub(FILE_BYTES_MAX))).ok()?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
