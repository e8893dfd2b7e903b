//! Which of all that happens a web hook is told. An empty list is all.

use forewarn_wire::cloudevent::Stage;
use forewarn_wire::document::Kind;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub kinds: Vec<Kind>,
    pub stages: Vec<Stage>,
    /// Names, without regard to case. An event is told when one of its machines is among them.
    pub machines: Vec<String>,
    /// Names, without regard to case.
    pub resource_groups: Vec<String>,
}

impl Filter {
    pub fn takes(&self, kind: Kind, stage: Stage, machines: &[String]) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (self.stages.is_empty() || self.stages.contains(&stage))
            && (self.machines.is_empty() || machines.iter().any(|machine| has(&self.machines, machine)))
    }

    pub fn takes_resource_group(&self, name: &str) -> bool {
        self.resource_groups.is_empty() || has(&self.resource_groups, name)
    }
}

fn has(names: &[String], name: &str) -> bool {
    names.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_filter_takes_everything() {
        let filter = Filter::default();
        assert!(filter.takes(Kind::Freeze, Stage::Canceled, &[]) && filter.takes_resource_group("any"));
    }

    #[test]
    fn every_list_that_is_not_empty_must_agree() {
        let filter = Filter {
            kinds: vec![Kind::Reboot],
            stages: vec![Stage::Started],
            machines: vec!["Web1".into()],
            resource_groups: vec!["Shop".into()],
        };
        let machines = ["web1".to_owned(), "web2".to_owned()];
        assert!(filter.takes(Kind::Reboot, Stage::Started, &machines));
        assert!(!filter.takes(Kind::Freeze, Stage::Started, &machines));
        assert!(!filter.takes(Kind::Reboot, Stage::Scheduled, &machines));
        assert!(!filter.takes(Kind::Reboot, Stage::Started, &machines[1..]));
        assert!(filter.takes_resource_group("shop") && !filter.takes_resource_group("other"));
    }
}
