//! The filter of the list of operations.

use forewarn_api_types::{OperationKind, OperationPhase, Word};
use forewarn_core::{GroupId, MachineId, Name, Operation, Region, RolloutId, ScopeOwner};
use forewarn_render::{render_operation_kind, render_operation_phase};
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;
use super::names;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub struct OperationsQuery {
    /// Only operations in this state.
    #[param(inline, value_type = Option<OperationPhase>)]
    pub state: Option<String>,
    /// Only operations of this kind.
    #[param(inline, value_type = Option<OperationKind>)]
    pub kind: Option<String>,
    /// Only operations with an event of this machine.
    pub machine: Option<String>,
    /// Only operations with an event on this host, or with this host as their target.
    pub host: Option<String>,
    /// Only operations with an event of this availability set, cloud service or scale set.
    pub group: Option<String>,
    /// Only operations that this rollout requested.
    pub rollout: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,15}\\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")]
    pub after: Option<String>,
}

/// The conditions for an operation to be listed. Names were resolved, so that an unknown one is an error and not an empty list.
pub struct OperationFilter {
    state: Option<OperationPhase>,
    kind: Option<OperationKind>,
    machine: Option<MachineId>,
    host: Option<Name>,
    group: Option<GroupId>,
    rollout: Option<RolloutId>,
}

impl OperationFilter {
    pub fn new(region: &Region, query: &OperationsQuery) -> Result<OperationFilter, ApiError> {
        let machine = query.machine.as_ref().map(|name| names::find_machine(region, name, None)).transpose()?;
        let host = query.host.as_ref().map(|name| names::find_host(region, name)).transpose()?;
        let group = query.group.as_ref().map(|name| names::find_any_group(region, name)).transpose()?;
        let rollout = query.rollout.as_ref().map(|id| names::find_rollout(region, id)).transpose()?;
        Ok(OperationFilter {
            state: query.state.as_deref().map(|word| parse_word("state", word)).transpose()?,
            kind: query.kind.as_deref().map(|word| parse_word("kind", word)).transpose()?,
            machine: machine.map(|machine| machine.id),
            host,
            group: group.map(|group| group.id),
            rollout,
        })
    }

    pub fn matches(&self, region: &Region, operation: &Operation) -> bool {
        self.state.is_none_or(|state| render_operation_phase(&operation.state) == state)
            && self.kind.is_none_or(|kind| render_operation_kind(&operation.request) == kind)
            && self.rollout.is_none_or(|rollout| operation.rollout == Some(rollout))
            && self.machine.is_none_or(|machine| concerns_machine(region, operation, machine))
            && self.group.is_none_or(|group| concerns_group(region, operation, group))
            && self.host.as_ref().is_none_or(|host| concerns_host(region, operation, host))
    }
}

/// A word of a filter. Unlike in responses, unknown words are errors here.
fn parse_word<W: Word>(name: &'static str, word: &str) -> Result<W, ApiError> {
    W::ALL.iter().copied().find(|known| known.as_str() == word).ok_or_else(|| {
        let words: Vec<&str> = W::ALL.iter().map(|known| known.as_str()).collect();
        ApiError::query(name, format!("has the invalid value '{word}'. Use one of: {}", words.join(", ")))
    })
}

fn concerns_machine(region: &Region, operation: &Operation, machine: MachineId) -> bool {
    operation.request.machines().contains(&machine) || machines_of(region, operation).any(|id| id == machine)
}

fn concerns_group(region: &Region, operation: &Operation, group: GroupId) -> bool {
    let owner = |scope| region.scope(scope).map(|scope| scope.owner);
    let mut events = operation.parts.iter().filter_map(|part| region.event(part.event));
    operation.request.group() == Some(group)
        || events.any(|event| matches!(owner(event.scope), Some(ScopeOwner::Group { group: of, .. }) if of == group))
}

fn concerns_host(region: &Region, operation: &Operation, host: &Name) -> bool {
    operation.request.host() == Some(host)
        || machines_of(region, operation)
            .filter_map(|machine| region.machine(machine))
            .any(|machine| machine.host.as_ref() == Some(host))
}

/// The machines of the events that the region still has.
fn machines_of<'a>(region: &'a Region, operation: &'a Operation) -> impl Iterator<Item = MachineId> + 'a {
    let events = operation.parts.iter().filter_map(|part| region.event(part.event));
    events.flat_map(|event| event.resources.iter().map(|resource| resource.machine))
}
