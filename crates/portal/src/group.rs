//! The page of a scale set, availability set or cloud service, and the list of scale sets.

use std::sync::Arc;

use askama::Template;
use forewarn_core::{Group, GroupId, GroupKind, Machine};
use forewarn_widgets::chip::{Chip, chip_of};
use forewarn_widgets::facts::Facts;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::panel::{NotFound, PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::{address, html, words};

use super::action::{Button, ButtonPanel, Tone};
use super::preview::Preview;
use super::scene::Scene;
use super::{fleet, group_table, handler, history, plan, policy, scale_set, selection, timeline};
use forewarn_api::{Action, GroupType, delete_action};

/// Machines per page.
const MACHINES_PER_PAGE: usize = 200;

#[derive(Template)]
#[template(path = "machine_row.html")]
struct MachineRow {
    id: u64,
    vm_id: String,
    sort: String,
    chip: Chip,
    update_domain: u32,
    fault_domain: u32,
    power: &'static str,
    event: Option<(String, &'static str, &'static str)>,
    old_model: bool,
    protected: bool,
    /// Whether the visitor's role allows actions on it.
    selectable: bool,
}

#[derive(Template)]
#[template(path = "scale_set_row.html")]
struct ScaleSetRow {
    id: u64,
    sort: String,
    name: String,
    kind: &'static str,
    capacity: u32,
    notification: String,
    outdated: usize,
}

#[derive(Template)]
#[template(path = "more.html")]
struct Paging {
    from: usize,
    shown: usize,
    all: usize,
    href: String,
    next: usize,
}

/// `fields` is what was typed into the forms of a scale set, if it contains errors.
pub async fn render(
    scene: &Scene,
    id: GroupId,
    from: usize,
    fields: Option<&scale_set::ScaleSetFields>,
) -> Result<PageContent, NotFound> {
    let region = scene.region();
    let group = region.group(id).ok_or_else(|| NotFound("This group does not exist or has been deleted.".into()))?;
    let here = address::of_group(id);
    let scopes = group.scopes.clone();
    let numbers: Vec<u64> = scopes.iter().map(|scope| scope.0).collect();
    let events = timeline::find_events(
        scene,
        |_, event| scopes.contains(&event.scope),
        |row| row.scope.is_some_and(|scope| numbers.contains(&scope)),
    )
    .await;
    let mut panels = vec![
        render_actions(scene, group, &here).without_frame(),
        Panel::with_content("facts", "Details", &list_facts(scene, group)),
    ];
    // Settings are last, except beside the forms of a scale set.
    let mut policy = Some(render_policy(scene, group, &here));
    if let GroupKind::ScaleSet(of_set) = &group.kind {
        panels.push(scale_set::render_panel(scene, group, of_set, &here, fields));
        panels.extend(policy.take());
    }
    panels.push(timeline::render_panel(scene, &events));
    panels.push(render_machines(scene, group, from, &here));
    panels.extend(policy);
    let members: std::collections::BTreeSet<_> = region.group_members(group).map(|machine| machine.id).collect();
    let is_of_group = |row: &forewarn_store::HistoryRow| {
        row.scope.is_some_and(|scope| numbers.contains(&scope))
            || row.target.as_deref() == Some(&*group.name)
            || row.machine_ids.iter().any(|machine| members.contains(machine))
    };
    panels.push(history::render_filtered_panel(scene, is_of_group).await);
    let lead = format!("<p class=\"crumbs\"><a href=\"/groups\">Groups</a> / {}</p>", words::group_kind(group));
    Ok(PageContent { title: group.name.to_string(), lead, panels, aside: Vec::new() })
}

fn render_policy(scene: &Scene, group: &Group, here: &str) -> Panel {
    let (kind, target) = (address::group_kind_word(group), address::group_target(group));
    policy::render_panel(scene, "policy", kind, &target, &group.policy, here)
}

/// The table of all groups.
pub fn render_all(scene: &Scene, query: &PageQuery) -> PageContent {
    let kind = query.text("kind");
    let mut groups = fleet::list_groups(scene);
    let kinds = [
        ("", "All kinds"),
        ("Scale set", "Scale sets"),
        ("Availability set", "Availability sets"),
        ("Cloud service", "Cloud services"),
        ("Standalone", "Standalone VMs"),
    ];
    let links = kinds.map(|(word, label)| {
        format!(
            r#"<a href="{}" data-soft{}>{label} <span class="n">{}</span></a>"#,
            query.with("kind", word).with("from", "").address("/groups").replace('&', "&amp;"),
            if word == kind { r#" aria-current="true""# } else { "" },
            groups.iter().filter(|group| group.kind.starts_with(word)).count()
        )
    });
    groups.retain(|group| group.kind.starts_with(kind));
    let lead = format!(
        r#"<p class="row"><span class="seg" role="group" aria-label="Filter by kind">{}</span> <a class="button" href="/scale-sets/add">Add a scale set</a></p>"#,
        links.concat()
    );
    let panel = group_table::render_panel(scene, &groups, query, "/groups", group_table::ROWS_MAX);
    PageContent::new("Groups", vec![panel]).with_lead(lead)
}

pub fn render_scale_sets(scene: &Scene) -> PageContent {
    let region = scene.region();
    let rows = region.groups().filter_map(|group| match &group.kind {
        GroupKind::ScaleSet(set) => Some((group, set)),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    });
    let rows = rows.map(|(group, set)| {
        let sort = format!("{}-{}", group.name, group.id.0);
        let row = ScaleSetRow {
            id: group.id.0,
            sort: sort.clone(),
            name: group.name.to_string(),
            kind: words::group_kind(group),
            capacity: set.capacity,
            notification: scale_set::latest_notification(set),
            outdated: scale_set::outdated(scene, group, set).count(),
        };
        Fragment::render(format!("set-{}", group.id.0), sort, &row)
    });
    let panel = Panel::new("sets", "Scale sets", rows.collect()).or_empty_text("No scale sets yet.");
    let add = r#"<p><a class="button primary" href="/scale-sets/add">Add</a></p>"#;
    PageContent { title: "Virtual machine scale sets".into(), lead: add.into(), panels: vec![panel], aside: Vec::new() }
}

fn list_facts(scene: &Scene, group: &Group) -> Facts {
    let region = scene.region();
    let on = group.scopes.iter().filter(|scope| region.is_on(**scope)).count();
    let mut facts = vec![
        ("Kind", words::group_kind(group).to_owned()),
        ("Resource group", words::escape_html(&group.home.resource_group)),
        ("Machines", region.group_members(group).count().to_string()),
        ("Event groups", format!("{}, {on} with a handler", group.scopes.len())),
        ("Handlers polling", handler::describe_group(scene, group)),
        ("Update domains", group.update_domains.to_string()),
        ("Fault domains", group.fault_domains.to_string()),
    ];
    if let GroupKind::ScaleSet(set) = &group.kind {
        facts.push(("Capacity", set.capacity.to_string()));
        facts.push(("Upgrade mode", scale_set::mode_name(set.upgrade_mode).into()));
        facts.push(("Instance termination notification", words::escape_html(scale_set::latest_notification(set))));
        facts.push(("Outdated instances", scale_set::outdated(scene, group, set).count().to_string()));
    }
    if group.leaving {
        facts.push(("State", "being deleted".into()));
    }
    Facts { facts }
}

fn render_actions(scene: &Scene, group: &Group, here: &str) -> Panel {
    let consequences = Preview::of(scene).describe_group_deletion(group);
    let kind = format!(r#"<input type="hidden" name="kind" value="{}">"#, address::group_kind_word(group));
    let delete = Button::new("delete-group", "Delete", consequences, delete_action(GroupType::of(group)), Tone::Danger);
    ButtonPanel::new(scene, address::group_target(group), here)
        .link(
            "plan",
            "Plan maintenance",
            &plan::address_with("group", &format!("{}/{}", group.home.resource_group, group.name)),
        )
        .link("rollout", "Plan a rollout", &format!("/rollouts/plan?groups={}", address::encode_segment(&group.name)))
        .button(delete.with_fields(kind))
        .into_panel()
}

fn render_machines(scene: &Scene, group: &Group, from: usize, here: &str) -> Panel {
    let region = scene.region();
    let mut members: Vec<&Arc<Machine>> = region.group_members(group).collect();
    members.sort_unstable_by_key(|machine| (machine.update_domain, machine.id));
    let (all, latest) = (members.len(), latest_model(group));
    let rows: Vec<Fragment> = members
        .into_iter()
        .skip(from)
        .take(MACHINES_PER_PAGE)
        .map(|machine| render_row(scene, machine, latest))
        .collect();
    let paging = Paging { from, shown: rows.len(), all, href: here.to_owned(), next: from + MACHINES_PER_PAGE };
    let above = selection::render_buttons(scene, group, here) + &html::render(&paging);
    Panel::new("machines", "Machines", rows).with_html_before(above).or_empty_text("No machines.")
}

fn render_row(scene: &Scene, machine: &Machine, latest: Option<u64>) -> Fragment {
    let region = scene.region();
    let event = region.events_of(machine.id).next();
    let sort = format!("{:04}-{:012}", machine.update_domain, machine.id.0);
    let row = MachineRow {
        id: machine.id.0,
        vm_id: machine.vm_id.to_string(),
        sort: sort.clone(),
        chip: chip_of(region, machine),
        update_domain: machine.update_domain,
        fault_domain: machine.fault_domain,
        power: words::power(machine.power),
        event: event.map(|event| (words::event_name(event.id), event.kind.as_str(), words::status(event))),
        old_model: latest.is_some_and(|latest| machine.model != latest),
        protected: machine.protected,
        selectable: scene.visitor.may(Action::RestartMachine),
    };
    Fragment::render(format!("machine-{}", machine.id.0), sort, &row)
}

fn latest_model(group: &Group) -> Option<u64> {
    match &group.kind {
        GroupKind::ScaleSet(set) => Some(set.model_version),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    }
}
