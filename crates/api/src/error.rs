//! Errors of the management APIs: every error code with its status, and the ARM-shaped response body.

use axum::Json;
use axum::response::{IntoResponse, Response};
use forewarn_core::Rejection;
use forewarn_wire::arm::error::ArmError;
use http::{HeaderValue, StatusCode, header};

use forewarn_engine::SubmitError;

/// Seconds in the `Retry-After` header of a 503.
pub const RETRY_AFTER_SECS: u32 = 1;

const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"forewarn\"");

#[derive(Debug)]
pub struct ApiError {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
    /// The field, parameter or resource that the error concerns.
    pub target: Option<String>,
}

/// Errors that are found before the rules are consulted. Those of the rules are in `rejection_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
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
    GroupHasMachines,
    HostNotFound,
    NoHostListener,
    JoinRefused,
    OperationNotFound,
    RolloutNotFound,
    EventNotFound,
    FaultNotFound,
    WebhookNotFound,
    NodeNotFound,
    NodeLeads,
    ServersOutdated,
    UndeliveredMessageNotFound,
    MethodNotAllowed,
    RequestTimeout,
    AmbiguousName,
    ConflictingPlace,
    ConflictingTargets,
    UnknownTimeZone,
    NoPreviewVersion,
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
    // Used by the ARM API.
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
    NoLeader,
}

impl ErrorCode {
    pub fn status_and_code(self) -> (StatusCode, &'static str) {
        match self {
            ErrorCode::InvalidJson => (StatusCode::BAD_REQUEST, "InvalidJson"),
            ErrorCode::InvalidField => (StatusCode::BAD_REQUEST, "InvalidField"),
            ErrorCode::InvalidQuery => (StatusCode::BAD_REQUEST, "InvalidQuery"),
            ErrorCode::InvalidPath => (StatusCode::BAD_REQUEST, "InvalidPath"),
            ErrorCode::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            // The same error for ARM clients.
            ErrorCode::AuthenticationFailed => (StatusCode::UNAUTHORIZED, "AuthenticationFailed"),
            ErrorCode::AuthorizationFailed => (StatusCode::FORBIDDEN, "AuthorizationFailed"),
            ErrorCode::ForeignHost => (StatusCode::FORBIDDEN, "ForeignHost"),
            ErrorCode::ForeignOrigin => (StatusCode::FORBIDDEN, "ForeignOrigin"),
            ErrorCode::NotFound => (StatusCode::NOT_FOUND, "NotFound"),
            ErrorCode::MachineNotFound => (StatusCode::NOT_FOUND, "MachineNotFound"),
            ErrorCode::GroupNotFound => (StatusCode::NOT_FOUND, "GroupNotFound"),
            ErrorCode::GroupHasMachines => (StatusCode::CONFLICT, "GroupHasMachines"),
            ErrorCode::HostNotFound => (StatusCode::NOT_FOUND, "HostNotFound"),
            ErrorCode::NoHostListener => (StatusCode::CONFLICT, "NoHostListener"),
            ErrorCode::JoinRefused => (StatusCode::FORBIDDEN, "JoinRefused"),
            ErrorCode::OperationNotFound => (StatusCode::NOT_FOUND, "OperationNotFound"),
            ErrorCode::RolloutNotFound => (StatusCode::NOT_FOUND, "RolloutNotFound"),
            ErrorCode::EventNotFound => (StatusCode::NOT_FOUND, "EventNotFound"),
            ErrorCode::FaultNotFound => (StatusCode::NOT_FOUND, "FaultNotFound"),
            ErrorCode::WebhookNotFound => (StatusCode::NOT_FOUND, "WebhookNotFound"),
            ErrorCode::UndeliveredMessageNotFound => (StatusCode::NOT_FOUND, "UndeliveredMessageNotFound"),
            ErrorCode::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            ErrorCode::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, "RequestTimeout"),
            ErrorCode::AmbiguousName => (StatusCode::CONFLICT, "AmbiguousName"),
            ErrorCode::ConflictingPlace => (StatusCode::CONFLICT, "ConflictingPlace"),
            ErrorCode::ConflictingTargets => (StatusCode::CONFLICT, "ConflictingTargets"),
            ErrorCode::UnknownTimeZone => (StatusCode::CONFLICT, "UnknownTimeZone"),
            ErrorCode::NoHttps => (StatusCode::CONFLICT, "NoHttps"),
            ErrorCode::NoPreviewVersion => (StatusCode::CONFLICT, "NoPreviewVersion"),
            ErrorCode::ClockIsReal => (StatusCode::CONFLICT, "ClockIsReal"),
            ErrorCode::ClockBackwards => (StatusCode::CONFLICT, "ClockBackwards"),
            ErrorCode::ClockTooFar => (StatusCode::CONFLICT, "ClockTooFar"),
            ErrorCode::FaultNeverMet => (StatusCode::CONFLICT, "FaultNeverMet"),
            ErrorCode::TooManyFaults => (StatusCode::CONFLICT, "TooManyFaults"),
            ErrorCode::NodeNotFound => (StatusCode::NOT_FOUND, "NodeNotFound"),
            ErrorCode::NodeLeads => (StatusCode::CONFLICT, "NodeLeads"),
            ErrorCode::ServersOutdated => (StatusCode::CONFLICT, "ServersOutdated"),
            ErrorCode::WebhookExists => (StatusCode::CONFLICT, "WebhookExists"),
            ErrorCode::TooManyWebhooks => (StatusCode::CONFLICT, "TooManyWebhooks"),
            ErrorCode::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "BodyTooLarge"),
            ErrorCode::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType"),
            ErrorCode::MissingApiVersionParameter => (StatusCode::BAD_REQUEST, "MissingApiVersionParameter"),
            ErrorCode::InvalidApiVersionParameter => (StatusCode::BAD_REQUEST, "InvalidApiVersionParameter"),
            ErrorCode::InvalidRequestContent => (StatusCode::BAD_REQUEST, "InvalidRequestContent"),
            ErrorCode::InvalidParameter => (StatusCode::BAD_REQUEST, "InvalidParameter"),
            ErrorCode::UnknownMember => (StatusCode::BAD_REQUEST, "BadRequest"),
            ErrorCode::InvalidResourceType => (StatusCode::NOT_FOUND, "InvalidResourceType"),
            ErrorCode::ResourceGroupNotFound => (StatusCode::NOT_FOUND, "ResourceGroupNotFound"),
            ErrorCode::ResourceNotFound => (StatusCode::NOT_FOUND, "ResourceNotFound"),
            ErrorCode::DeploymentNotFound => (StatusCode::NOT_FOUND, "DeploymentNotFound"),
            ErrorCode::PropertyChangeNotAllowed => (StatusCode::CONFLICT, "PropertyChangeNotAllowed"),
            ErrorCode::OperationNotAllowed => (StatusCode::CONFLICT, "OperationNotAllowed"),
            ErrorCode::QuotaExceeded => (StatusCode::CONFLICT, "QuotaExceeded"),
            ErrorCode::TooManyRuns => (StatusCode::CONFLICT, "TooManyRuns"),
            ErrorCode::InvalidScenario => (StatusCode::CONFLICT, "InvalidScenario"),
            ErrorCode::ScenarioNotFound => (StatusCode::NOT_FOUND, "ScenarioNotFound"),
            ErrorCode::RunNotFound => (StatusCode::NOT_FOUND, "RunNotFound"),
            ErrorCode::TooManyStreams => (StatusCode::SERVICE_UNAVAILABLE, "TooManyStreams"),
            ErrorCode::Busy => (StatusCode::SERVICE_UNAVAILABLE, "Busy"),
            ErrorCode::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "Unavailable"),
            ErrorCode::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "Stopping"),
            ErrorCode::NoLeader => (StatusCode::SERVICE_UNAVAILABLE, "NoLeader"),
            ErrorCode::StoreUnreadable => (StatusCode::INTERNAL_SERVER_ERROR, "StoreUnreadable"),
        }
    }
}

/// The status and code of each rejection by the rules. A request that no server would accept is 400; one that conflicts with
/// the current state or settings of this server is 409.
pub fn rejection_status(rejection: &Rejection) -> (StatusCode, &'static str) {
    const NOT_FOUND: StatusCode = StatusCode::NOT_FOUND;
    const CONFLICT: StatusCode = StatusCode::CONFLICT;
    const BAD: StatusCode = StatusCode::BAD_REQUEST;
    match rejection {
        Rejection::UnknownMachine(_) => (NOT_FOUND, "MachineNotFound"),
        Rejection::UnknownGroup => (NOT_FOUND, "GroupNotFound"),
        Rejection::UnknownHost(_) => (NOT_FOUND, "HostNotFound"),
        Rejection::UnknownOperation(_) => (NOT_FOUND, "OperationNotFound"),
        Rejection::UnknownRollout(_) => (NOT_FOUND, "RolloutNotFound"),
        Rejection::NotAStep { .. } => (NOT_FOUND, "StepNotFound"),
        Rejection::UnknownEvents(_) | Rejection::UnknownEvent(_) => (NOT_FOUND, "EventNotFound"),
        Rejection::NameTaken(_) => (CONFLICT, "NameTaken"),
        Rejection::VmIdTaken => (CONFLICT, "VmIdTaken"),
        Rejection::AddressTaken { .. } => (CONFLICT, "AddressTaken"),
        Rejection::HostInUse(_) => (CONFLICT, "HostInUse"),
        Rejection::HostOwned { .. } => (CONFLICT, "HostOwned"),
        Rejection::GroupOwned { .. } => (CONFLICT, "GroupOwned"),
        Rejection::AlreadyDraining(_) => (CONFLICT, "AlreadyDraining"),
        Rejection::HostNotActive { .. } => (CONFLICT, "HostNotActive"),
        Rejection::RolloutEnded(_) => (CONFLICT, "RolloutOver"),
        Rejection::StepNotFailed { .. } | Rejection::NoFailedSteps(_) => (CONFLICT, "StepNotFailed"),
        Rejection::IdTaken(_) => (CONFLICT, "IdTaken"),
        Rejection::NotRunning(_) => (CONFLICT, "MachineNotRunning"),
        Rejection::MachineBeingDeleted(_) => (CONFLICT, "MachineLeaving"),
        Rejection::GroupBeingDeleted(_) => (CONFLICT, "GroupLeaving"),
        Rejection::MachineBusy(_) => (CONFLICT, "MachineBusy"),
        Rejection::OrderInProgress(_) => (CONFLICT, "OrderInProgress"),
        Rejection::MachineClaimed { .. } => (CONFLICT, "MachineClaimed"),
        Rejection::UserOperationsFull { .. } => (CONFLICT, "TooManyUserOperations"),
        Rejection::OperationEnded(_) => (CONFLICT, "OperationOver"),
        Rejection::NotCancellable(_) => (CONFLICT, "NotCancellable"),
        Rejection::PartOfHostOperation(_) => (CONFLICT, "PartOfHostOperation"),
        Rejection::EventEnded(_) => (CONFLICT, "EventOver"),
        Rejection::NotStarted(_) => (CONFLICT, "EventNotStarted"),
        Rejection::NotOnHost { .. } => (CONFLICT, "MachineNotOnHost"),
        Rejection::NotOrdered { .. } | Rejection::OtherEpoch { .. } => (CONFLICT, "NoOrder"),
        Rejection::UnplannedMove { .. } => (CONFLICT, "UnplannedMove"),
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
        Rejection::TargetHasNoMachines => (CONFLICT, "NothingThere"),
        Rejection::ParallelRange { .. } => (BAD, "InvalidParallel"),
        Rejection::UnavailableRange => (BAD, "InvalidMaxUnavailable"),
        Rejection::DrainNeedsHosts => (CONFLICT, "DrainNeedsHosts"),
        Rejection::DuplicateTarget => (CONFLICT, "TargetTwice"),
        Rejection::StepTooLarge { .. } => (CONFLICT, "StepTooLarge"),
        Rejection::BadWindow => (BAD, "InvalidWindow"),
        Rejection::WindowTooShort { .. } => (CONFLICT, "WindowTooShort"),
        Rejection::BadLabel(_) => (CONFLICT, "InvalidLabel"),
        Rejection::RevisionAhead(_) => (CONFLICT, "RevisionAhead"),
        Rejection::TooManyRollouts => (CONFLICT, "TooManyRollouts"),
        Rejection::TooManySteps => (CONFLICT, "TooManySteps"),
        Rejection::TooManyWindows => (BAD, "TooManyWindows"),
        Rejection::TooManyLabels => (CONFLICT, "TooManyLabels"),
        Rejection::TooManyEvents => (CONFLICT, "TooManyEvents"),
        Rejection::TooManyMachines => (CONFLICT, "TooManyMachines"),
        Rejection::TooManyJoined => (CONFLICT, "TooManyJoined"),
        Rejection::TooManyApprovals => (BAD, "TooManyApprovals"),
        Rejection::PoolEmpty => (CONFLICT, "AddressPoolEmpty"),
    }
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let (status, code) = code.status_and_code();
        ApiError { status, code, message: message.into(), target: None }
    }

    #[must_use]
    pub fn with_target(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// Whether the rules rejected the request for this kind of reason.
    pub fn is_rejection(&self, rejection: &Rejection) -> bool {
        (self.status, self.code) == rejection_status(rejection)
    }

    pub fn to_arm(&self) -> ArmError {
        ArmError { target: self.target.clone(), ..ArmError::new(self.code, self.message.as_str()) }
    }

    /// An invalid field of the body. The message completes the sentence "The field 'x' …".
    pub fn field(name: &str, message: impl std::fmt::Display) -> Self {
        ApiError::new(ErrorCode::InvalidField, format!("The field '{name}' {message}.")).with_target(name)
    }

    /// An invalid query parameter. The message completes the sentence "The query parameter 'x' …".
    pub fn query(name: &str, message: impl std::fmt::Display) -> Self {
        ApiError::new(ErrorCode::InvalidQuery, format!("The query parameter '{name}' {message}.")).with_target(name)
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let (status, code) = rejection_status(&rejection);
        ApiError { status, code, message: rejection.to_string(), target: None }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let message = error.to_string();
        match error {
            SubmitError::Rejected(rejection) => rejection.into(),
            SubmitError::Busy => ApiError::new(ErrorCode::Busy, message),
            SubmitError::Unavailable => ApiError::new(ErrorCode::Unavailable, message),
            SubmitError::Stopping => ApiError::new(ErrorCode::Stopping, message),
            SubmitError::NoLeader => ApiError::new(ErrorCode::NoLeader, message),
            SubmitError::ServersOutdated => ApiError::new(ErrorCode::ServersOutdated, message),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.to_arm().body())).into_response();
        // Headers that HTTP requires or recommends with these statuses.
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
    fn temporary_errors_have_a_retry_after_header() {
        for (error, code) in [
            (SubmitError::Busy, "Busy"),
            (SubmitError::Unavailable, "Unavailable"),
            (SubmitError::Stopping, "Stopping"),
            (SubmitError::NoLeader, "NoLeader"),
        ] {
            let error = ApiError::from(error);
            assert_eq!(error.code, code);
            let response = error.into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        }
    }
}
