//! Errors of the metadata endpoint: each has a status and a body that says what is wrong and what to do.
//!
//! Bodies have the form `{ "error": "…" }`, with the same spaces as in Azure. If Azure's body is known, ours
//! starts with the same words, because programs search for them; the advice follows. The metadata crate decides
//! when a request is rejected and which check comes first.

use std::fmt::Write;

use crate::approval::{ApprovalError, BODY_BYTES_MAX, RequestedId};
use crate::attested::NONCE_CHARS_MAX;
use crate::guid;
use crate::query::{PARAMETERS_MAX, QueryError, WAIT_SECS_MAX};
use crate::sign_in;
use crate::version::{Endpoint, Version, VersionError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataError {
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
    BadNonce {
        given: String,
    },
    /// The endpoint has no authority that could sign documents.
    AttestationUnavailable,
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
    /// The caller's bridge port belongs to no machine.
    UnknownPort,
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

impl MetadataError {
    /// The error for an invalid `api-version`.
    pub fn api_version(endpoint: Endpoint, given: Option<&str>, error: VersionError) -> MetadataError {
        let given = given.unwrap_or_default().to_owned();
        match error {
            VersionError::Missing => MetadataError::ApiVersionMissing { endpoint },
            VersionError::NotADate => MetadataError::ApiVersionNotADate { endpoint, given },
            VersionError::NotServed => MetadataError::ApiVersionNotServed { endpoint, given },
        }
    }

    pub fn status(&self) -> u16 {
        match self {
            MetadataError::MetadataHeaderMissing
            | MetadataError::Forwarded
            | MetadataError::ApiVersionMissing { .. }
            | MetadataError::ApiVersionNotADate { .. }
            | MetadataError::ApiVersionNotServed { endpoint: Endpoint::Instance, .. }
            | MetadataError::RepeatedParameter { .. }
            | MetadataError::TooManyParameters
            | MetadataError::BadWait { .. }
            | MetadataError::BadFormat { .. }
            | MetadataError::BadNonce { .. }
            | MetadataError::TextFormatNeeded { .. }
            | MetadataError::MalformedApproval(_)
            | MetadataError::IdentityNotFound
            | MetadataError::ResourceMissing
            | MetadataError::ResourceUnknown { .. }
            | MetadataError::UnknownEvents(_) => 400,
            MetadataError::Browser | MetadataError::ForeignHost { .. } => 403,
            MetadataError::ApiVersionNotServed { endpoint: Endpoint::ScheduledEvents, .. }
            | MetadataError::UnknownPath { .. }
            | MetadataError::UnknownElement { .. }
            | MetadataError::AttestationUnavailable
            | MetadataError::UnknownCaller { .. }
            | MetadataError::UnknownPort
            | MetadataError::UnknownMachine { .. } => 404,
            MetadataError::MethodNotAllowed { .. } => 405,
            MetadataError::AmbiguousName { .. } => 409,
            MetadataError::Gone => 410,
            MetadataError::BodyTooLarge => 413,
            MetadataError::TooManyRequests { .. } => 429,
            MetadataError::HeaderTooLarge => 431,
            MetadataError::Internal => 500,
            MetadataError::Injected { status } => *status,
            MetadataError::Starting { .. }
            | MetadataError::Overloaded { .. }
            | MetadataError::ServerUnreachable { .. }
            | MetadataError::NotOnThisHost { .. }
            | MetadataError::OutcomeUnknown { .. } => 503,
        }
    }

    /// The value of `Retry-After`, for temporary errors.
    pub fn retry_after_secs(&self) -> Option<u32> {
        let (MetadataError::TooManyRequests { retry_after_secs }
        | MetadataError::Starting { retry_after_secs }
        | MetadataError::Overloaded { retry_after_secs }
        | MetadataError::ServerUnreachable { retry_after_secs }
        | MetadataError::NotOnThisHost { retry_after_secs }
        | MetadataError::OutcomeUnknown { retry_after_secs }) = self
        else {
            return None;
        };
        Some(*retry_after_secs)
    }

    /// The value of `Allow`.
    pub fn allow(&self) -> Option<&'static str> {
        let MetadataError::MethodNotAllowed { allow, .. } = self else {
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
            MetadataError::MetadataHeaderMissing => {
                "Bad request. Required metadata header not specified. Send the header Metadata: true.".to_owned()
            }
            MetadataError::Forwarded => {
                "Bad request. The request has the header X-Forwarded-For, so it came through a \
                 proxy. Send it directly, without this header."
                    .to_owned()
            }
            MetadataError::Browser => {
                "Forbidden. The request has the header Origin, so it came from a web page. Pages cannot read \
                 instance metadata."
                    .to_owned()
            }
            MetadataError::ForeignHost { host } => format!(
                "Forbidden. The Host header is {}. Call a loopback listener by its address or as localhost, or allow the \
                 name with --metadata ADDR,host=NAME.",
                quote(host)
            ),
            MetadataError::ApiVersionMissing { endpoint } => invalid_version(*endpoint, "No api-version was specified"),
            MetadataError::ApiVersionNotADate { endpoint, given } => {
                invalid_version(*endpoint, &format!("{} is not a date", quote(given)))
            }
            MetadataError::ApiVersionNotServed { endpoint, given } => unknown_version(*endpoint, given),
            MetadataError::RepeatedParameter { name } => format!(
                "Bad request. The query parameter {} occurs more than once. Specify each parameter only once.",
                quote(name)
            ),
            MetadataError::TooManyParameters => {
                format!(
                    "Bad request. The query has more than {PARAMETERS_MAX} parameters. Remove those that are not \
                     needed."
                )
            }
            MetadataError::BadWait { given } => format!(
                "Bad request. wait={} is invalid. Specify a number of seconds from 0 to {WAIT_SECS_MAX}, for \
                 example wait=60.",
                shorten(given)
            ),
            MetadataError::BadFormat { given } => format!(
                "Bad request. The format {} is unknown. Use format=json or format=text, or omit it for JSON.",
                quote(given)
            ),
            MetadataError::BadNonce { given } => format!(
                "Bad request. The nonce {} is invalid. Use up to {NONCE_CHARS_MAX} letters, digits and hyphens, or omit it.",
                quote(given)
            ),
            MetadataError::AttestationUnavailable => {
                "Not found. Attested documents are not available here, because this endpoint has no certificate authority \
                 of its own. Servers have one if HTTPS is on and --management-tls-cert is not set; host agents have none."
                    .to_owned()
            }
            MetadataError::TextFormatNeeded { path } => format!(
                "Bad request. {} is only available as text. Add format=text to the query, or request a parent path.",
                shorten(path)
            ),
            MetadataError::UnknownPath { path } => format!(
                "Not found. There is nothing at {}. Use /metadata/scheduledevents, /metadata/instance or \
                 /metadata/versions.",
                shorten(path)
            ),
            MetadataError::UnknownElement { path } => format!(
                "Not found. This version has no element {}. Names are case-sensitive. To list the elements of a \
                 parent path, request it with format=text.",
                shorten(path)
            ),
            MetadataError::MethodNotAllowed { method, allow } => format!(
                "Method not allowed. This path does not support {}. Use {}.",
                shorten(method),
                allow.replace(", ", " or ")
            ),
            MetadataError::MalformedApproval(error) => format!("Bad request. {error}"),
            MetadataError::UnknownEvents(ids) => unknown_events(ids),
            MetadataError::BodyTooLarge => {
                format!(
                    "Payload too large. The body must not be larger than {BODY_BYTES_MAX} bytes. Approve the events \
                     in several requests."
                )
            }
            MetadataError::HeaderTooLarge => {
                "Request header fields too large. Send fewer or shorter headers, or a shorter path.".to_owned()
            }
            MetadataError::TooManyRequests { retry_after_secs } => format!(
                "Too many requests. This machine sends more requests than the server allows. Try again in {}.",
                render_seconds(*retry_after_secs)
            ),
            MetadataError::UnknownCaller { address } => format!(
                "Not found. No machine with the address {} is registered. Register one through the management API \
                 or, if the listener allows it, put /vm/<name> before the path.",
                shorten(address)
            ),
            MetadataError::UnknownPort => {
                "Not found. The network interface from which this request came belongs to no machine. Register the \
                 machine through the management API, with the UUID of its domain as its VM ID."
                    .to_owned()
            }
            MetadataError::UnknownMachine { name } => format!(
                "Not found. There is no machine {}. Use the name or the vmId of a registered machine.",
                quote(name)
            ),
            MetadataError::AmbiguousName { name, candidates } => format!(
                "Conflict. More than one machine is named {}. Use one of these names: {}.",
                quote(name),
                render_list(candidates.iter().map(|candidate| shorten(candidate)))
            ),
            MetadataError::IdentityNotFound => {
                "Identity not found. This machine has no identity, or not the requested \
                 one. Assign one through the management API."
                    .to_owned()
            }
            MetadataError::ResourceMissing => "The query parameter resource is missing. Add \
                 resource=https://management.azure.com/ to the query."
                .to_owned(),
            MetadataError::ResourceUnknown { given } => format!(
                "This server does not issue tokens for {}. Use resource=https://management.azure.com/ or the HTTPS \
                 address of the management API.",
                quote(given)
            ),
            MetadataError::Starting { retry_after_secs } => {
                format!(
                    "Service unavailable. The server is starting. Try again in {}.",
                    render_seconds(*retry_after_secs)
                )
            }
            MetadataError::Overloaded { retry_after_secs } => format!(
                "Service unavailable. The server is overloaded, and nothing was changed. Try again in {}.",
                render_seconds(*retry_after_secs)
            ),
            MetadataError::ServerUnreachable { retry_after_secs } => format!(
                "Service unavailable. This request needs the Forewarn server, which cannot be reached from this host. Try \
                 again in {}; repeating the request is safe.",
                render_seconds(*retry_after_secs)
            ),
            MetadataError::NotOnThisHost { retry_after_secs } => format!(
                "Service unavailable. This host does not serve the machine, or not yet. Try again in {}.",
                render_seconds(*retry_after_secs)
            ),
            MetadataError::Gone => {
                "Gone. The endpoint is temporarily unavailable. Try again for up to 70 seconds.".to_owned()
            }
            MetadataError::OutcomeUnknown { retry_after_secs } => format!(
                "Service unavailable. The server does not know whether the change was stored. Try again in {}; \
                 repeating the request is safe.",
                render_seconds(*retry_after_secs)
            ),
            MetadataError::Injected { status } => format!("Status {status}. A fault was injected."),
            MetadataError::Internal => {
                "Internal server error. An unexpected error occurred, and the server log has the details. Try again."
                    .to_owned()
            }
        }
    }

    /// The error code of errors that use the OAuth format.
    fn oauth_error(&self) -> Option<&'static str> {
        if matches!(self, MetadataError::IdentityNotFound | MetadataError::ResourceMissing) {
            return Some("invalid_request");
        }
        matches!(self, MetadataError::ResourceUnknown { .. }).then_some("invalid_resource")
    }

    fn newest_versions(&self) -> Option<[&'static str; 3]> {
        let (MetadataError::ApiVersionMissing { endpoint }
        | MetadataError::ApiVersionNotADate { endpoint, .. }
        | MetadataError::ApiVersionNotServed { endpoint, .. }) = self
        else {
            return None;
        };
        Some(endpoint.newest_versions())
    }
}

impl From<QueryError> for MetadataError {
    fn from(error: QueryError) -> MetadataError {
        match error {
            QueryError::Repeated(name) => MetadataError::RepeatedParameter { name },
            QueryError::TooMany => MetadataError::TooManyParameters,
        }
    }
}

impl From<ApprovalError> for MetadataError {
    fn from(error: ApprovalError) -> MetadataError {
        if error == ApprovalError::BodyTooLarge {
            return MetadataError::BodyTooLarge;
        }
        MetadataError::MalformedApproval(error)
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
