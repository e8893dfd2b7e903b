//! The reasons why operations wait, as HTML. The API computes them; times are elements, so that they appear in the reader's time
//! zone.

use forewarn_api_types::{WaitFor, WaitReason};
use forewarn_core::Timestamp;

use super::words;

/// One reason, as part of a sentence.
pub fn render_wait(wait: &WaitFor) -> String {
    let reason = wait.describe(|at| words::time(Timestamp(at.0)), |name| words::escape_html(name));
    match (wait.reason, wait.approvals_missing) {
        (WaitReason::Approvals, Some(_)) => format!(r#"<span class="amber">{reason}</span>"#),
        (_, _) => format!("waits for {reason}"),
    }
}

/// When the next step of a rollout is announced, and what it waits for.
pub fn render_next_step(wait: &WaitFor) -> String {
    let at = wait.until.map(|at| words::time(Timestamp(at.0)));
    match (wait.reason, at) {
        (WaitReason::Pause, Some(at)) => format!("next step announced at {at}, after the pause"),
        (WaitReason::Window, Some(at)) => format!("next step announced at {at}, when the window opens"),
        (WaitReason::Start, Some(at)) => format!("first step announced at {at}"),
        (_, _) => format!("next step {}", render_wait(wait)),
    }
}

/// The reason in a few words without times, for places where times are drawn.
pub fn shorten(wait: &WaitFor) -> String {
    match wait.reason {
        WaitReason::Window => "waits for the window".into(),
        WaitReason::Start => "waits for its start".into(),
        WaitReason::Pause => "waits for the end of the pause".into(),
        WaitReason::Approvals => "waits for approvals".into(),
        WaitReason::Paused => "paused".into(),
        WaitReason::Availability
        | WaitReason::Capacity
        | WaitReason::Host
        | WaitReason::Notice
        | WaitReason::Event
        | WaitReason::Unknown(_) => format!("waits for {wait}"),
    }
}

/// Whether a wait is more than a part of the plan, such as a window or the pause between two steps.
pub fn is_unplanned(reason: WaitReason) -> bool {
    match reason {
        WaitReason::Window | WaitReason::Start | WaitReason::Pause | WaitReason::Approvals | WaitReason::Notice => {
            false
        }
        WaitReason::Availability
        | WaitReason::Capacity
        | WaitReason::Host
        | WaitReason::Event
        | WaitReason::Paused
        | WaitReason::Unknown(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use forewarn_api_types::Time;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (1..=count).map(|number| format!("web_{number}")).collect()
    }

    #[test]
    fn missing_approvals_are_counted_and_the_first_machines_are_named() {
        let wait = |missing, total| WaitFor {
            approvals_missing: Some(missing),
            approvals_total: Some(total),
            ..WaitFor::of(WaitReason::Approvals)
        };
        let one = render_wait(&wait(1, 1).with_machines(vec!["<b>".into()]));
        assert_eq!(one, r#"<span class="amber">approvals missing from 1 of 1 machine: &#60;b&#62;</span>"#);
        let many = render_wait(&wait(30, 40).with_machines(names(30)));
        assert_eq!(
            many,
            r#"<span class="amber">approvals missing from 30 of 40 machines: web_1, web_2 and 28 more</span>"#
        );
        let three = render_wait(&wait(3, 4).with_machines(names(3)));
        assert!(three.contains("from 3 of 4 machines: web_1, web_2 and web_3<"), "{three}");
    }

    #[test]
    fn times_are_elements_and_other_reasons_are_those_of_the_api() {
        let until = |reason| WaitFor { until: Some(Time(1_000)), ..WaitFor::of(reason) };
        let pause = render_wait(&until(WaitReason::Pause));
        assert!(
            pause.starts_with("waits for the end of the pause at <time datetime=\"1970-01-01T00:00:01Z\""),
            "{pause}"
        );
        let notice = render_wait(&until(WaitReason::Notice).with_machines(names(2)));
        assert!(notice.ends_with("</time> (no handler): web_1 and web_2"), "{notice}");
        let next = |reason| render_next_step(&until(reason));
        assert!(next(WaitReason::Pause).ends_with("</time>, after the pause"), "{}", next(WaitReason::Pause));
        assert!(next(WaitReason::Window).starts_with("next step announced at <time"), "{}", next(WaitReason::Window));
        let host = WaitFor { host: Some("n&1".into()), ..WaitFor::of(WaitReason::Host) };
        assert_eq!(render_next_step(&host), "next step waits for host n&#38;1");
        assert_eq!(render_wait(&host), "waits for host n&#38;1");
    }
}
