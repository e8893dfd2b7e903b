//! Every way in which the metadata endpoint says no: a status, and a body that says why and what to
//! do.
//!
//! Bodies are `{ "error": "…" }`, with the blanks that the original puts there. Where a body of the
//! original is known, ours begins with its words, because programs look for them; the advice comes
//! after. When a request is refused, and which check comes first, is decided elsewhere.

use std::fmt::Write;

use crate::approval::{ApprovalError, BODY_BYTES_MAX, RequestedId};
use crate::guid;
use crate::query::{PARAMETERS_MAX, QueryError, WAIT_SECS_MAX};
use crate::sign_in;
use crate::version::{Endpoint, Version, VersionError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    MetadataHeaderMissing,
    /// `X-Forwarded-For` is there.
    Forwarded,
    ApiVersionMissing {
        endpoint: Endpoint,
    },
    ApiVersionNotADate {
        endpoint: Endpoint,
        given: String,
    },
    ApiVersionNotServed {
        endpoint: Endpoint,
        given: String,
    },
    RepeatedParameter {
        name: String,
    },
    TooManyParameters,
    BadWait {
        given: String,
    },
    BadFormat {
        given: String,
    },
    /// One value, or a listing, was asked for as JSON.
    TextFormatNeeded {
        path: String,
    },
    UnknownPath {
        path: String,
    },
    /// A path below `/metadata/instance` that leads nowhere.
    UnknownElement {
        path: String,
    },
    /// `allow` is the value of the `Allow` header.
    MethodNotAllowed {
        method: String,
        allow: &'static str,
    },
    MalformedApproval(ApprovalError),
    UnknownEvents(Vec<RequestedId>),
    BodyTooLarge,
    HeaderTooLarge,
    TooManyRequests {
        retry_after_secs: u32,
    },
    /// No machine has this address.
    UnknownCaller {
        address: String,
    },
    /// The path names a machine that does not exist.
    UnknownMachine {
        name: String,
    },
    AmbiguousName {
        name: String,
        candidates: Vec<String>,
    },
    /// A token was asked for by a machine that was given no identity, or not this one.
    IdentityNotFound,
    /// A token was asked for, and not for whom.
    ResourceMissing,
    /// A token was asked for somebody that this server does not speak for.
    ResourceUnknown {
        given: String,
    },
    /// The server has not read its store yet.
    Starting {
        retry_after_secs: u32,
    },
    Overloaded {
        retry_after_secs: u32,
    },
    /// The endpoint is away for a moment, as the original is when it is updated.
    Gone,
    /// It is not known whether what was asked for has been stored.
    OutcomeUnknown {
        retry_after_secs: u32,
    },
    Internal,
}

impl Refusal {
    /// What to answer to an `api-version` that named no version.
    pub fn api_version(endpoint: Endpoint, given: Option<&str>, error: VersionError) -> Refusal {
        let given = given.unwrap_or_default().to_owned();
        match error {
            VersionError::Missing => Refusal::ApiVersionMissing { endpoint },
            VersionError::NotADate => Refusal::ApiVersionNotADate { endpoint, given },
            VersionError::NotServed => Refusal::ApiVersionNotServed { endpoint, given },
        }
    }

    pub fn status(&self) -> u16 {
        match self {
            Refusal::MetadataHeaderMissing
            | Refusal::Forwarded
            | Refusal::ApiVersionMissing { .. }
            | Refusal::ApiVersionNotADate { .. }
            | Refusal::ApiVersionNotServed { endpoint: Endpoint::Instance, .. }
            | Refusal::RepeatedParameter { .. }
            | Refusal::TooManyParameters
            | Refusal::BadWait { .. }
            | Refusal::BadFormat { .. }
            | Refusal::TextFormatNeeded { .. }
            | Refusal::MalformedApproval(_)
            | Refusal::IdentityNotFound
            | Refusal::ResourceMissing
            | Refusal::ResourceUnknown { .. }
            | Refusal::UnknownEvents(_) => 400,
            Refusal::ApiVersionNotServed { endpoint: Endpoint::ScheduledEvents, .. }
            | Refusal::UnknownPath { .. }
            | Refusal::UnknownElement { .. }
            | Refusal::UnknownCaller { .. }
            | Refusal::UnknownMachine { .. } => 404,
            Refusal::MethodNotAllowed { .. } => 405,
            Refusal::AmbiguousName { .. } => 409,
            Refusal::Gone => 410,
            Refusal::BodyTooLarge => 413,
            Refusal::TooManyRequests { .. } => 429,
            Refusal::HeaderTooLarge => 431,
            Refusal::Internal => 500,
            Refusal::Starting { .. } | Refusal::Overloaded { .. } | Refusal::OutcomeUnknown { .. } => 503,
        }
    }

    /// The value of `Retry-After`, for the refusals that time cures.
    pub fn retry_after_secs(&self) -> Option<u32> {
        let (Refusal::TooManyRequests { retry_after_secs }
        | Refusal::Starting { retry_after_secs }
        | Refusal::Overloaded { retry_after_secs }
        | Refusal::OutcomeUnknown { retry_after_secs }) = self
        else {
            return None;
        };
        Some(*retry_after_secs)
    }

    /// The value of `Allow`.
    pub fn allow(&self) -> Option<&'static str> {
        let Refusal::MethodNotAllowed { allow, .. } = self else {
            return None;
        };
        Some(allow)
    }

    /// The body, to be sent as `application/json; charset=utf-8`.
    pub fn body(&self) -> String {
        if let Some(error) = self.oauth_error() {
            return sign_in::refusal(error, &self.message()).to_string();
        }
        let message = json_string(&self.message());
        match self.newest_versions() {
            Some(versions) => {
                let versions = versions.map(|version| format!("\"{version}\"")).join(", ");
                format!("{{ \"error\": {message}, \"newest-versions\": [{versions}] }}")
            }
            None => format!("{{ \"error\": {message} }}"),
        }
    }

    /// The sentence in the body.
    pub fn message(&self) -> String {
        match self {
            Refusal::MetadataHeaderMissing => {
                "Bad request. Required metadata header not specified. Send the header Metadata: \
                 true."
                    .to_owned()
            }
            Refusal::Forwarded => "Bad request. The request came through a proxy: it has the header \
                 X-Forwarded-For. Ask without a proxy, and leave that header out."
                .to_owned(),
            Refusal::ApiVersionMissing { endpoint } => invalid_version(*endpoint, "none was given"),
            Refusal::ApiVersionNotADate { endpoint, given } => {
                invalid_version(*endpoint, &format!("{} is not a date", quoted(given)))
            }
            Refusal::ApiVersionNotServed { endpoint, given } => not_served(*endpoint, given),
            Refusal::RepeatedParameter { name } => format!(
                "Bad request. The query parameter {} is there more than once. Give each \
                 parameter once.",
                quoted(name)
            ),
            Refusal::TooManyParameters => {
                format!(
                    "Bad request. The query has more than {PARAMETERS_MAX} parameters. Leave out \
                     those not needed."
                )
            }
            Refusal::BadWait { given } => format!(
                "Bad request. wait={} is not a number of seconds from 0 to {WAIT_SECS_MAX}. Send \
                 for example wait=60.",
                shortened(given)
            ),
            Refusal::BadFormat { given } => format!(
                "Bad request. There is no format {}. Send format=json or format=text, or leave \
                 it out for JSON.",
                quoted(given)
            ),
            Refusal::TextFormatNeeded { path } => format!(
                "Bad request. {} can only be had as text. Add format=text to the query, or ask \
                 for a path above it.",
                shortened(path)
            ),
            Refusal::UnknownPath { path } => format!(
                "Not found. There is nothing at {}. Ask for /metadata/scheduledevents, \
                 /metadata/instance or /metadata/versions.",
                shortened(path)
            ),
            Refusal::UnknownElement { path } => format!(
                "Not found. This version has no element {}. Names are case-sensitive; add \
                 format=text to a path above it for a list of what is there.",
                shortened(path)
            ),
            Refusal::MethodNotAllowed { method, allow } => format!(
                "Method not allowed. This path does not take {}. Use {}.",
                shortened(method),
                allow.replace(", ", " or ")
            ),
            Refusal::MalformedApproval(error) => format!("Bad request. {error}"),
            Refusal::UnknownEvents(ids) => unknown_events(ids),
            Refusal::BodyTooLarge => {
                format!(
                    "Payload too large. A body has at most {BODY_BYTES_MAX} bytes. Approve the \
                     events in several requests."
                )
            }
            Refusal::HeaderTooLarge => "Request header fields too large. Send fewer or shorter headers and a shorter \
                 path."
                .to_owned(),
            Refusal::TooManyRequests { retry_after_secs } => format!(
                "Too many requests. This machine asks more often than the server allows. Ask \
                 again in {}.",
                seconds(*retry_after_secs)
            ),
            Refusal::UnknownCaller { address } => format!(
                "Not found. No machine with the address {} is registered. Register a machine \
                 with this address through the management API, or put /vm/<name> before the path \
                 where the listener allows it.",
                shortened(address)
            ),
            Refusal::UnknownMachine { name } => format!(
                "Not found. There is no machine {}. Name one that is registered, by its name or \
                 its vmId.",
                quoted(name)
            ),
            Refusal::AmbiguousName { name, candidates } => format!(
                "Conflict. More than one machine is named {}. Ask for one of these: {}.",
                quoted(name),
                listed(candidates.iter().map(|candidate| shortened(candidate)))
            ),
            Refusal::IdentityNotFound => {
                "Identity not found. This machine was given no identity, or not this one. Give it one \
                 through the management API."
                    .to_owned()
            }
            Refusal::ResourceMissing => "The query parameter resource is missing. Add \
                 resource=https://management.azure.com/ to the query."
                .to_owned(),
            Refusal::ResourceUnknown { given } => format!(
                "This server gives no tokens for {}. Add resource=https://management.azure.com/ \
                 to the query, or the https address of the management API.",
                quoted(given)
            ),
            Refusal::Starting { retry_after_secs } => {
                format!("Service unavailable. The server is starting. Ask again in {}.", seconds(*retry_after_secs))
            }
            Refusal::Overloaded { retry_after_secs } => format!(
                "Service unavailable. The server has more to do than it can take on; nothing was \
                 changed. Ask again in {}.",
                seconds(*retry_after_secs)
            ),
            Refusal::Gone => {
                "Gone. The endpoint is away for a moment. Ask again, for 70 seconds at the most.".to_owned()
            }
            Refusal::OutcomeUnknown { retry_after_secs } => format!(
                "Service unavailable. The server cannot say whether this was stored. Ask again \
                 in {}; asking twice does no harm.",
                seconds(*retry_after_secs)
            ),
            Refusal::Internal => "Internal server error. The fault is the server's, and its log says more. Ask \
                 again."
                .to_owned(),
        }
    }

    /// The one word of refusals that are in OAuth's shape.
    fn oauth_error(&self) -> Option<&'static str> {
        if matches!(self, Refusal::IdentityNotFound | Refusal::ResourceMissing) {
            return Some("invalid_request");
        }
        matches!(self, Refusal::ResourceUnknown { .. }).then_some("invalid_resource")
    }

    fn newest_versions(&self) -> Option<[&'static str; 3]> {
        let (Refusal::ApiVersionMissing { endpoint }
        | Refusal::ApiVersionNotADate { endpoint, .. }
        | Refusal::ApiVersionNotServed { endpoint, .. }) = self
        else {
            return None;
        };
        Some(endpoint.newest_versions())
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Refusal {
        match error {
            QueryError::Repeated(name) => Refusal::RepeatedParameter { name },
            QueryError::TooMany => Refusal::TooManyParameters,
        }
    }
}

impl From<ApprovalError> for Refusal {
    fn from(error: ApprovalError) -> Refusal {
        if error == ApprovalError::BodyTooLarge {
            return Refusal::BodyTooLarge;
        }
        Refusal::MalformedApproval(error)
    }
}

/// A caller's own text is repeated up to this length: enough to recognise it.
const GIVEN_CHARS_MAX: usize = 100;

/// So many things are listed by name; the others are counted.
const LISTED_MAX: usize = 10;

fn invalid_version(endpoint: Endpoint, what: &str) -> String {
    let [newest, ..] = endpoint.newest_versions();
    format!(
        "Bad request. api-version is invalid or was not specified in the request. For more \
         information refer to aka.ms/azureimds. Here {what}: add api-version={newest} to the \
         query."
    )
}

fn not_served(endpoint: Endpoint, given: &str) -> String {
    let given = shortened(given);
    match endpoint {
        Endpoint::Instance => invalid_version(endpoint, &format!("{given} is not served on this path")),
        Endpoint::ScheduledEvents => format!(
            "Not found. Invalid version requested. {given} is not served on this path. Use one \
             of these: {}.",
            Version::ALL.map(Version::as_str).join(", ")
        ),
    }
}

fn unknown_events(ids: &[RequestedId]) -> String {
    let names = ids.iter().map(|id| match id {
        RequestedId::Guid(id) => guid::Upper(*id).to_string(),
        RequestedId::Other(text) => format!("{} (not a GUID)", quoted(text)),
    });
    format!(
        "Bad request. Not in this machine's document: {}. Nothing was approved. Send only \
         EventIds that the document shows.",
        listed(names)
    )
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let rest = names.len().saturating_sub(LISTED_MAX);
    let mut text = names.take(LISTED_MAX).collect::<Vec<_>>().join(", ");
    if rest > 0 {
        write!(text, " and {rest} more").expect("a string takes all that is written");
    }
    text
}

fn seconds(count: u32) -> String {
    match count {
        1 => "1 second".to_owned(),
        _ => format!("{count} seconds"),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", shortened(text))
}

pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(GIVEN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string can always be written as JSON")
}
