//! The record in a domain's metadata: which order is in progress, and how far it got.
//!
//! The record travels with the domain and survives resets, restarts of libvirtd, and migrations. A copy of it in a clone,
//! a reverted snapshot or at the target of a migration means nothing: the journal decides.

use std::collections::BTreeMap;

use forewarn_core::Timestamp;

use crate::journaled::Stage;
use crate::order::{OrderId, parse_guid};

/// The namespace of the record.
pub const URI: &str = "https://forewarn.dev/libvirt";

/// The prefix under which libvirt declares the namespace.
pub const KEY: &str = "forewarn";

/// The record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub id: OrderId,
    pub term: u64,
    pub stage: Stage,
    /// When this stage was reached.
    pub since: Timestamp,
    /// The host that wrote the record.
    pub source: String,
    /// The host that the machine moves to.
    pub target: Option<String>,
}

impl Mark {
    /// The element, without a namespace: libvirt adds it.
    pub fn to_xml(&self) -> String {
        let target = self.target.as_deref().map(|target| format!(" target=\"{}\"", escape(target)));
        format!(
            "<event id=\"{}\" machine=\"{}\" term=\"{}\" step=\"{}\" since=\"{}\" source=\"{}\"{}/>",
            self.id.event,
            self.id.machine,
            self.term,
            self.stage.as_str(),
            self.since.0,
            escape(&self.source),
            target.unwrap_or_default(),
        )
    }

    /// None if the element is not one of ours.
    pub fn parse(xml: &str) -> Option<Mark> {
        let id =
            OrderId { event: parse_guid(&attribute(xml, "id")?)?, machine: parse_guid(&attribute(xml, "machine")?)? };
        Some(Mark {
            id,
            term: attribute(xml, "term")?.parse().ok()?,
            stage: Stage::parse(&attribute(xml, "step")?)?,
            since: Timestamp(attribute(xml, "since")?.parse().ok()?),
            source: attribute(xml, "source")?,
            target: attribute(xml, "target"),
        })
    }
}

/// The value of an attribute of the first element.
pub fn attribute(xml: &str, name: &str) -> Option<String> {
    let element = xml.split_once('>').map_or(xml, |(element, _)| element);
    for quote in ['"', '\''] {
        let start = format!(" {name}={quote}");
        if let Some((_, rest)) = element.split_once(&start) {
            return rest.split_once(quote).map(|(value, _)| unescape(value));
        }
    }
    None
}

/// The attributes of the first element, without declarations of namespaces.
pub fn attributes(xml: &str) -> BTreeMap<String, String> {
    let element = xml.split_once('>').map_or(xml, |(element, _)| element);
    let mut rest = element.split_once(char::is_whitespace).map_or("", |(_, rest)| rest);
    let mut found = BTreeMap::new();
    while let Some((name, after)) = rest.split_once('=') {
        let Some(quote) = after.chars().next().filter(|quote| matches!(quote, '"' | '\'')) else { break };
        let Some((value, after)) = after[1..].split_once(quote) else { break };
        let name = name.trim();
        if name != "xmlns" && !name.starts_with("xmlns:") {
            found.insert(name.to_owned(), unescape(value));
        }
        rest = after;
    }
    found
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

fn unescape(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use forewarn_core::Guid;

    use super::*;

    #[test]
    fn attributes_are_those_of_the_first_element() {
        let found = attributes("<a:labels xmlns:a=\"uri\" tier=\"web\" note='a \"b\" = &lt;c&gt;'/><b other=\"1\"/>");
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, [("note", "a \"b\" = <c>"), ("tier", "web")]);
        for xml in ["", "<labels/>", "<labels tier", "<labels tier=x>"] {
            assert!(attributes(xml).is_empty(), "{xml}");
        }
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let id = OrderId { event: Guid::from_random_bits(7), machine: Guid::from_random_bits(8) };
        let mut mark = Mark {
            id,
            term: 4,
            stage: Stage::Held,
            since: Timestamp(12),
            source: "a&\"<b".into(),
            target: Some("host2".into()),
        };
        assert_eq!(Mark::parse(&mark.to_xml()), Some(mark.clone()));
        mark.target = None;
        assert_eq!(
            Mark::parse(&mark.to_xml().replace('"', "'").replace("&quot;", "&#34;")).map(|mark| mark.id),
            Some(id)
        );
        for xml in ["", "<event/>", "<event id=\"x\"/>", "<other id='1'", &mark.to_xml().replace("held", "new")] {
            assert_eq!(Mark::parse(xml), None, "{xml}");
        }
    }
}
