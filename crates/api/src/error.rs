//! Every way in which a request is refused: its code and its status, in ARM's shape.

use axum::Json;
use axum::response::{IntoResponse, Response};
use forewarn_core::Rejection;
use forewarn_wire::arm::error::ArmError;
use http::{HeaderValue, StatusCode, header};

use forewarn_engine::SubmitError;

/// What a client is told to wait after a 503, in seconds.
pub const RETRY_AFTER_SECS: u32 = 1;

const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"forewarn\"");

#[derive(Debug)]
pub struct ApiError {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
    /// The field, parameter or thing that it is about.
    pub target: Option<String>,
}

/// Refusals that come of the request itself, before the rules are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    InvalidJson,
    InvalidField,
    InvalidQuery,
    InvalidPath,
    Unauthorized,
    AuthenticationFailed,
    AuthorizationFailed,
    ForeignHost,
    ForeignOrigin,
    NotFound,
    MachineNotFound,
    GroupNotFound,
    HostNotFound,
    OperationNotFound,
    EventNotFound,
    FaultNotFound,
    WebhookNotFound,
    MessageNotGivenUp,
    MethodNotAllowed,
    RequestTimeout,
    AmbiguousName,
    ConflictingPlace,
    ClockIsReal,
    NoHttps,
    ClockBackwards,
    ClockTooFar,
    FaultNeverMet,
    TooManyFaults,
    WebhookExists,
    TooManyWebhooks,
    BodyTooLarge,
    UnsupportedMediaType,
    TooManyStreams,
    // Of Resource Manager's shape.
    MissingApiVersionParameter,
    InvalidApiVersionParameter,
    InvalidRequestContent,
    InvalidParameter,
    UnknownMember,
    InvalidResourceType,
    ResourceGroupNotFound,
    ResourceNotFound,
    DeploymentNotFound,
    PropertyChangeNotAllowed,
    OperationNotAllowed,
    QuotaExceeded,
    TooManyRuns,
    InvalidScenario,
    ScenarioNotFound,
    RunNotFound,
    StoreUnreadable,
    Busy,
    Unavailable,
    Stopping,
}

impl Refusal {
    pub fn status_and_code(self) -> (StatusCode, &'static str) {
        match self {
            Refusal::InvalidJson => (StatusCode::BAD_REQUEST, "InvalidJson"),
            Refusal::InvalidField => (StatusCode::BAD_REQUEST, "InvalidField"),
            Refusal::InvalidQuery => (StatusCode::BAD_REQUEST, "InvalidQuery"),
            Refusal::InvalidPath => (StatusCode::BAD_REQUEST, "InvalidPath"),
            Refusal::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            // The same to those who speak to ARM.
            Refusal::AuthenticationFailed => (StatusCode::UNAUTHORIZED, "AuthenticationFailed"),
            Refusal::AuthorizationFailed => (StatusCode::FORBIDDEN, "AuthorizationFailed"),
            Refusal::ForeignHost => (StatusCode::FORBIDDEN, "ForeignHost"),
            Refusal::ForeignOrigin => (StatusCode::FORBIDDEN, "ForeignOrigin"),
            Refusal::NotFound => (StatusCode::NOT_FOUND, "NotFound"),
            Refusal::MachineNotFound => (StatusCode::NOT_FOUND, "MachineNotFound"),
            Refusal::GroupNotFound => (StatusCode::NOT_FOUND, "GroupNotFound"),
            Refusal::HostNotFound => (StatusCode::NOT_FOUND, "HostNotFound"),
            Refusal::OperationNotFound => (StatusCode::NOT_FOUND, "OperationNotFound"),
            Refusal::EventNotFound => (StatusCode::NOT_FOUND, "EventNotFound"),
            Refusal::FaultNotFound => (StatusCode::NOT_FOUND, "FaultNotFound"),
            Refusal::WebhookNotFound => (StatusCode::NOT_FOUND, "WebhookNotFound"),
            Refusal::MessageNotGivenUp => (StatusCode::NOT_FOUND, "MessageNotGivenUp"),
            Refusal::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Refusal::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, "RequestTimeout"),
            Refusal::AmbiguousName => (StatusCode::CONFLICT, "AmbiguousName"),
            Refusal::ConflictingPlace => (StatusCode::CONFLICT, "ConflictingPlace"),
            Refusal::NoHttps => (StatusCode::CONFLICT, "NoHttps"),
            Refusal::ClockIsReal => (StatusCode::CONFLICT, "ClockIsReal"),
            Refusal::ClockBackwards => (StatusCode::CONFLICT, "ClockBackwards"),
            Refusal::ClockTooFar => (StatusCode::CONFLICT, "ClockTooFar"),
            Refusal::FaultNeverMet => (StatusCode::CONFLICT, "FaultNeverMet"),
            Refusal::TooManyFaults => (StatusCode::CONFLICT, "TooManyFaults"),
            Refusal::WebhookExists => (StatusCode::CONFLICT, "WebhookExists"),
            Refusal::TooManyWebhooks => (StatusCode::CONFLICT, "TooManyWebhooks"),
            Refusal::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "BodyTooLarge"),
            Refusal::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType"),
            Refusal::MissingApiVersionParameter => (StatusCode::BAD_REQUEST, "MissingApiVersionParameter"),
            Refusal::InvalidApiVersionParameter => (StatusCode::BAD_REQUEST, "InvalidApiVersionParameter"),
            Refusal::InvalidRequestContent => (StatusCode::BAD_REQUEST, "InvalidRequestContent"),
            Refusal::InvalidParameter => (StatusCode::BAD_REQUEST, "InvalidParameter"),
            Refusal::UnknownMember => (StatusCode::BAD_REQUEST, "BadRequest"),
            Refusal::InvalidResourceType => (StatusCode::NOT_FOUND, "InvalidResourceType"),
            Refusal::ResourceGroupNotFound => (StatusCode::NOT_FOUND, "ResourceGroupNotFound"),
            Refusal::ResourceNotFound => (StatusCode::NOT_FOUND, "ResourceNotFound"),
            Refusal::DeploymentNotFound => (StatusCode::NOT_FOUND, "DeploymentNotFound"),
            Refusal::PropertyChangeNotAllowed => (StatusCode::CONFLICT, "PropertyChangeNotAllowed"),
            Refusal::OperationNotAllowed => (StatusCode::CONFLICT, "OperationNotAllowed"),
            Refusal::QuotaExceeded => (StatusCode::CONFLICT, "QuotaExceeded"),
            Refusal::TooManyRuns => (StatusCode::CONFLICT, "TooManyRuns"),
            Refusal::InvalidScenario => (StatusCode::CONFLICT, "InvalidScenario"),
            Refusal::ScenarioNotFound => (StatusCode::NOT_FOUND, "ScenarioNotFound"),
            Refusal::RunNotFound => (StatusCode::NOT_FOUND, "RunNotFound"),
            Refusal::TooManyStreams => (StatusCode::SERVICE_UNAVAILABLE, "TooManyStreams"),
            Refusal::Busy => (StatusCode::SERVICE_UNAVAILABLE, "Busy"),
            Refusal::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "Unavailable"),
            Refusal::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "Stopping"),
            Refusal::StoreUnreadable => (StatusCode::INTERNAL_SERVER_ERROR, "StoreUnreadable"),
        }
    }
}

/// Which refusal of the rules is which status and code. 400 is for what no server would take; what this
/// one does not take as it stands, at this time and with these settings, is 409.
pub fn of_rejection(rejection: &Rejection) -> (StatusCode, &'static str) {
    const NOT_THERE: StatusCode = StatusCode::NOT_FOUND;
    const CONFLICT: StatusCode = StatusCode::CONFLICT;
    const BAD: StatusCode = StatusCode::BAD_REQUEST;
    match rejection {
        Rejection::UnknownMachine(_) => (NOT_THERE, "MachineNotFound"),
        Rejection::UnknownGroup => (NOT_THERE, "GroupNotFound"),
        Rejection::UnknownHost(_) => (NOT_THERE, "HostNotFound"),
        Rejection::UnknownOperation(_) => (NOT_THERE, "OperationNotFound"),
        Rejection::UnknownEvents(_) | Rejection::UnknownEvent(_) => (NOT_THERE, "EventNotFound"),
        Rejection::NameTaken(_) => (CONFLICT, "NameTaken"),
        Rejection::VmIdTaken => (CONFLICT, "VmIdTaken"),
        Rejection::AddressTaken { .. } => (CONFLICT, "AddressTaken"),
        Rejection::HostInUse(_) => (CONFLICT, "HostInUse"),
        Rejection::IdTaken(_) => (CONFLICT, "IdTaken"),
        Rejection::NotRunning(_) => (CONFLICT, "MachineNotRunning"),
        Rejection::MachineLeaving(_) => (CONFLICT, "MachineLeaving"),
        Rejection::GroupLeaving(_) => (CONFLICT, "GroupLeaving"),
        Rejection::MachineBusy(_) => (CONFLICT, "MachineBusy"),
        Rejection::UserOperationsFull { .. } => (CONFLICT, "TooManyUserOperations"),
        Rejection::OperationOver(_) => (CONFLICT, "OperationOver"),
        Rejection::NotCancellable(_) => (CONFLICT, "NotCancellable"),
        Rejection::PartOfHostOperation(_) => (CONFLICT, "PartOfHostOperation"),
        Rejection::EventOver(_) => (CONFLICT, "EventOver"),
        Rejection::NotStarted(_) => (CONFLICT, "EventNotStarted"),
        Rejection::NotSpot(_) => (CONFLICT, "NotSpot"),
        Rejection::TerminateOnSpot => (CONFLICT, "TerminateNotificationOnSpot"),
        Rejection::TerminateRange => (BAD, "InvalidTerminateNotification"),
        Rejection::BadName { .. } => (BAD, "InvalidName"),
        Rejection::DomainRange { .. } => (CONFLICT, "InvalidDomain"),
        Rejection::DomainsRange { .. } => (BAD, "InvalidDomainCount"),
        Rejection::NotAScaleSet(_) => (CONFLICT, "NotAScaleSet"),
        Rejection::NotAnAvailabilitySet(_) => (CONFLICT, "NotAnAvailabilitySet"),
        Rejection::NotAFlexibleSet(_) => (CONFLICT, "NotAFlexibleSet"),
        Rejection::NotACloudService(_) => (CONFLICT, "NotACloudService"),
        Rejection::NotAMember(_) => (CONFLICT, "NotAMember"),
        Rejection::PolicyOnMember(_) => (CONFLICT, "PolicyOnMember"),
        Rejection::MaintenanceKind | Rejection::FailureKind => (BAD, "InvalidEventType"),
        Rejection::NoticeTooShort { .. } => (CONFLICT, "NoticeTooShort"),
        Rejection::PlanTooFar => (CONFLICT, "PlanTooFar"),
        Rejection::PlanPast => (CONFLICT, "PlanInThePast"),
        Rejection::DurationRange => (BAD, "InvalidDuration"),
        Rejection::DescriptionTooLong => (BAD, "DescriptionTooLong"),
        Rejection::NothingThere => (CONFLICT, "NothingThere"),
        Rejection::TooManyEvents => (CONFLICT, "TooManyEvents"),
        Rejection::TooManyMachines => (CONFLICT, "TooManyMachines"),
        Rejection::TooManyJoined => (CONFLICT, "TooManyJoined"),
        Rejection::TooManyApprovals => (BAD, "TooManyApprovals"),
        Rejection::PoolEmpty => (CONFLICT, "AddressPoolEmpty"),
    }
}

impl ApiError {
    pub fn new(refusal: Refusal, message: impl Into<String>) -> Self {
        let (status, code) = refusal.status_and_code();
        ApiError { status, code, message: message.into(), target: None }
    }

    #[must_use]
    pub fn about(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// As the wire has it.
    pub fn shown(&self) -> ArmError {
        ArmError { target: self.target.clone(), ..ArmError::new(self.code, self.message.as_str()) }
    }

    /// A field of the body that says something impossible.
    pub fn field(name: &str, message: impl std::fmt::Display) -> Self {
        ApiError::new(Refusal::InvalidField, format!("The field '{name}': {message}.")).about(name)
    }

    /// A query parameter that says something impossible.
    pub fn query(name: &str, message: impl std::fmt::Display) -> Self {
        ApiError::new(Refusal::InvalidQuery, format!("The query parameter '{name}': {message}.")).about(name)
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let (status, code) = of_rejection(&rejection);
        ApiError { status, code, message: rejection.to_string(), target: None }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let message = error.to_string();
        match error {
            SubmitError::Rejected(rejection) => rejection.into(),
            SubmitError::Busy => ApiError::new(Refusal::Busy, message),
            SubmitError::Unavailable => ApiError::new(Refusal::Unavailable, message),
            SubmitError::Stopping => ApiError::new(Refusal::Stopping, message),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.shown().body())).into_response();
        // What HTTP wants beside these two.
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECS.into());
        } else if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, CHALLENGE);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_says_when_to_come_back() {
        for (error, code) in [
            (SubmitError::Busy, "Busy"),
            (SubmitError::Unavailable, "Unavailable"),
            (SubmitError::Stopping, "Stopping"),
        ] {
            let error = ApiError::from(error);
            assert_eq!(error.code, code);
            let response = error.into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        }
    }
}
