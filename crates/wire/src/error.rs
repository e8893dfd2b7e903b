//! Errors of the metadata endpoint: each has a status and a body that says what is wrong and what to do.
//!
//! Bodies have the form `{ "error": "…" }`, with the same spaces as in Azure. If Azure's body is known, ours
//! starts with the same words, because programs search for them; the advice follows. The metadata crate decides
//! when a request is rejected and which check comes first.

use std::fmt::Write;

use crate::approval::{ApprovalError, BODY_BYTES_MAX, RequestedId};
use crate::guid;
use crate::query::{PARAMETERS_MAX, QueryError, WAIT_SECS_MAX};
use crate::sign_in;
use crate::version::{Endpoint, Version, VersionError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    MetadataHeaderMissing,
    /// The request has the header `X-Forwarded-For`.
    Forwarded,
    /// A web page sent the request.
    Browser,
    /// The `Host` header of a request to a loopback listener is a name that is not known.
    ForeignHost {
        host: String,
    },
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
    /// A single value or a listing was requested as JSON.
    TextFormatNeeded {
        path: String,
    },
    UnknownPath {
        path: String,
    },
    /// There is no such path below `/metadata/instance`.
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
    /// The machine that requests a token has no identity, or not the requested one.
    IdentityNotFound,
    /// The request for a token does not name a resource.
    ResourceMissing,
    /// The server does not issue tokens for the requested resource.
    ResourceUnknown {
        given: String,
    },
    /// The server has not loaded its store yet.
    Starting {
        retry_after_secs: u32,
    },
    Overloaded {
        retry_after_secs: u32,
    },
    /// The host agent needs the server for this request and cannot reach it.
    ServerUnreachable {
        retry_after_secs: u32,
    },
    /// The machine is not on the host of this agent, or not yet.
    NotOnThisHost {
        retry_after_secs: u32,
    },
    /// The endpoint is temporarily unavailable, like Azure's endpoint during an update.
    Gone,
    /// It is unknown whether the change was stored.
    OutcomeUnknown {
        retry_after_secs: u32,
    },
    Internal,
    /// A fault asks for a status that the service itself never sends.
    Injected {
        status: u16,
    },
}

impl Refusal {
    /// The error for an invalid `api-version`.
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
            Refusal::Browser | Refusal::ForeignHost { .. } => 403,
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
            Refusal::Injected { status } => *status,
            Refusal::Starting { .. }
            | Refusal::Overloaded { .. }
            | Refusal::ServerUnreachable { .. }
            | Refusal::NotOnThisHost { .. }
            | Refusal::OutcomeUnknown { .. } => 503,
        }
    }

    /// The value of `Retry-After`, for temporary errors.
    pub fn retry_after_secs(&self) -> Option<u32> {
        let (Refusal::TooManyRequests { retry_after_secs }
        | Refusal::Starting { retry_after_secs }
        | Refusal::Overloaded { retry_after_secs }
        | Refusal::ServerUnreachable { retry_after_secs }
        | Refusal::NotOnThisHost { retry_after_secs }
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

    /// The message in the body.
    pub fn message(&self) -> String {
        match self {
            Refusal::MetadataHeaderMissing => {
                "Bad request. Required metadata header not specified. Send the header Metadata: true.".to_owned()
            }
            Refusal::Forwarded => "Bad request. The request has the header X-Forwarded-For, so it came through a \
                 proxy. Send it directly, without this header."
                .to_owned(),
            Refusal::Browser => {
                "Forbidden. The request has the header Origin, so it came from a web page. Pages cannot read \
                 instance metadata."
                    .to_owned()
            }
            Refusal::ForeignHost { host } => format!(
                "Forbidden. The Host header is {}. Call a loopback listener by its address or as localhost, or allow the \
                 name with --metadata ADDR,host=NAME.",
                quote(host)
            ),
            Refusal::ApiVersionMissing { endpoint } => invalid_version(*endpoint, "No api-version was specified"),
            Refusal::ApiVersionNotADate { endpoint, given } => {
                invalid_version(*endpoint, &format!("{} is not a date", quote(given)))
            }
            Refusal::ApiVersionNotServed { endpoint, given } => unknown_version(*endpoint, given),
            Refusal::RepeatedParameter { name } => format!(
                "Bad request. The query parameter {} occurs more than once. Specify each parameter only once.",
                quote(name)
            ),
            Refusal::TooManyParameters => {
                format!(
                    "Bad request. The query has more than {PARAMETERS_MAX} parameters. Remove those that are not \
                     needed."
                )
            }
            Refusal::BadWait { given } => format!(
                "Bad request. wait={} is invalid. Specify a number of seconds from 0 to {WAIT_SECS_MAX}, for \
                 example wait=60.",
                shorten(given)
            ),
            Refusal::BadFormat { given } => format!(
                "Bad request. The format {} is unknown. Use format=json or format=text, or omit it for JSON.",
                quote(given)
            ),
            Refusal::TextFormatNeeded { path } => format!(
                "Bad request. {} is only available as text. Add format=text to the query, or request a parent path.",
                shorten(path)
            ),
            Refusal::UnknownPath { path } => format!(
                "Not found. There is nothing at {}. Use /metadata/scheduledevents, /metadata/instance or \
                 /metadata/versions.",
                shorten(path)
            ),
            Refusal::UnknownElement { path } => format!(
                "Not found. This version has no element {}. Names are case-sensitive. To list the elements of a \
                 parent path, request it with format=text.",
                shorten(path)
            ),
            Refusal::MethodNotAllowed { method, allow } => format!(
                "Method not allowed. This path does not support {}. Use {}.",
                shorten(method),
                allow.replace(", ", " or ")
            ),
            Refusal::MalformedApproval(error) => format!("Bad request. {error}"),
            Refusal::UnknownEvents(ids) => unknown_events(ids),
            Refusal::BodyTooLarge => {
                format!(
                    "Payload too large. The body must not be larger than {BODY_BYTES_MAX} bytes. Approve the events \
                     in several requests."
                )
            }
            Refusal::HeaderTooLarge => {
                "Request header fields too large. Send fewer or shorter headers, or a shorter path.".to_owned()
            }
            Refusal::TooManyRequests { retry_after_secs } => format!(
                "Too many requests. This machine sends more requests than the server allows. Try again in {}.",
                render_seconds(*retry_after_secs)
            ),
            Refusal::UnknownCaller { address } => format!(
                "Not found. No machine with the address {} is registered. Register one through the management API \
                 or, if the listener allows it, put /vm/<name> before the path.",
                shorten(address)
            ),
            Refusal::UnknownMachine { name } => format!(
                "Not found. There is no machine {}. Use the name or the vmId of a registered machine.",
                quote(name)
            ),
            Refusal::AmbiguousName { name, candidates } => format!(
                "Conflict. More than one machine is named {}. Use one of these names: {}.",
                quote(name),
                render_list(candidates.iter().map(|candidate| shorten(candidate)))
            ),
            Refusal::IdentityNotFound => "Identity not found. This machine has no identity, or not the requested \
                 one. Assign one through the management API."
                .to_owned(),
            Refusal::ResourceMissing => "The query parameter resource is missing. Add \
                 resource=https://management.azure.com/ to the query."
                .to_owned(),
            Refusal::ResourceUnknown { given } => format!(
                "This server does not issue tokens for {}. Use resource=https://management.azure.com/ or the HTTPS \
                 address of the management API.",
                quote(given)
            ),
            Refusal::Starting { retry_after_secs } => {
                format!(
                    "Service unavailable. The server is starting. Try again in {}.",
                    render_seconds(*retry_after_secs)
                )
            }
            Refusal::Overloaded { retry_after_secs } => format!(
                "Service unavailable. The server is overloaded, and nothing was changed. Try again in {}.",
                render_seconds(*retry_after_secs)
            ),
            Refusal::ServerUnreachable { retry_after_secs } => format!(
                "Service unavailable. This request needs the Forewarn server, which cannot be reached from this host. Try \
                 again in {}; repeating the request is safe.",
                render_seconds(*retry_after_secs)
            ),
            Refusal::NotOnThisHost { retry_after_secs } => format!(
                "Service unavailable. This host does not serve the machine, or not yet. Try again in {}.",
                render_seconds(*retry_after_secs)
            ),
            Refusal::Gone => {
                "Gone. The endpoint is temporarily unavailable. Try again for up to 70 seconds.".to_owned()
            }
            Refusal::OutcomeUnknown { retry_after_secs } => format!(
                "Service unavailable. The server does not know whether the change was stored. Try again in {}; \
                 repeating the request is safe.",
                render_seconds(*retry_after_secs)
            ),
            Refusal::Injected { status } => format!("Status {status}. A fault was injected."),
            Refusal::Internal => {
                "Internal server error. An unexpected error occurred, and the server log has the details. Try again."
                    .to_owned()
            }
        }
    }

    /// The error code of errors that use the OAuth format.
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

/// Maximum length to which text from the request is repeated in a message.
const GIVEN_CHARS_MAX: usize = 100;

/// Maximum number of items listed by name. The others are counted.
const LISTED_MAX: usize = 10;

fn invalid_version(endpoint: Endpoint, problem: &str) -> String {
    let [newest, ..] = endpoint.newest_versions();
    format!(
        "Bad request. api-version is invalid or was not specified in the request. For more information refer to \
         aka.ms/azureimds. {problem}: add api-version={newest} to the query."
    )
}

fn unknown_version(endpoint: Endpoint, given: &str) -> String {
    let given = shorten(given);
    match endpoint {
        Endpoint::Instance => invalid_version(endpoint, &format!("{given} is not supported on this path")),
        Endpoint::ScheduledEvents => format!(
            "Not found. Invalid version requested. {given} is not supported on this path. Use one of these versions: \
             {}.",
            Version::ALL.map(Version::as_str).join(", ")
        ),
    }
}

fn unknown_events(ids: &[RequestedId]) -> String {
    let names = ids.iter().map(|id| match id {
        RequestedId::Guid(id) => guid::Upper(*id).to_string(),
        RequestedId::Other(text) => format!("{} (not a GUID)", quote(text)),
    });
    format!(
        "Bad request. This machine's document does not contain {}. No event was approved. Send only EventIds that \
         the document shows.",
        render_list(names)
    )
}

fn render_list(names: impl ExactSizeIterator<Item = String>) -> String {
    let rest = names.len().saturating_sub(LISTED_MAX);
    let mut text = names.take(LISTED_MAX).collect::<Vec<_>>().join(", ");
    if rest > 0 {
        write!(text, " and {rest} more").expect("writing to a string does not fail");
    }
    text
}

fn render_seconds(count: u32) -> String {
    match count {
        1 => "1 second".to_owned(),
        _ => format!("{count} seconds"),
    }
}

fn quote(text: &str) -> String {
    format!("'{}'", shorten(text))
}

pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(GIVEN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always valid JSON")
}
