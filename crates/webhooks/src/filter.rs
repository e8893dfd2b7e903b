//! The filter of a webhook. An empty list matches everything, except that no topics mean events only.

use forewarn_api_types::WebhookTopic;
use forewarn_wire::cloudevent::Stage;
use forewarn_wire::document::Kind;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Empty: events only.
    pub topics: Vec<WebhookTopic>,
    pub kinds: Vec<Kind>,
    pub stages: Vec<Stage>,
    /// Names, without regard to case. An event matches if one of its machines is listed.
    pub machines: Vec<String>,
    /// Names, without regard to case.
    pub resource_groups: Vec<String>,
}

impl Filter {
    /// Whether messages on this topic are sent.
    pub fn covers(&self, topic: WebhookTopic) -> bool {
        if self.topics.is_empty() { topic == WebhookTopic::Events } else { self.topics.contains(&topic) }
    }

    pub fn matches(&self, kind: Kind, stage: Stage, machines: &[String]) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (self.stages.is_empty() || self.stages.contains(&stage))
            && (self.machines.is_empty() || machines.iter().any(|machine| contains(&self.machines, machine)))
    }

    pub fn matches_resource_group(&self, name: &str) -> bool {
        self.resource_groups.is_empty() || contains(&self.resource_groups, name)
    }
}

fn contains(names: &[String], name: &str) -> bool {
    names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_filter_matches_everything() {
        let filter = Filter::default();
        assert!(filter.matches(Kind::Freeze, Stage::Canceled, &[]) && filter.matches_resource_group("any"));
    }

    #[test]
    fn only_events_are_reported_unless_topics_are_listed() {
        let filter = |topics| Filter { topics, ..Filter::default() };
        assert!(filter(vec![]).covers(WebhookTopic::Events) && !filter(vec![]).covers(WebhookTopic::Rollouts));
        let rollouts = filter(vec![WebhookTopic::Rollouts]);
        assert!(rollouts.covers(WebhookTopic::Rollouts) && !rollouts.covers(WebhookTopic::Events));
    }

    #[test]
    fn every_non_empty_list_must_match() {
        let filter = Filter {
            topics: Vec::new(),
            kinds: vec![Kind::Reboot],
            stages: vec![Stage::Started],
            machines: vec!["Web1".into()],
            resource_groups: vec!["Shop".into()],
        };
        let machines = ["web1".to_owned(), "web2".to_owned()];
        assert!(filter.matches(Kind::Reboot, Stage::Started, &machines));
        assert!(!filter.matches(Kind::Freeze, Stage::Started, &machines));
        assert!(!filter.matches(Kind::Reboot, Stage::Scheduled, &machines));
        assert!(!filter.matches(Kind::Reboot, Stage::Started, &machines[1..]));
        assert!(filter.matches_resource_group("shop") && !filter.matches_resource_group("other"));
    }
}
