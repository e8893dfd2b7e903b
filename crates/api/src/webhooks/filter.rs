//! The filter of a webhook. An empty list matches everything.

use forewarn_wire::cloudevent::Stage;
use forewarn_wire::document::Kind;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub kinds: Vec<Kind>,
    pub stages: Vec<Stage>,
    /// Names, without regard to case. An event matches if one of its machines is listed.
    pub machines: Vec<String>,
    /// Names, without regard to case.
    pub resource_groups: Vec<String>,
}

impl Filter {
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
    fn every_non_empty_list_must_match() {
        let filter = Filter {
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
