//! The Scheduled Events document, byte for byte, in every version.

use std::collections::BTreeSet;

use crate::support::{check_captured, check_golden};
use forewarn_wire::document::{
    EventView, Kind, Machine, NameStyle, Resource, Source, Status, is_shown, render_document, render_event,
};
use forewarn_wire::version::Version;
use proptest::prelude::*;
use serde_json::Value;

const fn iaas(name: &str) -> Resource<'_> {
    Resource { name, machine: Machine::Iaas }
}

const fn role(name: &str) -> Resource<'_> {
    Resource { name, machine: Machine::RoleInstance }
}

/// One event of each kind which together cover every variant of the other fields.
const EVENTS: [EventView<'_>; 5] = [
    EventView {
        id: 0x28512AF7_C957_4500_9BC4_842D6FB531E4,
        status: Status::Started,
        kind: Kind::Freeze,
        resources: &[iaas("web_0"), iaas("web_1")],
        not_before_unix_secs: Some(1_516_828_844),
        description: "Host server is undergoing maintenance.",
        source: Source::Platform,
        duration_secs: 9,
    },
    EventView {
        id: 1,
        status: Status::Scheduled,
        kind: Kind::Reboot,
        resources: &[role("FrontEnd_IN_0"), iaas("_odd \"name\"\\\n\u{1}é")],
        not_before_unix_secs: Some(1_583_020_800),
        description: "Quotes \", a backslash \\, a tab \t, \u{1F600}.",
        source: Source::User,
        duration_secs: 0,
    },
    EventView {
        id: u128::MAX,
        status: Status::Scheduled,
        kind: Kind::Redeploy,
        resources: &[iaas("db")],
        not_before_unix_secs: None,
        description: "",
        source: Source::User,
        duration_secs: -1,
    },
    EventView {
        id: 0x51941B56_8080_45AC_81AE_8BDA818F5958,
        status: Status::Scheduled,
        kind: Kind::Preempt,
        resources: &[iaas("spot")],
        not_before_unix_secs: Some(0),
        description: "",
        source: Source::Platform,
        duration_secs: -1,
    },
    EventView {
        id: 0xF020BA2E_3BC0_4C40_A10B_86575A9EABD5,
        status: Status::Started,
        kind: Kind::Terminate,
        resources: &[iaas("set_7")],
        not_before_unix_secs: None,
        description: "",
        source: Source::User,
        duration_secs: -1,
    },
];

fn document(version: Version, names: NameStyle, incarnation: u64, events: &[EventView<'_>]) -> Vec<u8> {
    let shown = events.iter().filter(|event| is_shown(version, event.kind));
    render_document(incarnation, shown.map(|event| render_event(version, names, event)))
}

#[test]
fn every_version_matches_its_golden_file() {
    for version in Version::ALL {
        let actual = document(version, NameStyle::Underscored, 18_446_744_073_709_551_615, &EVENTS);
        check_golden(&format!("events-{version}.json"), &actual);
    }
    let recommendation = EventView { kind: Kind::SpotRebalanceRecommendation, status: Status::Scheduled, ..EVENTS[0] };
    let preview = document(Version::PREVIEW, NameStyle::Underscored, 2, &[recommendation, EVENTS[0]]);
    check_golden("events-2024-07-09.json", &preview);
    let released = document(Version::V2020_07_01, NameStyle::Underscored, 2, &[recommendation, EVENTS[0]]);
    assert_eq!(released, document(Version::V2020_07_01, NameStyle::Underscored, 2, &EVENTS[..1]));
    let plain = document(Version::V2017_03_01, NameStyle::Plain, 2, &EVENTS);
    check_golden("events-2017-03-01-plain.json", &plain);
}

#[test]
fn plain_names_only_change_the_first_version() {
    for version in Version::ALL {
        let original = document(version, NameStyle::Underscored, 1, &EVENTS);
        let plain = document(version, NameStyle::Plain, 1, &EVENTS);
        assert_eq!(original != plain, version == Version::V2017_03_01, "{version}");
    }
}

#[test]
fn rendered_documents_match_captured_ones() {
    let event = |id, kind, resources, not_before_unix_secs| EventView {
        id,
        status: Status::Scheduled,
        kind,
        resources,
        not_before_unix_secs: Some(not_before_unix_secs),
        description: "",
        source: Source::Platform,
        duration_secs: -1,
    };
    let reboot =
        event(0x28512AF7_C957_4500_9BC4_842D6FB531E4, Kind::Reboot, const { &[iaas("sample_4")] }, 1_516_828_844);
    let actual = document(Version::V2017_08_01, NameStyle::Underscored, 192, &[reboot, reboot]);
    check_captured("captured-2017-08-01-reboot.json", &actual);

    let preempt = event(
        0x51941B56_8080_45AC_81AE_8BDA818F5958,
        Kind::Preempt,
        const { &[iaas("aks-workloads1-15413341-vmss_3")] },
        1_710_618_729,
    );
    let actual = document(Version::V2019_08_01, NameStyle::Underscored, 1, &[preempt]);
    check_captured("captured-2019-08-01-preempt.json", &actual);

    let redeploy = EventView {
        description: "Virtual machine is going to be redeployed as requested by authorized user.",
        source: Source::User,
        ..event(0xA9A902A0 << 96, Kind::Redeploy, const { &[iaas("vm")] }, 1_708_484_927)
    };
    let actual = render_event(Version::V2020_07_01, NameStyle::Underscored, &redeploy);
    check_captured("captured-2020-07-01-redeploy.json", &actual);

    for version in Version::ALL {
        check_captured("captured-empty.json", &document(version, NameStyle::Underscored, 1, &[]));
    }
}

#[test]
fn kinds_are_shown_from_the_version_that_introduced_them() {
    let first = |kind| Version::ALL.into_iter().find(|&version| is_shown(version, kind));
    assert_eq!(first(Kind::Freeze), Some(Version::V2017_03_01));
    assert_eq!(first(Kind::Reboot), Some(Version::V2017_03_01));
    assert_eq!(first(Kind::Redeploy), Some(Version::V2017_03_01));
    assert_eq!(first(Kind::Preempt), Some(Version::V2017_11_01));
    assert_eq!(first(Kind::Terminate), Some(Version::V2019_01_01));
    assert_eq!(first(Kind::SpotRebalanceRecommendation), None, "only the preview shows it");
    for kind in Kind::ALL {
        assert!(is_shown(Version::PREVIEW, kind), "{kind:?}");
        let shown: Vec<_> = Version::ALL.iter().map(|&version| is_shown(version, kind)).collect();
        assert!(shown.is_sorted(), "{kind:?} went away again: {shown:?}");
    }
}

#[test]
fn not_before_is_an_rfc_1123_date_and_empty_once_started() {
    let check = |status, not_before_unix_secs, expected: &str| {
        let event = EventView { status, not_before_unix_secs, ..EVENTS[0] };
        let rendered: Value = parse(&render_event(Version::V2020_07_01, NameStyle::Underscored, &event));
        assert_eq!(rendered["NotBefore"], expected, "{not_before_unix_secs:?}");
    };
    check(Status::Scheduled, Some(1_474_309_787), "Mon, 19 Sep 2016 18:29:47 GMT");
    check(Status::Scheduled, Some(1_583_020_800), "Sun, 01 Mar 2020 00:00:00 GMT");
    check(Status::Scheduled, Some(1_582_934_400), "Sat, 29 Feb 2020 00:00:00 GMT");
    check(Status::Scheduled, None, "");
    check(Status::Started, Some(1_583_020_800), "");
    check(Status::Started, None, "");
    // Times out of range are clamped.
    check(Status::Scheduled, Some(-1), "Thu, 01 Jan 1970 00:00:00 GMT");
    check(Status::Scheduled, Some(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
}

fn parse(json: &[u8]) -> Value {
    serde_json::from_slice(json).expect("what was rendered is JSON")
}

fn keys_of(version: Version) -> BTreeSet<&'static str> {
    let since = [
        (Version::V2017_03_01, "EventId"),
        (Version::V2017_03_01, "EventStatus"),
        (Version::V2017_03_01, "EventType"),
        (Version::V2017_03_01, "ResourceType"),
        (Version::V2017_03_01, "Resources"),
        (Version::V2017_03_01, "NotBefore"),
        (Version::V2019_04_01, "Description"),
        (Version::V2019_08_01, "EventSource"),
        (Version::V2020_07_01, "DurationInSeconds"),
    ];
    since.iter().filter(|(since, _)| version >= *since).map(|&(_, key)| key).collect()
}

proptest! {
    #[test]
    fn any_event_is_json_with_exactly_the_keys_of_its_version(
        id: u128,
        names in prop::collection::vec((any::<String>(), any::<bool>()), 0..4),
        not_before_unix_secs: Option<i64>,
        description: String,
        duration_secs: i64,
        incarnation: u64,
        kind in prop::sample::select(Kind::ALL.to_vec()),
        version in prop::sample::select(Version::ALL.to_vec()),
        started: bool,
        plain: bool,
    ) {
        let machine = |&iaas| if iaas { Machine::Iaas } else { Machine::RoleInstance };
        let resources: Vec<_> =
            names.iter().map(|(name, iaas)| Resource { name, machine: machine(iaas) }).collect();
        let event = EventView {
            id,
            status: if started { Status::Started } else { Status::Scheduled },
            kind,
            resources: &resources,
            not_before_unix_secs,
            description: &description,
            source: Source::User,
            duration_secs,
        };
        let style = if plain { NameStyle::Plain } else { NameStyle::Underscored };
        let fragment = render_event(version, style, &event);
        let rendered = parse(&render_document(incarnation, [&fragment, &fragment]));

        prop_assert_eq!(rendered.as_object().unwrap().len(), 2);
        prop_assert_eq!(rendered["DocumentIncarnation"].as_u64(), Some(incarnation));
        let events = rendered["Events"].as_array().unwrap();
        prop_assert_eq!(events.len(), 2);
        let found: BTreeSet<_> = events[1].as_object().unwrap().keys().map(String::as_str).collect();
        prop_assert_eq!(found, keys_of(version));

        let first = version == Version::V2017_03_01 && !plain;
        let prefix = |&iaas: &bool| if iaas && first { "_" } else { "" };
        let shown: Vec<_> =
            names.iter().map(|(name, iaas)| format!("{}{name}", prefix(iaas))).collect();
        prop_assert_eq!(&events[0]["Resources"], &Value::from(shown));
        if version >= Version::V2019_04_01 {
            prop_assert_eq!(&events[0]["Description"], &Value::from(description.as_str()));
        }
        if version >= Version::V2020_07_01 {
            prop_assert_eq!(&events[0]["DurationInSeconds"], &Value::from(duration_secs));
        }
    }
}
