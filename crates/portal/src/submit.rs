//! Handlers for forms that return to the page that they were sent from. Each button is one request of the native API. If it
//! is refused, the page is shown again with the API's message above it.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use serde_json::{Value, json};

use super::html::RenderMode;
use super::request::{ApiRequest, landing_page};
use super::scene::Scene;
use super::visitor::Form;
use super::{Portal, address, frame, group, page, scale_set, selection, test_kit};
use forewarn_api::{CallError, next_deadline};

/// Handles the buttons of all pages.
pub async fn submit_action(State(portal): State<Portal>, form: Form) -> Response {
    let back = address::check_own(form.text("back"));
    let done = match action_request(&portal, &form) {
        Ok(request) => request.send(&portal, &form.visitor).await,
        Err(message) => Err(CallError::form(message)),
    };
    match done {
        Ok(answer) => Redirect::to(&page_after(form.text("act"), &answer, &back)).into_response(),
        Err(refused) => page::render_at(&portal, &form.visitor, &back, Some(&refused)).await,
    }
}

/// Handles actions on the selected machines of a group.
pub async fn submit_selection(State(portal): State<Portal>, form: Form) -> Response {
    let back = address::check_own(form.text("back"));
    let scene = Scene::now(&portal, &form.visitor, RenderMode::Page);
    match selection::perform(&scene, &form, &back).await {
        Ok(response) => response,
        Err(refused) => page::render_at(&portal, &form.visitor, &back, Some(&refused)).await,
    }
}

/// Handles the forms on the page of a scale set.
pub async fn submit_scale_set(State(portal): State<Portal>, form: Form) -> Response {
    let back = address::check_own(form.text("back"));
    let scene = Scene::now(&portal, &form.visitor, RenderMode::Page);
    let Some((group, set)) = scale_set::find(scene.region(), &back) else {
        let refused = CallError::form("This scale set no longer exists.");
        return page::render_at(&portal, &form.visitor, &back, Some(&refused)).await;
    };
    let fields = match scale_set::change(&scene, group, set, &form, &back).await {
        Ok(response) => return response,
        Err(fields) => fields,
    };
    match group::render(&scene, group.id, 0, Some(&fields)).await {
        Ok(content) => (StatusCode::UNPROCESSABLE_ENTITY, frame::render(&scene, &back, &content, "")).into_response(),
        Err(_) => Redirect::to("/").into_response(),
    }
}

/// The page to show after an action: the new event of an action on one machine, otherwise the page with the button, unless
/// that is gone.
fn page_after(act: &str, answer: &Value, back: &str) -> String {
    match act {
        "restart" | "redeploy" | "perform-maintenance" | "evict" | "delete-machine" | "fail" | "lose" => {
            landing_page(answer, back)
        }
        "run" | "stop-run" => test_kit::address_of("runs"),
        "clear-fault" => test_kit::address_of("faults"),
        "advance-next" => test_kit::address_of("panel-clock-panel"),
        "delete-group" if answer["state"] != "Running" => "/".into(),
        _ => back.to_owned(),
    }
}

fn action_request(portal: &Portal, form: &Form) -> Result<ApiRequest, String> {
    let target = address::encode_segment(form.text("target"));
    let post = |path: String, body: Value| Ok(ApiRequest::post(path, body));
    let delete = |path: String| Ok(ApiRequest::delete(path));
    let patch = |path: String, body: Value| Ok(ApiRequest::patch(path, body));
    let group_path = || Ok::<_, String>(format!("/{}/{target}", address::group_collection(form.text("kind"))?));
    match form.text("act") {
        action @ ("restart" | "redeploy" | "perform-maintenance" | "evict" | "start" | "stop" | "deallocate") => {
            post(format!("/machines/{target}/{action}"), json!({}))
        }
        "fail" => post(format!("/machines/{target}/hardware-failure"), json!({ "type": "Reboot" })),
        "lose" => post(format!("/machines/{target}/hardware-failure"), json!({ "type": "Redeploy" })),
        "fail-host" => post(format!("/hosts/{target}/hardware-failure"), json!({ "type": "Reboot" })),
        "lose-host" => post(format!("/hosts/{target}/hardware-failure"), json!({ "type": "Redeploy" })),
        "remove-host" => delete(format!("/hosts/{target}")),
        "delete-machine" => delete(format!("/machines/{target}")),
        action @ ("approve" | "cancel") => post(format!("/events/{target}/{action}"), json!({})),
        "cancel-operation" => post(format!("/operations/{target}/cancel"), json!({})),
        "delete-group" => delete(group_path()?),
        "policy" => patch(group_path()?, json!({ "policy": policy_body(form) })),
        "machine-policy" => patch(format!("/machines/{target}"), json!({ "policy": policy_body(form) })),
        "upgrade" => post(format!("/scale-sets/{target}/upgrade"), json!({})),
        "run" => post("/scenario-runs".into(), json!({ "scenario": form.text("target") })),
        "stop-run" => delete(format!("/scenario-runs/{target}")),
        "clear-fault" => delete(format!("/faults/{target}")),
        "advance-next" => advance_request(portal),
        other => Err(format!("Unknown action '{other}'. Reload the page and try again.")),
    }
}

/// Advances the clock to the next deadline.
fn advance_request(portal: &Portal) -> Result<ApiRequest, String> {
    let engine = portal.engine();
    let (now, snapshot) = (engine.now(), engine.snapshot());
    let next = next_deadline(&snapshot.region, engine.next_report());
    let (next, _) = next.ok_or("There is no deadline to advance to.")?;
    // Deadlines can be between two seconds.
    let seconds = next.since(now).as_millis().div_ceil(1000) as u64;
    Ok(ApiRequest::post("/clock/advance", json!({ "seconds": seconds })))
}

/// Browsers do not send checkboxes that are not checked.
fn policy_body(form: &Form) -> Value {
    json!({
        "approveUserReboot": form.is_checked("reboot"),
        "approveUserRedeploy": form.is_checked("redeploy"),
        "approveAllInstancesDown": form.is_checked("down"),
    })
}
