//! A request to the ARM API, parsed, and the server state that its handler works with.
//!
//! Handlers are looked up in `routes`; nothing here depends on the type of the resource.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Query, Request};
use forewarn_core::{Name, ResourceGroupRef, Snapshot};
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Owner, Reader, StoreError};
use forewarn_wire::arm::id::{Path, ResourceId};
use forewarn_wire::percent;
use http::{Method, header};
use serde_json::Value;
use tokio::sync::MutexGuard;

use super::locks::Locks;
use super::resource::resource_group_of;
use forewarn_access::{MACHINE_ATTACHMENT, MachineIdentity};
use forewarn_api::error::{ApiError, ErrorCode};
use forewarn_api::{Actions, Scheme, extract, history};

/// The name of the attachment that holds the body of a machine or group.
pub const BODY: &str = "arm";

/// The server state as one caller sees it.
#[derive(Clone)]
pub struct Arm {
    pub actions: Actions,
    pub locks: Arc<Locks>,
    /// The name of the caller, as events and operations record it.
    pub by: Name,
    /// The requested api-version. Every version is accepted; few make a difference.
    pub version: String,
}

/// One request: method, path, query and body.
pub struct Call {
    pub arm: Arm,
    pub method: Method,
    pub path: Path,
    query: Vec<(String, String)>,
    body: Bytes,
    /// The scheme and host that the caller used.
    base: String,
}

impl Call {
    pub async fn read(actions: Actions, locks: Arc<Locks>, request: Request) -> Result<Call, ApiError> {
        let path = Path::parse(request.uri().path()).map_err(|error| {
            ApiError::new(ErrorCode::InvalidPath, error.to_string()).with_target(request.uri().path())
        })?;
        let Query(query) = Query::<Vec<(String, String)>>::try_from_uri(request.uri()).map_err(|_| {
            ApiError::new(ErrorCode::InvalidQuery, "The query string is not valid UTF-8. Percent-encode it as UTF-8.")
        })?;
        let version = api_version(&query)?;
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let scheme = match request.extensions().get() {
            Some(Scheme::Https) => "https",
            Some(Scheme::Http) | None => "http",
        };
        let base = format!("{scheme}://{host}");
        let method = request.method().clone();
        let (headers, body) = extract::read_body(request, &()).await?;
        if !body.is_empty() {
            extract::expect_json(&headers)?;
        }
        let by = actions.principal_name();
        Ok(Call { arm: Arm { actions, locks, by, version }, method, path, query, body, base })
    }

    pub fn id(&self) -> &ResourceId {
        &self.path.id
    }

    /// The subscription and resource group in the path.
    pub fn home(&self) -> ResourceGroupRef {
        resource_group_of(self.id())
    }

    pub fn subscription(&self) -> &str {
        self.id().subscription().map_or("", |name| name.as_str())
    }

    /// The `n`th name below the provider, or an empty string.
    pub fn name(&self, n: usize) -> &str {
        let pair = self.id().provider.as_ref().and_then(|provider| provider.pairs.get(n));
        pair.map_or("", |pair| pair.name.as_str())
    }

    pub fn query(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The body, which must be a JSON object.
    pub fn json(&self) -> Result<Value, ApiError> {
        let not_json = |problem: String| ApiError::new(ErrorCode::InvalidRequestContent, problem);
        let body: Value = serde_json::from_slice(&self.body).map_err(|error| {
            not_json(format!("The body is not valid JSON: {error}. Send the resource as a JSON object."))
        })?;
        match body.is_object() {
            true => Ok(body),
            false => Err(not_json("The body must be a JSON object.".into())),
        }
    }

    /// The body of an action. A missing body or `null` is an empty object.
    pub fn optional_json(&self) -> Result<Value, ApiError> {
        if self.body.trim_ascii().is_empty() || self.body.trim_ascii() == b"null" {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        self.json()
    }

    /// The URL of a path on this server, with the api-version of this request.
    pub fn url(&self, path: &str) -> String {
        let path = percent::encode_path(path);
        format!("{}{path}?api-version={}", self.base, self.arm.version)
    }

    /// The URL of this request with some query parameters replaced.
    pub fn url_with(&self, changed: &[(&str, String)]) -> String {
        let kept = self.query.iter().filter(|(key, _)| {
            !key.eq_ignore_ascii_case("api-version") && !changed.iter().any(|(name, _)| key.eq_ignore_ascii_case(name))
        });
        let mut url = self.url(&self.path.to_string());
        for (key, value) in kept.map(|(key, value)| (key.as_str(), value)).chain(changed.iter().map(|(k, v)| (*k, v))) {
            url += &format!("&{}={}", percent::encode_path(key), percent::encode_component(value));
        }
        url
    }
}

impl Arm {
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.actions.engine().snapshot()
    }

    pub async fn lock(&self, id: &ResourceId) -> MutexGuard<'_, ()> {
        self.locks.lock(id).await
    }

    pub async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ApiError> {
        history::read_store(&self.actions, query).await
    }

    /// An attachment as JSON.
    pub async fn read_attachment(&self, owner: Owner, name: impl Into<String>) -> Result<Option<Value>, ApiError> {
        let name = name.into();
        let text = self.read(move |reader| reader.attachment(owner, &name)).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// One page of the region's attachments whose names begin with `prefix`, after the given name.
    pub async fn read_attachments_below(
        &self,
        prefix: String,
        after: Option<String>,
    ) -> Result<Vec<(String, Value)>, ApiError> {
        let found = self
            .read(move |reader| reader.attachments(Owner::Region, &prefix, after.as_deref(), ATTACHMENTS_PAGE_MAX))
            .await?;
        Ok(found.into_iter().map(|(name, text)| (name, serde_json::from_str(&text).unwrap_or_default())).collect())
    }

    /// The bodies of these owners, null where there is none, with their identities.
    pub async fn read_bodies(&self, owners: Vec<Owner>) -> Result<Vec<(Value, Option<MachineIdentity>)>, ApiError> {
        let texts = self.read(move |reader| {
            let both =
                |owner: &Owner| Ok((reader.attachment(*owner, BODY)?, reader.attachment(*owner, MACHINE_ATTACHMENT)?));
            owners.iter().map(both).collect::<Result<Vec<_>, StoreError>>()
        });
        let body = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let identity = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
        Ok(texts.await?.into_iter().map(|(one, other)| (body(one), identity(other))).collect())
    }

    pub async fn read_body(&self, owner: Owner) -> Result<Value, ApiError> {
        Ok(self.read_attachment(owner, BODY).await?.unwrap_or_default())
    }
}

fn api_version(query: &[(String, String)]) -> Result<String, ApiError> {
    let mut given = query.iter().filter(|(key, _)| key.eq_ignore_ascii_case("api-version")).map(|(_, value)| value);
    let version = given.next().filter(|version| !version.is_empty()).ok_or_else(|| {
        let message = "The api-version query parameter (?api-version=) is required for all requests.";
        ApiError::new(ErrorCode::MissingApiVersionParameter, message).with_target("api-version")
    })?;
    match is_version(version) && given.next().is_none() {
        true => Ok(version.clone()),
        false => {
            let message = "The api-version is not a date. Send it once, as in 2024-11-01 or 2025-10-01-preview.";
            Err(ApiError::new(ErrorCode::InvalidApiVersionParameter, message).with_target("api-version"))
        }
    }
}

/// Whether the text is a date, such as `2024-11-01`, with an optional suffix such as `-preview`.
fn is_version(text: &str) -> bool {
    let (date, rest) = text.split_at_checked(10).unwrap_or((text, ""));
    let shape = |(n, byte): (usize, u8)| if n == 4 || n == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    let suffix = rest.is_empty()
        || rest.starts_with('-') && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    date.bytes().enumerate().all(shape) && date.parse::<jiff::civil::Date>().is_ok() && suffix && rest.len() <= 32
}
