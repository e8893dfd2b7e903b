//! A scale set, an availability set or a cloud service; and the list of scale sets.

use std::sync::Arc;

use askama::Template;
use forewarn_core::{Group, GroupId, GroupKind, Machine, ScaleSet, UpgradeMode};

use super::machine::{Action, Facts};
use super::page::{Drawn, Fragment, Missing, Panel, Scene};
use super::{foretell, overview, sign_in, timeline, words};
use crate::identity::Role;

/// Machines on one page.
const MACHINES_PER_PAGE: usize = 200;

#[derive(Template)]
#[template(path = "machine_row.html")]
struct MachineRow {
    id: u64,
    sort: String,
    chip: overview::Chip,
    update_domain: u32,
    fault_domain: u32,
    power: &'static str,
    event: Option<(String, &'static str, &'static str)>,
    old_model: bool,
}

#[derive(Template)]
#[template(path = "set_forms.html")]
struct SetForms<'a> {
    target: &'a str,
    back: &'a str,
    csrf: &'a str,
    capacity: u32,
    notification: bool,
    delay: u64,
    behind: usize,
    mode: &'static str,
    allowed: bool,
}

#[derive(Template)]
#[template(path = "set_row.html")]
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

pub async fn draw(scene: &Scene, id: GroupId, from: usize) -> Result<Drawn, Missing> {
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
    let mut panels = vec![Panel::one("facts", "Known", &facts(scene, group)), timeline::panel(scene, &lives)];
    if let GroupKind::ScaleSet(set) = &group.kind {
        panels.insert(1, manage(scene, group, set, &here));
        panels.insert(2, delete(scene, group, &here));
    }
    panels.push(machines(scene, group, from, &here));
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
            notification: set.model.terminate.as_ref().map_or("off".into(), |profile| profile.text.to_string()),
            behind: behind(scene, group, set),
        };
        Fragment::of(format!("set-{}", group.id.0), sort, &row)
    });
    let panel = Panel::new("sets", "Scale sets", rows.collect()).or("There is no scale set yet. Add one.");
    let add = r#"<p><a class="button primary" href="/scale-sets/add">Add</a></p>"#;
    Drawn { title: "Virtual machine scale sets".into(), lead: add.into(), panels: vec![panel] }
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
        facts.push(("Upgrade mode", mode(set.upgrade_mode).into()));
        let text = set.model.terminate.as_ref().map_or("off".into(), |profile| words::escaped(&profile.text));
        facts.push(("Instance termination notification", text));
        facts.push(("Without the latest model", behind(scene, group, set).to_string()));
    }
    if group.leaving {
        facts.push(("State", "being deleted".into()));
    }
    Facts { facts }
}

fn manage(scene: &Scene, group: &Group, set: &ScaleSet, here: &str) -> Panel {
    let target = target(group);
    let forms = SetForms {
        target: &target,
        back: here,
        csrf: &scene.visitor.session.csrf,
        capacity: set.capacity,
        notification: set.model.terminate.is_some(),
        delay: set.model.terminate.as_ref().map_or(5, |profile| profile.timeout.as_secs() / 60),
        behind: behind(scene, group, set),
        mode: mode(set.upgrade_mode),
        allowed: scene.visitor.may(Role::Owner),
    };
    Panel::one("manage", "Manage", &forms)
}

fn delete(scene: &Scene, group: &Group, here: &str) -> Panel {
    let action = Action {
        act: "delete-set",
        target: &target(group),
        label: "Delete",
        foretold: foretell::group_delete(scene.region(), group),
        allowed: scene.visitor.may(Role::Owner),
        needs: Role::Owner,
        danger: true,
        csrf: &scene.visitor.session.csrf,
        back: here,
    };
    Panel::new("actions", "Actions", vec![Fragment::of("do-delete-set", "0", &action)])
}

fn machines(scene: &Scene, group: &Group, from: usize, here: &str) -> Panel {
    let region = scene.region();
    let mut members: Vec<&Arc<Machine>> = region.group_members(group).collect();
    members.sort_unstable_by_key(|machine| (machine.update_domain, machine.id));
    let (all, newest) = (members.len(), newest_model(group));
    let rows: Vec<Fragment> =
        members.into_iter().skip(from).take(MACHINES_PER_PAGE).map(|machine| row(scene, machine, newest)).collect();
    let more = More { from, shown: rows.len(), all, href: here.to_owned(), next: from + MACHINES_PER_PAGE };
    Panel::new("machines", "Machines", rows).below(sign_in::rendered(&more).0).or("It has no machines.")
}

fn row(scene: &Scene, machine: &Machine, newest: Option<u64>) -> Fragment {
    let region = scene.region();
    let event = region.events_of(machine.id).next();
    let sort = format!("{:04}-{:012}", machine.update_domain, machine.id.0);
    let row = MachineRow {
        id: machine.id.0,
        sort: sort.clone(),
        chip: overview::chip(region, machine),
        update_domain: machine.update_domain,
        fault_domain: machine.fault_domain,
        power: words::power(machine.power),
        event: event.map(|event| (words::event_name(event.id), words::kind(event.kind), words::status(event))),
        old_model: newest.is_some_and(|newest| machine.model != newest),
    };
    Fragment::of(format!("machine-{}", machine.id.0), sort, &row)
}

fn newest_model(group: &Group) -> Option<u64> {
    match &group.kind {
        GroupKind::ScaleSet(set) => Some(set.model_version),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    }
}

fn behind(scene: &Scene, group: &Group, set: &ScaleSet) -> usize {
    scene.region().group_members(group).filter(|machine| machine.model != set.model_version).count()
}

/// As the API's paths name it.
fn target(group: &Group) -> String {
    format!("{}~{}", group.home.resource_group, group.name)
}

fn mode(mode: UpgradeMode) -> &'static str {
    match mode {
        UpgradeMode::Automatic => "Automatic",
        UpgradeMode::Manual => "Manual",
        UpgradeMode::Rolling => "Rolling",
    }
}
