//! DHCP option 245 in the lease files of DHCP clients.
//!
//! | client | directory | format |
//! |---|---|---|
//! | dhclient | `/var/lib/dhcp`, `/var/lib/dhclient`, `/var/lib/NetworkManager` | `option unknown-245 a8:3f:81:10;`, or a string with escapes when the bytes are text |
//! | systemd-networkd | `/run/systemd/netif/leases` | `OPTION_245=a83f8110` |
//! | NetworkManager | `/run/NetworkManager/devices`, `/var/lib/NetworkManager` | `dhcp4.private_245=a8:3f:81:10`, `OPTION_245=a83f8110` |
//!
//! Every format is accepted in every file, because a file name does not always tell which client wrote the file. A
//! client appends renewed leases, so the last entry of a file counts.

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

/// Limit per file; of a larger one the end is read. dhclient appends about 700 bytes per lease and truncates the file
/// from time to time.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Limit per directory. There is one file per interface, including some that no longer exist.
const FILES_MAX: usize = 256;

/// Finds the addresses in the lease files below `root`, newest file first.
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
    // Sort files with the same time by name, so that the order is deterministic.
    files.sort_by(|(time, path), (other_time, other_path)| other_time.cmp(time).then(path.cmp(other_path)));
    files.into_iter().filter_map(|(_, path)| parse_address(&read(&path)?).map(|address| (path, address))).collect()
}

/// Parses the address in the last entry that has one.
pub(super) fn parse_address(text: &str) -> Option<Ipv4Addr> {
    text.lines().rev().find_map(|line| parse_value(option_value(line)?))
}

/// Value of option 245, if the line has it.
fn option_value(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = ["option ", "dhcp4."].iter().find_map(|prefix| line.strip_prefix(prefix)).unwrap_or(line).trim_start();
    let names = ["unknown-245", "OPTION_245", "private_245", "unknown_245", "option-245", "private-245"];
    let rest = names.iter().find_map(|name| rest.strip_prefix(name))?;
    rest.strip_prefix([' ', '\t', '=']).map(|rest| rest.trim_start_matches([' ', '=', '\t']))
}

fn parse_value(text: &str) -> Option<Ipv4Addr> {
    let text = text.trim().trim_end_matches(';').trim_end();
    if let Some(quoted) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        return to_address(&unescape(quoted)?).or_else(|| parse_plain(quoted));
    }
    parse_plain(text)
}

fn parse_plain(text: &str) -> Option<Ipv4Addr> {
    let bytes: Option<Vec<u8>> = match text {
        _ if text.contains('.') => return text.parse().ok(),
        // dhclient omits leading zeros: a:58:0:1
        _ if text.contains(':') => text.split(':').map(|part| parse_hex(part, 1..=2)).collect(),
        _ if text.len() == 8 && text.is_ascii() => {
            (0..4).map(|at| parse_hex(&text[at * 2..at * 2 + 2], 2..=2)).collect()
        }
        _ => None,
    };
    to_address(&bytes?)
}

fn to_address(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from)
}

fn parse_hex(digits: &str, count: std::ops::RangeInclusive<usize>) -> Option<u8> {
    let good = count.contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    good.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// Decodes dhclient's escapes: `\` and three octal digits, or `\` and the byte itself.
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

/// Reads a lease file. Lease files contain strings from the network, which need not be UTF-8.
fn read(path: &Path) -> Option<String> {
    use std::io::Seek;
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(std::io::SeekFrom::Start(length.saturating_sub(FILE_BYTES_MAX))).ok()?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
