//! The cases of a check, in the order of the report.

use forewarn_api_types::nearest::describe_unknown;

use crate::Profile;

/// A built-in scenario, or a period without events.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub scenario: Option<&'static str>,
    /// The machine that the handler runs as.
    pub subject: &'static str,
    /// Divisor of the notice period.
    pub scale: u32,
    /// Whether the machine is gone at the end, so that nothing more is expected of the handler.
    pub ends_machine: bool,
    /// The only profile that the case applies to; None for all.
    pub profile: Option<Profile>,
}

/// Turns 15 minutes into 30 seconds: a handler that polls as rarely as Preempt allows still sees every event.
const SCALE: u32 = 30;

/// Turns 30 seconds into 10.
const SCALE_PREEMPT: u32 = 3;

/// Turns 15 minutes into 60 seconds: a handler that polls as rarely as Preempt allows approves in time and is then held.
const SCALE_GATE: u32 = 15;

const fn case(name: &'static str, subject: &'static str) -> Case {
    Case { name, scenario: Some(name), subject, scale: SCALE, ends_machine: false, profile: None }
}

pub const ALL: &[Case] = &[
    Case { scenario: None, ..case("idle", "web_0") },
    case("user-reboot", "web_0"),
    case("user-redeploy", "web_0"),
    case("live-migration", "web_0"),
    case("host-maintenance", "app_0"),
    case("host-failure", "web_0"),
    case("hardware-failure", "web_0"),
    case("canceled-maintenance", "node_0"),
    Case { scale: SCALE_PREEMPT, ends_machine: true, ..case("eviction", "spot_0") },
    Case { ends_machine: true, ..case("terminate", "pool_2") },
    Case {
        scale: SCALE_GATE,
        ends_machine: true,
        // The gate does not hold handlers that approve for others, or never.
        profile: Some(Profile::Own),
        ..case("terminate-gate", "gate_1")
    },
    case("someone-else", "pair_0"),
    case("unknown-type", "web_0"),
    case("throttled", "web_0"),
    case("gone", "web_0"),
    case("server-error", "web_0"),
    case("unavailable", "web_0"),
    case("reset", "web_0"),
    case("truncated", "web_0"),
    case("malformed", "web_0"),
    case("slow-answers", "web_0"),
    case("slow-first-call", "web_0"),
    case("incarnation-restart", "web_0"),
];

/// Former names of cases, which stay valid.
const RENAMED: &[(&str, &str)] = &[("cancelled-maintenance", "canceled-maintenance")];

fn current_name(name: &str) -> &str {
    RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

/// The selected cases, in the order of the report; by default all that apply to the profile.
pub fn select(names: &[String], profile: Profile) -> Result<Vec<Case>, String> {
    let known: Vec<&str> = ALL.iter().map(|case| case.name).collect();
    let names: Vec<&str> = names.iter().map(|name| current_name(name)).collect();
    if let Some(unknown_name) = names.iter().find(|name| !known.contains(name)) {
        return Err(describe_unknown("case", unknown_name, &known));
    }
    let fits = |case: &&Case| case.profile.is_none_or(|only| only == profile);
    let named = |case: &&Case| names.contains(&case.name);
    if let Some(other) = ALL.iter().filter(named).find(|case| !fits(case)) {
        let why = "applies only to handlers that approve their own events: remove it, or --profile";
        return Err(format!("case '{}' {why}", other.name));
    }
    Ok(ALL.iter().filter(|case| fits(case) && (names.is_empty() || named(case))).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_that_do_not_apply_to_a_profile_are_left_out() {
        let gate = ["terminate-gate".to_owned()];
        let Err(message) = select(&gate, Profile::Never) else { panic!("it fits") };
        assert!(message.contains("approve their own events"), "{message}");
        assert_eq!(select(&[], Profile::All).unwrap().len() + 1, select(&[], Profile::Own).unwrap().len());
    }

    #[test]
    fn an_unknown_case_is_reported_with_a_suggestion() {
        let select = |names: &[String]| select(names, Profile::Own);
        let Err(message) = select(&["evicton".into()]) else { panic!("it is not known") };
        assert!(message.starts_with("unknown case 'evicton'. Did you mean 'eviction'?"), "{message}");
        assert_eq!(select(&["reset".into(), "gone".into()]).unwrap().len(), 2);
        assert_eq!(select(&["cancelled-maintenance".into()]).unwrap()[0].name, "canceled-maintenance");
    }
}
