//! A connection to etcd: one member at a time, the next one after a failure, with timeouts and authentication.

use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::messages::{
    AuthenticateRequest, AuthenticateResponse, StatusRequest, StatusResponse, WatchRequest, WatchResponse,
};
use super::options::{EtcdOptions, EtcdTls};
use crate::contract::LogError;

/// Older versions can lose watch events (before 3.5.13) or corrupt data (3.5.0 to 3.5.2).
const VERSION_MIN: [u32; 3] = [3, 5, 13];

/// An answer with a full page of large records.
const ANSWER_BYTES_MAX: usize = 64 << 20;

const TXN: &str = "/etcdserverpb.KV/Txn";
const COMPACT: &str = "/etcdserverpb.KV/Compact";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// The unary methods of etcd that a request can call.
#[derive(Clone, Copy, Debug)]
pub enum Method {
    Txn,
    Compact,
    Status,
}

impl Method {
    fn path(self) -> &'static str {
        match self {
            Method::Txn => TXN,
            Method::Compact => COMPACT,
            Method::Status => STATUS,
        }
    }
}

pub struct Client {
    options: EtcdOptions,
    /// The index of the endpoint in use.
    current: usize,
    connection: Option<Connection>,
    /// The number of connections so far.
    generation: u64,
}

/// A connection to one member.
#[derive(Clone)]
pub struct Connection {
    channel: Channel,
    token: Option<String>,
}

impl Client {
    pub fn new(options: EtcdOptions) -> Client {
        Client { options, current: 0, connection: None, generation: 0 }
    }

    /// Calls a method. An error after the request was sent is in doubt, unless etcd certainly did nothing.
    pub async fn call<A, B>(&mut self, method: Method, request: A) -> Result<B, LogError>
    where
        A: Message + Clone + Default + 'static,
        B: Message + Default + 'static,
    {
        let mut is_first = true;
        loop {
            let connection = self.connect().await?;
            let status = match connection.unary(method.path(), request.clone(), self.options.request_timeout).await {
                Ok(answer) => return Ok(answer),
                Err(status) => status,
            };
            // A token expires, or changes with the roles. Nothing was done, so the request can be repeated.
            let may_repeat = std::mem::replace(&mut is_first, false) && self.options.user.is_some();
            if is_old_token(&status) && may_repeat {
                self.connection = None;
                continue;
            }
            let error = classify(&status);
            if !matches!(error, LogError::Refused(_)) {
                self.use_next();
            }
            return Err(error);
        }
    }

    /// The connection in use, or one to the next member that accepts one.
    pub async fn connect(&mut self) -> Result<Connection, LogError> {
        if let Some(connection) = &self.connection {
            return Ok(connection.clone());
        }
        let mut last = LogError::Unavailable("no endpoints are configured".into());
        for _ in 0..self.options.endpoints.len() {
            match self.connect_to(self.current).await {
                Ok(connection) => {
                    self.generation += 1;
                    self.connection = Some(connection.clone());
                    return Ok(connection);
                }
                Err(error @ LogError::Refused(_)) => return Err(error),
                Err(error) => last = error,
            }
            self.use_next();
        }
        Err(last)
    }

    /// Changes with every new connection.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    fn use_next(&mut self) {
        self.connection = None;
        self.current = (self.current + 1) % self.options.endpoints.len().max(1);
    }

    /// The status of every endpoint.
    pub async fn statuses(&mut self) -> Vec<(String, Result<StatusResponse, LogError>)> {
        let mut all = Vec::new();
        for index in 0..self.options.endpoints.len() {
            let status = match self.connect_to(index).await {
                Ok(connection) => connection.status(self.options.request_timeout).await.map_err(|it| classify(&it)),
                Err(error) => Err(error),
            };
            all.push((self.options.endpoints[index].clone(), status));
        }
        all
    }

    async fn connect_to(&self, index: usize) -> Result<Connection, LogError> {
        let address = &self.options.endpoints[index];
        let endpoint = self.endpoint(address)?;
        let unreachable = |why: String| LogError::Unavailable(format!("cannot connect to etcd at {address}: {why}"));
        let connecting = tokio::time::timeout(self.options.connect_timeout, endpoint.connect()).await;
        let channel = connecting.map_err(|_| unreachable("timed out".into()))?;
        let channel = channel.map_err(|error| unreachable(render_chain(&error)))?;
        let mut connection = Connection { channel, token: None };
        connection.token = self.authenticate(&connection).await?;
        self.check_version(address, &connection).await?;
        Ok(connection)
    }

    fn endpoint(&self, address: &str) -> Result<Endpoint, LogError> {
        let invalid = |error: tonic::transport::Error| {
            LogError::Refused(format!("invalid etcd endpoint or certificate for {address}: {}", render_chain(&error)))
        };
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(invalid)?;
        let endpoint = endpoint.connect_timeout(self.options.connect_timeout).tcp_nodelay(true);
        match &self.options.tls {
            Some(tls) => endpoint.tls_config(tls_config(tls)).map_err(invalid),
            None => Ok(endpoint),
        }
    }

    async fn authenticate(&self, connection: &Connection) -> Result<Option<String>, LogError> {
        let Some(user) = &self.options.user else { return Ok(None) };
        let request = AuthenticateRequest { name: user.name.clone(), password: user.password.clone() };
        let answer: Result<AuthenticateResponse, Status> =
            connection.unary(AUTHENTICATE, request, self.options.request_timeout).await;
        match answer {
            Ok(answer) => Ok(Some(answer.token)),
            // Without authentication, etcd accepts requests without a token.
            Err(status) if status.message().contains("authentication is not enabled") => Ok(None),
            Err(status) => Err(match classify(&status) {
                LogError::Refused(why) => LogError::Refused(format!("etcd refused the user '{}': {why}", user.name)),
                LogError::Unavailable(why) | LogError::InDoubt(why) => LogError::Unavailable(why),
            }),
        }
    }

    async fn check_version(&self, address: &str, connection: &Connection) -> Result<(), LogError> {
        match connection.status(self.options.request_timeout).await {
            Ok(status) => match parse_version(&status.version) {
                Some(version) if version < VERSION_MIN => {
                    let [major, minor, patch] = VERSION_MIN;
                    Err(LogError::Refused(format!(
                        "etcd at {address} has version {}: upgrade it to {major}.{minor}.{patch} or later",
                        status.version
                    )))
                }
                Some(_) | None => Ok(()),
            },
            // Users can be denied the status.
            Err(status) => match classify(&status) {
                LogError::Refused(_) => Ok(()),
                LogError::Unavailable(why) | LogError::InDoubt(why) => Err(LogError::Unavailable(why)),
            },
        }
    }
}

impl Connection {
    async fn unary<A, B>(&self, path: &'static str, message: A, timeout: Duration) -> Result<B, Status>
    where
        A: Message + Default + 'static,
        B: Message + Default + 'static,
    {
        let call = async {
            let mut grpc = self.grpc().await?;
            let codec = ProstCodec::<A, B>::default();
            grpc.unary(self.request(message)?, path_of(path), codec).await.map(tonic::Response::into_inner)
        };
        tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| Err(Status::deadline_exceeded("timed out")))
    }

    pub async fn status(&self, timeout: Duration) -> Result<StatusResponse, Status> {
        self.unary(STATUS, StatusRequest {}, timeout).await
    }

    /// Opens a watch. The stream of requests stays open, because its end would end the watch.
    pub async fn watch(&self, request: WatchRequest) -> Result<Streaming<WatchResponse>, Status> {
        use tokio_stream::StreamExt as _;
        let mut grpc = self.grpc().await?;
        let requests = tokio_stream::once(request).chain(tokio_stream::pending());
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let answer = grpc.streaming(self.request(requests)?, path_of(WATCH), codec).await?;
        Ok(answer.into_inner())
    }

    async fn grpc(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        grpc.ready().await.map_err(|error| Status::unavailable(render_chain(&error)))?;
        Ok(grpc)
    }

    /// A member without a leader refuses the request at once instead of holding it.
    fn request<M>(&self, message: M) -> Result<Request<M>, Status> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            let token = token.parse().map_err(|_| Status::unauthenticated("etcd returned an invalid token"))?;
            request.metadata_mut().insert("token", token);
        }
        Ok(request)
    }
}

fn path_of(path: &'static str) -> PathAndQuery {
    PathAndQuery::from_static(path)
}

fn tls_config(tls: &EtcdTls) -> ClientTlsConfig {
    let mut config = ClientTlsConfig::new();
    config = match &tls.ca {
        Some(pem) => config.ca_certificate(Certificate::from_pem(pem)),
        None => config.with_native_roots(),
    };
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    match &tls.domain {
        Some(domain) => config.domain_name(domain),
        None => config,
    }
}

fn is_old_token(status: &Status) -> bool {
    status.message().contains("invalid auth token") || status.message().contains("revision in header is old")
}

/// Decides whether a request may have been carried out. In case of doubt, it may.
fn classify(status: &Status) -> LogError {
    let message = format!("{:?}: {}", status.code(), status.message());
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Unauthenticated => LogError::Refused(message),
        // No space, or too many requests: an operator must act, or the load must fall.
        Code::ResourceExhausted => LogError::Unavailable(message),
        Code::Unavailable if status.message().contains("no leader") => LogError::Unavailable(message),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => LogError::InDoubt(message),
    }
}

fn parse_version(text: &str) -> Option<[u32; 3]> {
    let core = text.split(['-', '+']).next()?;
    let numbers: Option<Vec<u32>> = core.split('.').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

fn render_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let is_old = |text| parse_version(text).is_some_and(|version| version < VERSION_MIN);
        assert!(is_old("3.4.23") && is_old("3.5.9") && is_old("3.5.12-rc.0"));
        assert!(!is_old("3.5.13") && !is_old("3.5.30") && !is_old("3.6.0-alpha.0") && !is_old("4.0.0"));
        assert!(!is_old("nonsense"));
    }

    #[test]
    fn only_certain_failures_are_certain() {
        let in_doubt = |code, text: &str| matches!(classify(&Status::new(code, text)), LogError::InDoubt(_));
        assert!(in_doubt(Code::Unavailable, "etcdserver: request timed out"));
        assert!(in_doubt(Code::Unavailable, "etcdserver: leader changed"));
        assert!(in_doubt(Code::Unknown, "transport error"));
        assert!(in_doubt(Code::DeadlineExceeded, "timed out"));
        assert!(in_doubt(Code::Cancelled, "timeout expired"));
        assert!(!in_doubt(Code::Unavailable, "etcdserver: no leader"));
        assert!(!in_doubt(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"));
        assert!(!in_doubt(Code::InvalidArgument, "etcdserver: request is too large"));
    }
}
