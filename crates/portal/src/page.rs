//! All pages: their addresses, and the module that renders each.

use std::collections::HashMap;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_api::parse_operation_id;
use forewarn_core::{GroupId, Guid, OperationId, RolloutId};
use forewarn_widgets::field::FieldErrors;
use forewarn_widgets::html::RenderMode;
use forewarn_widgets::panel::{NotFound, PageContent};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::{address, words};
use forewarn_wire::guid;
use forewarn_wire::version::Version;
use http::{StatusCode, Uri, header};

use super::page_context::PageContext;
use super::refusal::Refusal;
use super::test_kit::TestKitFields;
use super::visitor::Visitor;
use super::{Portal, frame};
use super::{
    calendar, cluster, event, group, history_page, host, hosts, machine, machines, maintenance, operation, operations,
};
use super::{overview, rollout, rollout_plan, scale_set_wizard, search, test_kit, webhooks};
use forewarn_previews::plan::PlanFields;

/// Paths of the pages without a form of their own; those with one are in the route table.
pub const PATHS: [&str; 16] = [
    "/",
    "/operations",
    "/operations/{operation}",
    "/rollouts/plan",
    "/rollouts/{rollout}",
    "/groups",
    "/machines",
    "/machines/{machine}",
    "/events/{event}",
    "/scale-sets",
    "/hosts/{host}",
    "/webhooks",
    "/history",
    "/calendar",
    "/cluster",
    "/search",
];

#[derive(Clone, Debug, PartialEq)]
pub enum Page {
    Overview(PageQuery),
    Operations(PageQuery),
    Operation(OperationId, PageQuery),
    PlanRollout(PageQuery),
    Rollout(RolloutId, PageQuery),
    Groups(PageQuery),
    Machines(PageQuery),
    Webhooks(PageQuery),
    History(PageQuery),
    Calendar,
    Cluster,
    Search(String),
    Machine {
        vm_id: Guid,
        version: Version,
    },
    Group(GroupId, PageQuery),
    Event(Guid),
    ScaleSets,
    AddScaleSet,
    Hosts(PageQuery),
    Host(String, PageQuery),
    /// With initial values for the form.
    Maintenance(HashMap<String, String>),
    /// With initial values for the form.
    TestKit(HashMap<String, String>),
}

impl Page {
    pub fn parse(uri: &Uri) -> Option<Page> {
        let query: HashMap<String, String> =
            form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        let text = |name: &str| query.get(name).cloned().unwrap_or_default();
        let fields = PageQuery::parse(uri.query().unwrap_or_default());
        let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        match parts[..] {
            [] => Some(Page::Overview(fields)),
            ["operations"] => Some(Page::Operations(fields)),
            ["operations", id] => Some(Page::Operation(parse_operation_id(id).ok()?, fields)),
            ["rollouts", "plan"] => Some(Page::PlanRollout(fields)),
            ["rollouts", id] => Some(Page::Rollout(parse_operation_id(id).ok()?, fields)),
            ["groups"] => Some(Page::Groups(fields)),
            ["machines"] => Some(Page::Machines(fields)),
            ["webhooks"] => Some(Page::Webhooks(fields)),
            ["history"] => Some(Page::History(fields)),
            ["calendar"] => Some(Page::Calendar),
            ["cluster"] => Some(Page::Cluster),
            ["search"] => Some(Page::Search(text("q"))),
            ["machines", id] => {
                let version = Version::ALL.into_iter().find(|version| version.as_str() == text("version"));
                let version = version.unwrap_or(Version::ALL[Version::ALL.len() - 1]);
                Some(Page::Machine { vm_id: Guid(guid::parse(id)?), version })
            }
            ["groups", id] => Some(Page::Group(GroupId(id.parse().ok()?), fields)),
            ["events", id] => Some(Page::Event(Guid(guid::parse(id)?))),
            ["scale-sets"] => Some(Page::ScaleSets),
            ["scale-sets", "add"] => Some(Page::AddScaleSet),
            ["hosts"] => Some(Page::Hosts(fields)),
            ["hosts", name] => Some(Page::Host(address::decode_segment(name)?, fields)),
            ["maintenance"] => Some(Page::Maintenance(query)),
            ["test-kit"] => Some(Page::TestKit(query)),
            _ => None,
        }
    }

    /// Whether the page shows what changes without a commit: metadata requests, or servers and agents.
    pub fn changes_without_commits(&self) -> bool {
        match self {
            Page::Machine { .. } | Page::TestKit(_) | Page::Cluster => true,
            Page::Overview(_)
            | Page::Operations(_)
            | Page::Operation(_, _)
            | Page::PlanRollout(_)
            | Page::Rollout(_, _)
            | Page::Groups(_)
            | Page::Machines(_)
            | Page::Webhooks(_)
            | Page::History(_)
            | Page::Calendar
            | Page::Search(_)
            | Page::Group(_, _)
            | Page::Event(_)
            | Page::ScaleSets
            | Page::AddScaleSet
            | Page::Hosts(_)
            | Page::Host(_, _)
            | Page::Maintenance(_) => false,
        }
    }

    pub async fn render(&self, context: &PageContext) -> Result<PageContent, NotFound> {
        match self {
            Page::Overview(query) => Ok(overview::render(context, query).await),
            Page::Operations(query) => Ok(operations::render(context, query)),
            Page::Operation(id, query) => operation::render(context, *id, query).await,
            Page::PlanRollout(query) => Ok(rollout_plan::render(context, query, &FieldErrors::default()).await),
            Page::Rollout(id, query) => rollout::render(context, *id, query).await,
            Page::Groups(query) => Ok(group::render_all(context, query)),
            Page::Machines(query) => Ok(machines::render(context, query)),
            Page::Webhooks(query) => Ok(webhooks::render(context, query).await),
            Page::History(query) => Ok(history_page::render(context, query).await),
            Page::Calendar => Ok(calendar::render(context).await),
            Page::Cluster => Ok(cluster::render(context).await),
            Page::Search(text) => Ok(search::render(context, text).await),
            Page::Machine { vm_id, version } => machine::render(context, *vm_id, *version).await,
            Page::Group(id, query) => group::render(context, *id, query, None).await,
            Page::Event(id) => event::render(context, *id).await,
            Page::ScaleSets => Ok(group::render_scale_sets(context)),
            Page::AddScaleSet => Ok(scale_set_wizard::render(context)),
            Page::Hosts(query) => Ok(hosts::render(context, query, "", &FieldErrors::default()).await),
            Page::Host(name, query) => host::render(context, name, query).await,
            Page::Maintenance(query) => Ok(maintenance::render(context, &PlanFields::from_query(query))),
            Page::TestKit(query) => Ok(test_kit::render(context, &TestKitFields::from_query(query))),
        }
    }
}

/// Handles GET requests for addresses that only accept forms.
pub async fn redirect_to_overview() -> Redirect {
    Redirect::to("/")
}

pub async fn get(State(portal): State<Portal>, visitor: Visitor, request: Request) -> Response {
    let here = request.uri().path_and_query().map_or("/", |address| address.as_str());
    render_at(&portal, &visitor, here, None).await
}

/// The page at this path and query.
pub fn find(here: &str) -> Option<Page> {
    Page::parse(&here.starts_with('/').then(|| here.parse::<Uri>().ok())??)
}

/// The page at `here`, with the message of a refused request above it.
pub async fn render_at(portal: &Portal, visitor: &Visitor, here: &str, refused: Option<&Refusal>) -> Response {
    let context = PageContext::now(portal, visitor, RenderMode::Page);
    let content = match find(here) {
        Some(page) => page.render(&context).await,
        None => Err(NotFound("This page does not exist.".into())),
    };
    let (status, content) = match content {
        Ok(content) => (StatusCode::OK, content),
        Err(NotFound(why)) => (
            StatusCode::NOT_FOUND,
            PageContent {
                title: "Not found".into(),
                lead: words::paragraph(&why),
                panels: Vec::new(),
                aside: Vec::new(),
            },
        ),
    };
    let status = refused.map_or(status, |refused| refused.status);
    let message = refused.map_or("", |refused| &refused.message);
    (status, [(header::CACHE_CONTROL, "no-store")], frame::render(&context, here, &content, message)).into_response()
}
