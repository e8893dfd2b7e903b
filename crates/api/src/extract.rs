//! Extractors for bodies, queries and path segments, with errors in the API's own shape, and pages of lists.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody, JsonRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::IntoParams;

use super::error::{ApiError, ErrorCode};
use super::names::{GroupTarget, MachineTarget};
use forewarn_api_types::NUMBER_MAX;
use forewarn_api_types::object::Object;
use forewarn_api_types::plain::{SourceFormat, reword_serde_error};

/// Maximum size of a body. The largest useful one, an approval of every event of a full document, has about 80 KB.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// Time limit for receiving a body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Entries of a page: default and maximum.
pub const PAGE_DEFAULT: u32 = 100;
pub const PAGE_MAX: u32 = 1000;

/// A required JSON body.
pub struct Body<T>(pub T);

/// An optional JSON body; a missing one is read as `{}`.
pub struct OptionalBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (headers, bytes) = read_body(request, state).await?;
        expect_json(&headers)?;
        Ok(Body(parse(&bytes)?))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (headers, bytes) = read_body(request, state).await?;
        if bytes.is_empty() {
            return Ok(OptionalBody(parse(b"{}")?));
        }
        expect_json(&headers)?;
        Ok(OptionalBody(parse(&bytes)?))
    }
}

/// Reads the whole body within the limits of size and time.
pub async fn read_body<S: Send + Sync>(request: Request, state: &S) -> Result<(HeaderMap, Bytes), ApiError> {
    let headers = request.headers().clone();
    let arrived = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state)).await.map_err(|_| {
        let message = format!("The body did not arrive within {} seconds. Send it again.", BODY_TIMEOUT.as_secs());
        ApiError::new(ErrorCode::RequestTimeout, message)
    })?;
    let bytes = arrived.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => ApiError::new(
            ErrorCode::BodyTooLarge,
            format!("The body is larger than {BODY_BYTES_MAX} bytes. Split the request."),
        ),
        _ => ApiError::new(ErrorCode::InvalidJson, "The body is incomplete. Send it again."),
    })?;
    Ok((headers, bytes))
}

pub fn expect_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let essence = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(|value| value.split(';').next().unwrap_or_default().trim());
    match essence {
        Some(essence) if essence.eq_ignore_ascii_case("application/json") => Ok(()),
        Some(_) | None => Err(ApiError::new(
            ErrorCode::UnsupportedMediaType,
            "The body must be JSON. Send it with the header 'Content-Type: application/json'.",
        )
        .with_target("Content-Type")),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    match axum::Json::<Object<T>>::from_bytes(bytes) {
        Ok(axum::Json(Object(value))) => Ok(value),
        Err(JsonRejection::JsonDataError(error)) => with_whole_numbers(bytes)
            .and_then(|bytes| Some(axum::Json::<Object<T>>::from_bytes(&bytes).ok()?.0.0))
            .ok_or_else(|| describe_error(ErrorCode::InvalidField, "The body", &error.body_text())),
        // A syntax error keeps its position, which helps to find it.
        Err(error) => {
            let reason = error.body_text();
            let reason = reason.split_once(": ").map_or(reason.as_str(), |(_, reason)| reason);
            Err(ApiError::new(ErrorCode::InvalidJson, format!("The body is not valid JSON: {reason}.")))
        }
    }
}

/// The same JSON with `7.0` written as `7`; JSON does not distinguish them.
fn with_whole_numbers(bytes: &[u8]) -> Option<Vec<u8>> {
    fn rewrite(value: &mut Value) -> bool {
        match value {
            Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
                Some(float) if float.fract() == 0.0 && float.abs() <= NUMBER_MAX as f64 => {
                    *value = Value::from(float as i64);
                    true
                }
                Some(_) | None => false,
            },
            Value::Array(values) => values.iter_mut().map(rewrite).fold(false, |any, changed| any | changed),
            Value::Object(values) => values.values_mut().map(rewrite).fold(false, |any, changed| any | changed),
            Value::Null | Value::Bool(_) | Value::String(_) => false,
        }
    }
    let mut value = serde_json::from_slice(bytes).ok()?;
    rewrite(&mut value).then(|| value.to_string().into_bytes())
}

/// Splits `…: path: problem`, so that the path becomes the target.
fn describe_error(code: ErrorCode, subject: &str, text: &str) -> ApiError {
    let reason = text.split_once(": ").map_or(text, |(_, reason)| reason);
    match reason.split_once(": ").filter(|(path, _)| is_path(path)) {
        Some((path, problem)) => {
            let problem = reword_serde_error(problem, SourceFormat::Json);
            ApiError::new(code, format!("{subject}: {path}: {problem}.")).with_target(path)
        }
        None => ApiError::new(code, format!("{subject}: {}.", reword_serde_error(reason, SourceFormat::Json))),
    }
}

fn is_path(text: &str) -> bool {
    text != "." && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._[]-".contains(&byte))
}

/// The query string. Unknown parameters are refused.
pub struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Params(value)),
            Err(rejection) => Err(describe_error(ErrorCode::InvalidQuery, "The query", &rejection.body_text())),
        }
    }
}

/// The only variable segment of a path.
pub struct Segment(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(segment)) => Ok(Segment(segment)),
            Err(rejection) => Err(ApiError::new(
                ErrorCode::InvalidPath,
                format!("The path is not valid: {}. Percent-encode names as UTF-8.", rejection.body_text()),
            )),
        }
    }
}

/// A query without parameters.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NoQuery {}

/// Selects one of several resources with the same name.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct GroupQuery {
    /// Resource group, or cloud service of a role instance, if the name alone is not unique.
    pub group: Option<String>,
}

impl GroupQuery {
    pub fn machine(self, name: String) -> MachineTarget {
        MachineTarget::Named { name, within: self.group }
    }

    pub fn named_group(self, name: String) -> GroupTarget {
        GroupTarget::Named { name, within: self.group }
    }
}

/// Selects a page of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Paging {
    /// Maximum number of entries.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

pub fn page_limit(given: Option<u32>) -> Result<usize, ApiError> {
    let limit = given.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(ApiError::query("limit", format!("must be from 1 to {PAGE_MAX}")));
    }
    Ok(limit as usize)
}

/// Parses a cursor that is a number.
pub fn numeric_cursor(given: Option<&str>) -> Result<Option<u64>, ApiError> {
    given.map(|text| text.parse().map_err(|_| invalid_cursor(text))).transpose()
}

pub fn invalid_cursor(text: &str) -> ApiError {
    ApiError::query("after", format!("has the invalid value '{text}'. Use 'next' of the previous page"))
}

pub fn respond_accepted<T: Serialize>(value: T) -> Response {
    (StatusCode::ACCEPTED, axum::Json(value)).into_response()
}

pub fn respond_created<T: Serialize>(value: T) -> Response {
    (StatusCode::CREATED, axum::Json(value)).into_response()
}

pub fn respond_ok<T: Serialize>(value: T) -> Response {
    axum::Json(value).into_response()
}
