//! The provider: discovery, the authorization URL, and the exchange of a code for the claims about a user.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreErrorResponseType, CoreGenderClaim, CoreJsonWebKey,
    CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm, CoreProviderMetadata, CoreRevocableToken,
    CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AdditionalClaims, AuthorizationCode, Client, ClientId, ClientSecret, CsrfToken, EmptyExtraTokenFields,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, IdTokenClaims, IdTokenFields, IssuerUrl, Nonce, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, StandardErrorResponse, StandardTokenResponse,
    TokenResponse,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::attempt::SignInAttempt;
use super::config::{OidcConfig, OidcSecret};
use super::http::{HttpClient, HttpError};
use super::{OidcError, printable};

/// How long discovered endpoints and keys are used. Providers announce new keys long before they use them.
const METADATA_LIFE: Duration = Duration::from_secs(300);

/// Scopes beside `openid`, with names and groups. Some providers refuse scopes that they do not know, so only those that a
/// provider announces are requested.
const SCOPES: [&str; 3] = ["profile", "email", "groups"];

/// All claims that have no field of their own, such as groups.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct OtherClaims(Map<String, Value>);

impl AdditionalClaims for OtherClaims {}

type OidcClaims = IdTokenClaims<OtherClaims, CoreGenderClaim>;
type TokenFields = IdTokenFields<
    OtherClaims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;
type OidcClient = Client<
    OtherClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    StandardTokenResponse<TokenFields, CoreTokenType>,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

pub struct Provider {
    issuer: String,
    client_id: String,
    client_secret: Option<OidcSecret>,
    http: Arc<HttpClient>,
    metadata: Mutex<Option<(Instant, CoreProviderMetadata)>>,
}

/// An authorization request and its secrets.
pub struct AuthorizationRequest {
    pub url: String,
    pub state: String,
    pub nonce: String,
    pub verifier: String,
}

/// The claims about a user that matter here.
#[derive(Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
}

impl Provider {
    pub fn new(config: &OidcConfig) -> Provider {
        Provider {
            issuer: config.issuer.clone(),
            client_id: config.client_id.clone(),
            client_secret: config.client_secret.clone(),
            http: Arc::default(),
            metadata: Mutex::default(),
        }
    }

    pub async fn authorize(&self, redirect: &str) -> Result<AuthorizationRequest, OidcError> {
        let client = self.client(redirect).await?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let mut request = client.authorize_url(flow, CsrfToken::new_random, Nonce::new_random);
        for scope in self.supported_scopes().await? {
            request = request.add_scope(scope);
        }
        let (url, state, nonce) = request.set_pkce_challenge(challenge).url();
        Ok(AuthorizationRequest {
            url: url.to_string(),
            state: state.secret().clone(),
            nonce: nonce.secret().clone(),
            verifier: verifier.secret().clone(),
        })
    }

    /// Exchanges the code and checks the ID token: signature, issuer, audience, expiry and nonce.
    pub async fn exchange(&self, code: String, attempt: &SignInAttempt, groups_claim: &str) -> Result<User, OidcError> {
        let client = self.client(&attempt.redirect).await?;
        let request = client.exchange_code(AuthorizationCode::new(code));
        let request = request.map_err(|_| OidcError::Provider("it has no token endpoint".into()))?;
        let http = self.http.clone();
        let send = move |request| {
            let http = http.clone();
            async move { http.send(request).await }
        };
        let verifier = PkceCodeVerifier::new(attempt.verifier.clone());
        let response = request.set_pkce_verifier(verifier).request_async(&send).await.map_err(token_error)?;
        let token = response.id_token().ok_or_else(|| OidcError::Invalid("it has no ID token".into()))?;
        let nonce = Nonce::new(attempt.nonce.clone());
        let claims = token.claims(&client.id_token_verifier(), &nonce).map_err(|error| {
            // The provider may have changed its keys.
            self.forget_metadata();
            OidcError::Invalid(describe(&error))
        })?;
        Ok(user_of(claims, groups_claim))
    }

    async fn supported_scopes(&self) -> Result<Vec<Scope>, OidcError> {
        let metadata = self.discover().await?;
        let announced = metadata.scopes_supported().map_or(&[][..], Vec::as_slice);
        let wanted = SCOPES.into_iter().map(|scope| Scope::new(scope.to_owned()));
        Ok(wanted.filter(|scope| announced.contains(scope)).collect())
    }

    async fn client(&self, redirect: &str) -> Result<OidcClient, OidcError> {
        let redirect = RedirectUrl::new(redirect.to_owned())
            .map_err(|_| OidcError::Provider("the callback URL of this server is not valid".into()))?;
        let secret = self.client_secret.as_ref().map(|secret| ClientSecret::new(secret.reveal().to_owned()));
        let id = ClientId::new(self.client_id.clone());
        Ok(OidcClient::from_provider_metadata(self.discover().await?, id, secret).set_redirect_uri(redirect))
    }

    async fn discover(&self) -> Result<CoreProviderMetadata, OidcError> {
        let fresh = |(at, _): &&(Instant, CoreProviderMetadata)| at.elapsed() < METADATA_LIFE;
        if let Some((_, metadata)) = self.lock_metadata().as_ref().filter(fresh) {
            return Ok(metadata.clone());
        }
        let issuer = IssuerUrl::new(self.issuer.clone()).map_err(|error| OidcError::Provider(error.to_string()))?;
        let http = self.http.clone();
        let send = move |request| {
            let http = http.clone();
            async move { http.send(request).await }
        };
        let metadata = CoreProviderMetadata::discover_async(issuer, &send).await;
        let metadata = metadata.map_err(|error| OidcError::Provider(describe(&error)))?;
        *self.lock_metadata() = Some((Instant::now(), metadata.clone()));
        Ok(metadata)
    }

    fn forget_metadata(&self) {
        *self.lock_metadata() = None;
    }

    fn lock_metadata(&self) -> std::sync::MutexGuard<'_, Option<(Instant, CoreProviderMetadata)>> {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn token_error(error: RequestTokenError<HttpError, StandardErrorResponse<CoreErrorResponseType>>) -> OidcError {
    match error {
        RequestTokenError::ServerResponse(refusal) => OidcError::Refused(printable(&refusal.to_string(), 300)),
        RequestTokenError::Request(error) => OidcError::Provider(error.to_string()),
        RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
            OidcError::Invalid("the token endpoint did not return tokens".into())
        }
    }
}

/// The name that people know, and the groups. A claim with one group can be a string.
fn user_of(claims: &OidcClaims, groups_claim: &str) -> User {
    let other = &claims.additional_claims().0;
    let name = claims.preferred_username().map(|name| name.to_string());
    let name = name.or_else(|| claims.email().map(|email| email.to_string()));
    let groups = match other.get(groups_claim) {
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
    };
    User { name: name.unwrap_or_else(|| claims.subject().to_string()), groups }
}

/// An error and its causes in one line.
fn describe(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let mut texts: Vec<String> = causes.map(|cause| printable(&cause.to_string(), 200)).collect();
    texts.dedup();
    texts.join(": ")
}
