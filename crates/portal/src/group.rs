//! A scale set, an availability set or a cloud service; and the list of scale sets.

use std::sync::Arc;

use askama::Template;
use forewarn_core::{Group, GroupId, GroupKind, Machine, ScaleSet};

use super::action::{Actions, Button, Tone};
use super::machine::Facts;
use super::page::{Drawn, Fragment, Missing, Panel, Scene};
use super::preview::Oracle;
use super::{history, overview, plan, policy, scale_set, selection, sign_in, timeline, words};
use forewarn_access::Role;

/// Machines on one page.
const MACHINES_PER_PAGE: usize = 200;

#[derive(Template)]
#[template(path = "machine_row.html")]
struct MachineRow {
    id: u64,
    vm_id: String,
    sort: String,
    chip: overview::Chip,
    update_domain: u32,
    fault_domain: u32,
    power: &'static str,
    event: Option<(String, &'static str, &'static str)>,
    old_model: bool,
    protected: bool,
    /// Whether the visitor may do something with it.
    choosable: bool,
}

#[derive(Template)]
#[template(path = "scale_set_row.html")]
struct SetRow {
    id: u64,
    sort: String,
    name: String,
    what: &'static str,
    capacity: u32,
    notification: String,
    behind: usize,
}

#[derive(Template)]
#[template(path = "more.html")]
struct More {
    from: usize,
    shown: usize,
    all: usize,
    href: String,
    next: usize,
}

/// With what was typed into the forms of a set, when something is wrong with it.
pub async fn draw(scene: &Scene, id: GroupId, from: usize, typed: Option<&scale_set::Typed>) -> Result<Drawn, Missing> {
    let region = scene.region();
    let group = region.group(id).ok_or_else(|| Missing("There is no such group; it may have been deleted.".into()))?;
    let here = format!("/groups/{}", id.0);
    let scopes = group.scopes.clone();
    let numbers: Vec<u64> = scopes.iter().map(|scope| scope.0).collect();
    let lives = timeline::lives(
        scene,
        |_, event| scopes.contains(&event.scope),
        |row| row.scope.is_some_and(|scope| numbers.contains(&scope)),
    )
    .await;
    let mut panels = vec![Panel::one("facts", "Known", &facts(scene, group))];
    if let GroupKind::ScaleSet(of_set) = &group.kind {
        panels.push(scale_set::panel(scene, group, of_set, &here, typed));
    }
    panels.push(actions(scene, group, &here));
    panels.push(policy::panel(scene, "policy", kind_of(group), &target(group), &group.policy, &here));
    panels.push(timeline::panel(scene, &lives));
    panels.push(machines(scene, group, from, &here));
    let is_of_group = |row: &forewarn_store::HistoryRow| {
        row.scope.is_some_and(|scope| numbers.contains(&scope)) || row.target.as_deref() == Some(&*group.name)
    };
    panels.push(history::panel_of(scene, is_of_group).await);
    let lead = format!("<p class=\"crumbs\"><a href=\"/\">Overview</a> / {}</p>", words::group_kind(group));
    Ok(Drawn { title: group.name.to_string(), lead, panels })
}

pub fn draw_sets(scene: &Scene) -> Drawn {
    let region = scene.region();
    let rows = region.groups().filter_map(|group| match &group.kind {
        GroupKind::ScaleSet(set) => Some((group, set)),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    });
    let rows = rows.map(|(group, set)| {
        let sort = format!("{}-{}", group.name, group.id.0);
        let row = SetRow {
            id: group.id.0,
            sort: sort.clone(),
            name: group.name.to_string(),
            what: words::group_kind(group),
            capacity: set.capacity,
            notification: latest(set),
            behind: behind(scene, group, set).count(),
        };
        Fragment::of(format!("set-{}", group.id.0), sort, &row)
    });
    let panel = Panel::new("sets", "Scale sets", rows.collect()).or("There is no scale set yet. Add one.");
    let add = r#"<p><a class="button primary" href="/scale-sets/add">Add</a></p>"#;
    Drawn { title: "Virtual machine scale sets".into(), lead: add.into(), panels: vec![panel] }
}

/// The group whose page this is.
pub fn page_group<'s>(scene: &'s Scene, here: &str) -> Option<&'s Arc<Group>> {
    let id = here.strip_prefix("/groups/")?.split('?').next()?.parse().ok()?;
    scene.region().group(GroupId(id))
}

/// Where the API has groups of this kind.
pub fn collection(kind: &str) -> Result<&'static str, String> {
    match kind {
        "scale-set" => Ok("scale-sets"),
        "availability-set" => Ok("availability-sets"),
        "cloud-service" => Ok("cloud-services"),
        other => Err(format!("No group is a '{other}'. Reload the page and try again.")),
    }
}

pub fn kind_of(group: &Group) -> &'static str {
    match group.kind {
        GroupKind::ScaleSet(_) => "scale-set",
        GroupKind::AvailabilitySet => "availability-set",
        GroupKind::CloudService => "cloud-service",
    }
}

/// As the API's paths name it.
pub fn target(group: &Group) -> String {
    format!("{}~{}", group.home.resource_group, group.name)
}

fn facts(scene: &Scene, group: &Group) -> Facts {
    let region = scene.region();
    let on = group.scopes.iter().filter(|scope| region.is_on(**scope)).count();
    let mut facts = vec![
        ("Kind", words::group_kind(group).to_owned()),
        ("Resource group", words::escaped(&group.home.resource_group)),
        ("Machines", region.group_members(group).count().to_string()),
        ("Documents", format!("{}, {on} listened to", group.scopes.len())),
        ("Update domains", group.update_domains.to_string()),
        ("Fault domains", group.fault_domains.to_string()),
    ];
    if let GroupKind::ScaleSet(set) = &group.kind {
        facts.push(("Instances wanted", set.capacity.to_string()));
        facts.push(("Upgrade mode", scale_set::mode(set.upgrade_mode).into()));
        facts.push(("Instance termination notification", words::escaped(latest(set))));
        facts.push(("Without the latest model", behind(scene, group, set).count().to_string()));
    }
    if group.leaving {
        facts.push(("State", "being deleted".into()));
    }
    Facts { facts }
}

fn actions(scene: &Scene, group: &Group, here: &str) -> Panel {
    let told = Oracle::of(scene).group_delete(group);
    let kind = format!(r#"<input type="hidden" name="kind" value="{}">"#, kind_of(group));
    let delete = Button::new("delete-group", "Delete", told, Role::Owner, Tone::Danger);
    Actions::new(scene, target(group), here)
        .link(
            "plan",
            "Plan maintenance",
            &plan::prefilled("group", &format!("{}/{}", group.home.resource_group, group.name)),
        )
        .button(delete.with(kind))
        .panel()
}

fn machines(scene: &Scene, group: &Group, from: usize, here: &str) -> Panel {
    let region = scene.region();
    let mut members: Vec<&Arc<Machine>> = region.group_members(group).collect();
    members.sort_unstable_by_key(|machine| (machine.update_domain, machine.id));
    let (all, newest) = (members.len(), newest_model(group));
    let rows: Vec<Fragment> =
        members.into_iter().skip(from).take(MACHINES_PER_PAGE).map(|machine| row(scene, machine, newest)).collect();
    let more = More { from, shown: rows.len(), all, href: here.to_owned(), next: from + MACHINES_PER_PAGE };
    let above = selection::form(scene, group, here) + &sign_in::rendered(&more).0;
    Panel::new("machines", "Machines", rows).below(above).or("It has no machines.")
}

fn row(scene: &Scene, machine: &Machine, newest: Option<u64>) -> Fragment {
    let region = scene.region();
    let event = region.events_of(machine.id).next();
    let sort = format!("{:04}-{:012}", machine.update_domain, machine.id.0);
    let row = MachineRow {
        id: machine.id.0,
        vm_id: machine.vm_id.to_string(),
        sort: sort.clone(),
        chip: overview::chip(region, machine),
        update_domain: machine.update_domain,
        fault_domain: machine.fault_domain,
        power: words::power(machine.power),
        event: event.map(|event| (words::event_name(event.id), words::kind(event.kind), words::status(event))),
        old_model: newest.is_some_and(|newest| machine.model != newest),
        protected: machine.protected,
        choosable: scene.visitor.may(Role::Operator),
    };
    Fragment::of(format!("machine-{}", machine.id.0), sort, &row)
}

fn newest_model(group: &Group) -> Option<u64> {
    match &group.kind {
        GroupKind::ScaleSet(set) => Some(set.model_version),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    }
}

/// Instances without the latest model.
pub fn behind<'s>(scene: &'s Scene, group: &'s Group, set: &ScaleSet) -> impl Iterator<Item = &'s Arc<Machine>> {
    let newest = set.model_version;
    scene.region().group_members(group).filter(move |machine| machine.model != newest)
}

/// What the latest model says of deletions.
pub fn latest(set: &ScaleSet) -> String {
    words::notification(set.model.terminate.as_ref())
}
