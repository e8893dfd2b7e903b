//! What a handler takes out of a request, with refusals in the API's own shape: bodies, queries and
//! path segments.

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
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, Refusal};
use super::object::Object;
use super::text::NUMBER_MAX;
use forewarn_api_types::plain::{Written, plainly};

/// The most bytes of a body. The largest one that is useful, an approval of every event of a full
/// document, has some 80 KB.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// How long a body may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How many entries a page has when nobody says, and at the most.
pub const PAGE_DEFAULT: u32 = 100;
pub const PAGE_MAX: u32 = 1000;

/// A JSON body that must be there.
pub struct Body<T>(pub T);

/// A JSON body that may be left out, which is the same as `{}`.
pub struct OptionalBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (headers, bytes) = read(request, state).await?;
        expect_json(&headers)?;
        Ok(Body(parse(&bytes)?))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (headers, bytes) = read(request, state).await?;
        if bytes.is_empty() {
            return Ok(OptionalBody(parse(b"{}")?));
        }
        expect_json(&headers)?;
        Ok(OptionalBody(parse(&bytes)?))
    }
}

pub async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<(HeaderMap, Bytes), ApiError> {
    let headers = request.headers().clone();
    let arrived = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state)).await.map_err(|_| {
        let message = format!("The body did not arrive within {} seconds. Send it again.", BODY_TIMEOUT.as_secs());
        ApiError::new(Refusal::RequestTimeout, message)
    })?;
    let bytes = arrived.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => ApiError::new(
            Refusal::BodyTooLarge,
            format!("A body may have {BODY_BYTES_MAX} bytes. Send less at a time."),
        ),
        _ => ApiError::new(Refusal::InvalidJson, "The body did not arrive whole. Send it again."),
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
            Refusal::UnsupportedMediaType,
            "The body must be JSON, and say so: send the header 'Content-Type: application/json'.",
        )
        .about("Content-Type")),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    match axum::Json::<Object<T>>::from_bytes(bytes) {
        Ok(axum::Json(Object(value))) => Ok(value),
        Err(JsonRejection::JsonDataError(error)) => with_whole_numbers(bytes)
            .and_then(|bytes| Some(axum::Json::<Object<T>>::from_bytes(&bytes).ok()?.0.0))
            .ok_or_else(|| explained(Refusal::InvalidField, "The body", &error.body_text())),
        // Here the position says something: it is in what somebody wrote.
        Err(error) => {
            let reason = error.body_text();
            let reason = reason.split_once(": ").map_or(reason.as_str(), |(_, reason)| reason);
            Err(ApiError::new(Refusal::InvalidJson, format!("The body is not JSON: {reason}.")))
        }
    }
}

/// The same JSON with `7.0` written as `7`, which to JSON is the same number.
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
            Value::Array(values) => values.iter_mut().map(rewrite).fold(false, |some, one| some | one),
            Value::Object(values) => values.values_mut().map(rewrite).fold(false, |some, one| some | one),
            Value::Null | Value::Bool(_) | Value::String(_) => false,
        }
    }
    let mut value = serde_json::from_slice(bytes).ok()?;
    rewrite(&mut value).then(|| value.to_string().into_bytes())
}

/// Takes `…: path: what is wrong` apart, so that the path becomes the target.
fn explained(refusal: Refusal, subject: &str, text: &str) -> ApiError {
    let reason = text.split_once(": ").map_or(text, |(_, reason)| reason);
    match reason.split_once(": ").filter(|(path, _)| is_path(path)) {
        Some((path, what)) => {
            let what = plainly(what, Written::Json);
            ApiError::new(refusal, format!("{subject}: {path}: {what}.")).about(path)
        }
        None => ApiError::new(refusal, format!("{subject}: {}.", plainly(reason, Written::Json))),
    }
}

fn is_path(text: &str) -> bool {
    text != "." && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._[]-".contains(&byte))
}

/// The query string; parameters that nobody knows are refused.
pub struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Params(value)),
            Err(rejection) => Err(explained(Refusal::InvalidQuery, "The query", &rejection.body_text())),
        }
    }
}

/// The one variable segment of a path.
pub struct Segment(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(segment)) => Ok(Segment(segment)),
            Err(rejection) => Err(ApiError::new(
                Refusal::InvalidPath,
                format!("The path cannot be read: {}. Encode names as UTF-8, percent-encoded.", rejection.body_text()),
            )),
        }
    }
}

/// No query at all.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NoQuery {}

/// No keys at all.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Which of several things of one name.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InGroup {
    /// Resource group (or cloud service of a role instance), when the name alone is not unique.
    pub group: Option<String>,
}

/// Turning pages.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Paging {
    /// How many entries, at the most.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

/// One page of a list.
#[derive(Debug, Serialize)]
pub struct Page<T> {
    pub value: Vec<T>,
    /// Where the next page begins; without it this is the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

pub fn limit(given: Option<u32>) -> Result<usize, ApiError> {
    let limit = given.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(ApiError::query("limit", format!("it must be from 1 to {PAGE_MAX}")));
    }
    Ok(limit as usize)
}

/// A cursor that is a number.
pub fn after_number(given: Option<&str>) -> Result<Option<u64>, ApiError> {
    given.map(|text| text.parse().map_err(|_| bad_cursor(text))).transpose()
}

pub fn bad_cursor(text: &str) -> ApiError {
    ApiError::query("after", format!("'{text}' is not where a page ends. Take 'next' of the page before"))
}

impl<T> Page<T> {
    /// The first `limit` of `entries`; when there is one more, there is a next page, and `cursor` of the
    /// last one shown is where it begins.
    pub fn cut<E>(
        entries: impl Iterator<Item = E>,
        limit: usize,
        cursor: impl Fn(&E) -> String,
        show: impl Fn(&E) -> T,
    ) -> Page<T> {
        let mut taken: Vec<E> = entries.take(limit + 1).collect();
        let more = taken.len() > limit;
        taken.truncate(limit);
        let next = taken.last().filter(|_| more).map(cursor);
        Page { value: taken.iter().map(show).collect(), next }
    }
}

/// What was asked for has begun.
pub fn accepted<T: Serialize>(value: T) -> Response {
    (StatusCode::ACCEPTED, axum::Json(value)).into_response()
}

pub fn created<T: Serialize>(value: T) -> Response {
    (StatusCode::CREATED, axum::Json(value)).into_response()
}

pub fn ok<T: Serialize>(value: T) -> Response {
    axum::Json(value).into_response()
}
