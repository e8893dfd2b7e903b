//! One request: what it asks for, who asks, and what is needed to answer it.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Query, Request};
use axum::response::{IntoResponse, Response};
use forewarn_core::{Answer, Command, Home, Name, Snapshot};
use forewarn_store::{Attachment, Owner, Reader, StoreError};
use forewarn_wire::arm::id::{Path, ResourceId, Scope};
use http::{HeaderName, HeaderValue, Method, header};
use serde_json::Value;
use tokio::sync::MutexGuard;

use super::locks::Locks;
use super::routes;
use forewarn_access::random_guid;
use forewarn_access::{MACHINE_ATTACHMENT, MachineIdentity};
use forewarn_api::error::{ApiError, Refusal};
use forewarn_api::{Api, Note, Via, extract, history};
use forewarn_engine::{AllDone, Bundle};

/// The attachment of a machine or group that has its body.
pub const BODY: &str = "arm";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");

/// Everything that is there, on behalf of somebody.
#[derive(Clone)]
pub struct Arm {
    pub api: Api,
    pub locks: Arc<Locks>,
    pub by: Name,
    /// The api-version that was asked for. All are taken; few make a difference.
    pub version: String,
}

pub struct Call {
    pub arm: Arm,
    pub method: Method,
    pub path: Path,
    query: Vec<(String, String)>,
    body: Bytes,
    /// Scheme and host, as the caller sees them.
    base: String,
}

pub async fn answer(api: Api, locks: Arc<Locks>, request: Request) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let mut response = match Call::read(api, locks, request).await {
        Ok(call) => routes::answer(call).await.unwrap_or_else(ApiError::into_response),
        Err(error) => error.into_response(),
    };
    tracing::debug!(%method, %uri, status = response.status().as_u16(), "answered");
    if let Ok(id) = HeaderValue::from_str(&random_guid().to_string()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

impl Call {
    async fn read(api: Api, locks: Arc<Locks>, request: Request) -> Result<Call, ApiError> {
        let path = Path::parse(request.uri().path())
            .map_err(|error| ApiError::new(Refusal::InvalidPath, error.to_string()).about(request.uri().path()))?;
        let Query(query) = Query::<Vec<(String, String)>>::try_from_uri(request.uri())
            .map_err(|_| ApiError::new(Refusal::InvalidQuery, "The query cannot be read. Encode it as UTF-8."))?;
        let version = api_version(&query)?;
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let scheme = match request.extensions().get() {
            Some(Via::Https) => "https",
            Some(Via::Http) | None => "http",
        };
        let base = format!("{scheme}://{host}");
        let method = request.method().clone();
        let (headers, body) = extract::read(request, &()).await?;
        if !body.is_empty() {
            extract::expect_json(&headers)?;
        }
        let by = api.by();
        Ok(Call { arm: Arm { api, locks, by, version }, method, path, query, body, base })
    }

    pub fn id(&self) -> &ResourceId {
        &self.path.id
    }

    /// The resource on which an action, a list or an extension hangs.
    pub fn home(&self) -> Home {
        home_of(self.id())
    }

    pub fn subscription(&self) -> &str {
        self.id().subscription().map_or("", |name| name.as_str())
    }

    /// The `n`th name below the provider.
    pub fn name(&self, n: usize) -> &str {
        let pair = self.id().provider.as_ref().and_then(|provider| provider.pairs.get(n));
        pair.map_or("", |pair| pair.name.as_str())
    }

    pub fn query(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The body, which must be an object.
    pub fn json(&self) -> Result<Value, ApiError> {
        let not_json = |problem: String| ApiError::new(Refusal::InvalidRequestContent, problem);
        let body: Value = serde_json::from_slice(&self.body)
            .map_err(|error| not_json(format!("The body is not JSON: {error}. Send the resource as a JSON object.")))?;
        match body.is_object() {
            true => Ok(body),
            false => Err(not_json("The body must be a JSON object.".into())),
        }
    }

    /// The body of an action, which may be left out.
    pub fn may_json(&self) -> Result<Value, ApiError> {
        if self.body.trim_ascii().is_empty() || self.body.trim_ascii() == b"null" {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        self.json()
    }

    /// A path of ours as the caller can follow it, in the same api-version.
    pub fn url(&self, path: &str) -> String {
        let path = forewarn_wire::percent::encoded_path(path);
        format!("{}{path}?api-version={}", self.base, self.arm.version)
    }

    /// This request's own address with some of its query replaced.
    pub fn url_with(&self, changed: &[(&str, String)]) -> String {
        let kept = self.query.iter().filter(|(key, _)| {
            !key.eq_ignore_ascii_case("api-version") && !changed.iter().any(|(name, _)| key.eq_ignore_ascii_case(name))
        });
        let mut url = self.url(&self.path.to_string());
        for (key, value) in kept.map(|(key, value)| (key.as_str(), value)).chain(changed.iter().map(|(k, v)| (*k, v))) {
            url += &format!("&{}={}", forewarn_wire::percent::encoded_path(key), encoded_value(value));
        }
        url
    }
}

impl Arm {
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.api.engine().snapshot()
    }

    pub async fn lock(&self, id: &ResourceId) -> MutexGuard<'_, ()> {
        self.locks.of(id).await
    }

    /// Carries out the commands and writes the attachments, all or nothing.
    pub async fn commit(
        &self,
        commands: Vec<Command>,
        note: Note,
        attach: impl FnOnce(&[Answer]) -> Vec<Attachment> + Send + 'static,
    ) -> Result<AllDone, ApiError> {
        let bundle = Bundle { commands, asked: Some(self.api.asked(note)), attach: Box::new(attach) };
        Ok(self.api.engine().submit_all(bundle).await?)
    }

    pub async fn read<T: Send + 'static>(
        &self,
        what: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ApiError> {
        history::read_store(&self.api, what).await
    }

    pub async fn attached(&self, owner: Owner, name: impl Into<String>) -> Result<Option<Value>, ApiError> {
        let name = name.into();
        let text = self.read(move |reader| reader.attachment(owner, &name)).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// The bodies of these owners, Null where there is none, and who they are.
    pub async fn bodies(&self, owners: Vec<Owner>) -> Result<Vec<(Value, Option<MachineIdentity>)>, ApiError> {
        let texts = self.read(move |reader| {
            let both =
                |owner: &Owner| Ok((reader.attachment(*owner, BODY)?, reader.attachment(*owner, MACHINE_ATTACHMENT)?));
            owners.iter().map(both).collect::<Result<Vec<_>, StoreError>>()
        });
        let body = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let identity = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
        Ok(texts.await?.into_iter().map(|(one, other)| (body(one), identity(other))).collect())
    }

    pub async fn body(&self, owner: Owner) -> Result<Value, ApiError> {
        Ok(self.attached(owner, BODY).await?.unwrap_or_default())
    }
}

pub fn home_of(id: &ResourceId) -> Home {
    let text = |name: Option<&forewarn_wire::arm::id::Name>| name.map_or("", |name| name.as_str()).into();
    Home { subscription: text(id.subscription()), resource_group: text(id.group()) }
}

/// The id of a resource group.
pub fn group_id(id: &ResourceId) -> ResourceId {
    ResourceId { scope: id.scope.clone(), provider: None, extension: None }
}

pub fn is_in_group(id: &ResourceId) -> bool {
    matches!(id.scope, Scope::Group { .. })
}

fn api_version(query: &[(String, String)]) -> Result<String, ApiError> {
    let mut given = query.iter().filter(|(key, _)| key.eq_ignore_ascii_case("api-version")).map(|(_, value)| value);
    let version = given.next().filter(|version| !version.is_empty()).ok_or_else(|| {
        let message = "The api-version query parameter (?api-version=) is required for all requests.";
        ApiError::new(Refusal::MissingApiVersionParameter, message).about("api-version")
    })?;
    match is_version(version) && given.next().is_none() {
        true => Ok(version.clone()),
        false => {
            let message = "The api-version is not a date. Give one, once, like 2024-11-01 or 2025-10-01-preview.";
            Err(ApiError::new(Refusal::InvalidApiVersionParameter, message).about("api-version"))
        }
    }
}

/// `2024-11-01`, perhaps with `-preview`.
fn is_version(text: &str) -> bool {
    let (date, rest) = text.split_at_checked(10).unwrap_or((text, ""));
    let shape = |(n, byte): (usize, u8)| if n == 4 || n == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    let suffix = rest.is_empty()
        || rest.starts_with('-') && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    date.bytes().enumerate().all(shape) && date.parse::<jiff::civil::Date>().is_ok() && suffix && rest.len() <= 32
}

fn encoded_value(value: &str) -> String {
    forewarn_wire::percent::encoded_path(value).replace('/', "%2F")
}
