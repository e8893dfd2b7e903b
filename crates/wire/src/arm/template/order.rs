//! The order in which resources are created: dependencies first, otherwise in the order of the template.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::error::{Problem, TemplateError};
use super::{Dependency, Draft, Outcome, PlannedResource, Target};
use crate::arm::id::ResourceId;

/// The resources to create, each after its dependencies.
pub(super) fn sort_resources(drafts: Vec<Draft>, target: &Target) -> Result<Vec<PlannedResource>, TemplateError> {
    let index = Index::new(&drafts, target)?;
    let mut needs: Vec<BTreeSet<usize>> = Vec::new();
    for draft in &drafts {
        let mut needed = BTreeSet::new();
        for dependency in &draft.depends_on {
            needed.extend(index.find(dependency, draft)?);
        }
        needs.push(needed);
    }
    let order = sort_indexes(&needs).map_err(|circle| {
        let ids = circle.iter().map(|&index| drafts[index].resource.id.to_string()).collect();
        drafts[circle[0]].error(&drafts[circle[0]].place, &Problem::Cycle { ids })
    })?;
    let ids: Vec<ResourceId> = drafts.iter().map(|draft| draft.resource.id.clone()).collect();
    let created: Vec<bool> = drafts.iter().map(|draft| draft.outcome == Outcome::Created).collect();
    let mut resources: Vec<Option<PlannedResource>> = drafts.into_iter().map(|draft| Some(draft.resource)).collect();
    let in_order = order.into_iter().filter(|&index| created[index]).filter_map(|index| {
        let mut resource = resources[index].take()?;
        let needed = needs[index].iter().filter(|&&needed| created[needed]);
        resource.depends_on = needed.map(|&needed| ids[needed].clone()).collect();
        Some(resource)
    });
    Ok(in_order.collect())
}

/// Lookup of resources by the ways in which `dependsOn` can name them.
struct Index<'d> {
    target: &'d Target,
    by_id: BTreeMap<&'d ResourceId, usize>,
    /// By the last name, or by the name of the loop, in lower case.
    by_name: BTreeMap<String, Vec<usize>>,
}

impl<'d> Index<'d> {
    fn new(drafts: &'d [Draft], target: &'d Target) -> Result<Index<'d>, TemplateError> {
        let mut index = Index { target, by_id: BTreeMap::new(), by_name: BTreeMap::new() };
        for (number, draft) in drafts.iter().enumerate() {
            let id = &draft.resource.id;
            // A resource may be defined twice if at most one condition is true.
            match index.by_id.get(id).map(|&other| drafts[other].outcome) {
                Some(Outcome::Created) if draft.outcome == Outcome::Created => {
                    return Err(draft.error(&format!("{}.name", draft.place), &Problem::Twice { id: id.to_string() }));
                }
                Some(Outcome::Created) => {}
                Some(Outcome::Skipped) | None => {
                    index.by_id.insert(id, number);
                }
            }
            let name = id.name().map(|name| name.as_str().to_ascii_lowercase());
            for name in name.into_iter().chain(draft.copy.iter().map(|name| name.to_ascii_lowercase())) {
                index.by_name.entry(name).or_default().push(number);
            }
        }
        Ok(index)
    }

    /// The resources that an entry refers to: an ID, a `type/name`, a name, or the name of a loop.
    fn find(&self, dependency: &Dependency, of: &Draft) -> Result<Vec<usize>, TemplateError> {
        let Target { subscription, group, .. } = self.target;
        let given = &dependency.given;
        let found = match given.contains('/') {
            false => self.by_name.get(&given.to_ascii_lowercase()).cloned(),
            true => {
                let relative = format!("/subscriptions/{subscription}/resourceGroups/{group}/providers/{given}");
                let id = ResourceId::parse(if given.starts_with('/') { given } else { &relative });
                id.ok().and_then(|id| self.by_id.get(&id).map(|&index| vec![index]))
            }
        };
        found.ok_or_else(|| of.error(&dependency.place, &Problem::NotInTemplate { given: given.clone() }))
    }
}

/// Sorts indexes so that each comes after its needs, otherwise in ascending order. Fails with a cycle.
fn sort_indexes(needs: &[BTreeSet<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut missing: Vec<usize> = needs.iter().map(BTreeSet::len).collect();
    let mut needed_by = vec![Vec::new(); needs.len()];
    for (index, needed) in needs.iter().enumerate() {
        for &other in needed {
            needed_by[other].push(index);
        }
    }
    let mut ready: BinaryHeap<_> = (0..needs.len()).filter(|&index| missing[index] == 0).map(Reverse).collect();
    let mut order = Vec::new();
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &other in &needed_by[index] {
            missing[other] -= 1;
            if missing[other] == 0 {
                ready.push(Reverse(other));
            }
        }
    }
    if order.len() == needs.len() { Ok(order) } else { Err(find_cycle(needs, &missing)) }
}

/// Follows the needs of an item that could not be placed until one repeats.
fn find_cycle(needs: &[BTreeSet<usize>], missing: &[usize]) -> Vec<usize> {
    let stuck = |&index: &usize| missing[index] > 0;
    let mut way = Vec::new();
    let mut next = (0..needs.len()).find(stuck);
    while let Some(index) = next {
        if let Some(start) = way.iter().position(|&seen| seen == index) {
            return way.split_off(start);
        }
        way.push(index);
        next = needs[index].iter().copied().find(|index| stuck(index));
    }
    way
}
