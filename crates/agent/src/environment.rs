//! The environment variables that describe an event to hooks and actions.

use forewarn_client::Event;

/// Names of the variables, in the order of [`event_variables`].
pub const VARIABLES: [&str; 8] = [
    "EVENT_ID",
    "EVENT_TYPE",
    "EVENT_STATUS",
    "EVENT_RESOURCES",
    "EVENT_NOT_BEFORE",
    "EVENT_SOURCE",
    "EVENT_DESCRIPTION",
    "EVENT_DURATION_SECONDS",
];

/// Names and values for an event. Values that the service does not provide are empty.
pub fn event_variables(event: &Event) -> impl Iterator<Item = (&'static str, String)> {
    let names: Vec<&str> = event.resources.iter().map(|resource| resource.name()).collect();
    let values = [
        event.id.to_string(),
        event.kind.to_string(),
        event.status.as_str().to_owned(),
        names.join(","),
        event.not_before_text(),
        event.source.as_ref().map(|source| source.as_str().to_owned()).unwrap_or_default(),
        event.description.clone().unwrap_or_default(),
        event.duration_secs.map(|secs| secs.to_string()).unwrap_or_default(),
    ];
    // The operating system rejects variables that contain a NUL byte.
    VARIABLES.into_iter().zip(values.map(|value| value.replace('\0', "")))
}
