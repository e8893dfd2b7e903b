//! Parses paths: an optional machine in front, then one of six resources.

use std::borrow::Cow;

#[derive(Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The machine that the path names with `/vm/…`.
    pub machine: Option<NamedMachine<'a>>,
    pub route: Route<'a>,
}

/// A machine as a path or the configuration names it: `vmId`, `name` or `group/name`.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedMachine<'a> {
    pub group: Option<Cow<'a, str>>,
    pub name: Cow<'a, str>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Route<'a> {
    ScheduledEvents,
    /// The path below `/metadata/instance`.
    Instance(&'a str),
    Versions,
    /// A token for the machine's identity.
    IdentityToken,
    /// The signed document.
    Attested,
    Root,
}

/// Parses a path; None for unknown paths.
pub fn parse(path: &str, prefix_allowed: bool) -> Option<Target<'_>> {
    if let Some(route) = parse_route(path) {
        return Some(Target { machine: None, route });
    }
    if !prefix_allowed {
        return None;
    }
    let (machine, rest) = parse_prefix(strip_prefix(path, "/vm/")?)?;
    Some(Target { machine: Some(machine), route: parse_route(rest)? })
}

impl<'a> NamedMachine<'a> {
    /// Parses a name from the configuration: the same grammar, without percent-encoding.
    pub fn parse(text: &'a str) -> NamedMachine<'a> {
        match text.split_once('/') {
            Some((group, name)) => NamedMachine { group: Some(group.into()), name: name.into() },
            None => NamedMachine { group: None, name: text.into() },
        }
    }
}

impl std::fmt::Display for NamedMachine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.group {
            Some(group) => write!(f, "{group}/{}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

fn parse_route(path: &str) -> Option<Route<'_>> {
    let rest = strip_prefix(path, "/metadata")?;
    if rest.is_empty() || rest == "/" {
        return Some(Route::Root);
    }
    if let Some(end) = strip_prefix(rest, "/scheduledevents") {
        return is_end(end).then_some(Route::ScheduledEvents);
    }
    if let Some(end) = strip_prefix(rest, "/versions") {
        return is_end(end).then_some(Route::Versions);
    }
    if let Some(end) = strip_prefix(rest, "/identity/oauth2/token") {
        return is_end(end).then_some(Route::IdentityToken);
    }
    if let Some(end) = strip_prefix(rest, "/attested/document") {
        return is_end(end).then_some(Route::Attested);
    }
    let below = strip_prefix(rest, "/instance")?;
    (below.is_empty() || below.starts_with('/')).then_some(Route::Instance(below))
}

/// `name/metadata…` or `group/name/metadata…`; the rest begins with the slash before `metadata`.
fn parse_prefix(path: &str) -> Option<(NamedMachine<'_>, &str)> {
    let (first, after_first) = path.split_once('/')?;
    if let Some((second, after_second)) = after_first.split_once('/')
        && starts_with_metadata(after_second)
    {
        let rest = &path[path.len() - after_second.len() - 1..];
        return Some((NamedMachine { group: Some(decode(first)?), name: decode(second)? }, rest));
    }
    let rest = &path[first.len()..];
    starts_with_metadata(after_first).then_some(())?;
    Some((NamedMachine { group: None, name: decode(first)? }, rest))
}

fn starts_with_metadata(path: &str) -> bool {
    strip_prefix(path, "metadata").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_end(rest: &str) -> bool {
    rest.is_empty() || rest == "/"
}

/// The rest of the path after `prefix`, which is compared case-insensitively.
fn strip_prefix<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let head = path.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &path[prefix.len()..])
}

/// A percent-decoded segment; None if it is empty or not UTF-8.
fn decode(segment: &str) -> Option<Cow<'_, str>> {
    if segment.is_empty() {
        return None;
    }
    if !segment.contains('%') {
        return Some(Cow::Borrowed(segment));
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [byte, tail @ ..] = rest {
        match (byte, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digit = |digit: &u8| char::from(*digit).to_digit(16);
                bytes.push((digit(high)? << 4 | digit(low)?) as u8);
                rest = tail;
            }
            (b'%', _) => return None,
            _ => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: &str) {
        let shown = match parse(path, true) {
            None => "nothing".to_owned(),
            Some(Target { machine, route }) => {
                let machine = machine.map_or("-".to_owned(), |machine| machine.to_string());
                format!("{machine} {route:?}")
            }
        };
        assert_eq!(shown, expected, "{path}");
    }

    #[test]
    fn resources_are_found_in_any_case() {
        check("/metadata/scheduledevents", "- ScheduledEvents");
        check("/Metadata/scheduledEvents/", "- ScheduledEvents");
        check("/metadata/versions", "- Versions");
        check("/metadata/attested/Document", "- Attested");
        check("/metadata", "- Root");
        check("/metadata/", "- Root");
        check("/metadata/instance", "- Instance(\"\")");
        check("/metadata/INSTANCE/compute/vmId", "- Instance(\"/compute/vmId\")");
    }

    #[test]
    fn other_paths_are_unknown() {
        for path in [
            "/",
            "",
            "*",
            "/metadat",
            "/metadatas",
            "/metadata/scheduledeventsx",
            "/metadata/scheduledevents/x",
            "/metadata/scheduledevents//",
            "/metadata/instances",
            "/metadata/latest/scheduledevents",
            "//metadata",
            "/api/v1/machines",
            "/vm/",
            "/vm/a",
            "/vm//metadata",
            "/vm/a/b/c/metadata",
            "/vm/a%f/metadata",
            "/vm/%ff/metadata",
            "/métadata",
        ] {
            check(path, "nothing");
        }
    }

    #[test]
    fn a_machine_can_be_named_in_front() {
        check("/vm/web-1/metadata/scheduledevents", "web-1 ScheduledEvents");
        check("/VM/rg/web-1/metadata/versions", "rg/web-1 Versions");
        check("/vm/a%20b/metadata", "a b Root");
        check("/vm/metadata/metadata/instance/x", "metadata Instance(\"/x\")");
        check("/vm/rg/metadata/metadata/instance", "rg/metadata Instance(\"\")");
        assert_eq!(parse("/vm/a/metadata", false), None);
    }
}
