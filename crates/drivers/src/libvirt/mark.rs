//! The record in a domain's metadata: which order is in progress, and how far it got.
//!
//! The record travels with the domain and survives resets, restarts of libvirtd, and migrations. A copy of it in a clone,
//! a reverted snapshot or at the target of a migration means nothing: the journal decides.

use forewarn_core::{Guid, Timestamp};

use crate::order::OrderId;

/// The namespace of the record.
pub const URI: &str = "https://forewarn.dev/libvirt";

/// The prefix under which libvirt declares the namespace.
pub const KEY: &str = "forewarn";

/// How far an order got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Begun,
    /// The machine is paused.
    Held,
    /// The machine is shut off.
    Down,
    /// Only cleanup is left: the machine runs, or can run again.
    Done,
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Begun => "begun",
            Stage::Held => "held",
            Stage::Down => "down",
            Stage::Done => "done",
        }
    }

    pub fn parse(text: &str) -> Option<Stage> {
        [Stage::Begun, Stage::Held, Stage::Down, Stage::Done].into_iter().find(|stage| stage.as_str() == text)
    }
}

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

pub fn parse_guid(text: &str) -> Option<Guid> {
    let digits = text.replace('-', "");
    let is_guid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_guid.then(|| u128::from_str_radix(&digits, 16).ok().map(Guid)).flatten()
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
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let id = OrderId { event: Guid::random_shaped(7), machine: Guid::random_shaped(8) };
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
