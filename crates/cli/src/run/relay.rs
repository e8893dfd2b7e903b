//! What stands between the program's network and ours: its requests for metadata go to a server as those of one
//! machine, and ports of its loopback go to the same ports of ours.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::http::uri::{PathAndQuery, Uri};
use hyper::http::{Request, Response, StatusCode, Version};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at once of each listener; one more waits. One program with many threads has fewer.
const CONNECTIONS_MAX: usize = 1024;

/// How long to wait when a connection cannot be accepted, for lack of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The metadata endpoint of a server, and the path that says which machine asks.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// A name or an address, and a port.
    pub authority: String,
    /// `/vm/web_0`.
    pub prefix: String,
}

type Body = BoxBody<Bytes, hyper::Error>;

pub async fn metadata(listener: TcpListener, upstream: Upstream) {
    let upstream = Arc::new(upstream);
    accept(listener, move |stream| converse(stream, upstream.clone())).await;
}

pub async fn port(listener: TcpListener, port: u16) {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    accept(listener, move |mut listeners| async move {
        // Nobody listens outside: the program sees a connection that is closed.
        if let Ok(mut outside) = TcpStream::connect(to).await {
            let _ = tokio::io::copy_bidirectional(&mut listeners, &mut outside).await;
        }
    })
    .await;
}

async fn accept<F: Future<Output = ()> + Send + 'static>(listener: TcpListener, serve: impl Fn(TcpStream) -> F) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                let serving = serve(stream);
                tokio::spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn converse(stream: TcpStream, upstream: Arc<Upstream>) {
    let service = service_fn(move |request| {
        let upstream = upstream.clone();
        async move { Ok::<_, Infallible>(upstream.ask(request).await) }
    });
    let server = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // What went wrong between a program and its connection is the program's business.
    let _ = server.await;
}

impl Upstream {
    async fn ask(&self, mut request: Request<Incoming>) -> Response<Body> {
        let Some(uri) = prefixed(&self.prefix, request.uri()) else {
            return sentence(StatusCode::BAD_REQUEST, "The path is not understood.");
        };
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_11;
        match self.send(request).await {
            Ok(response) => response.map(|body| body.boxed()),
            Err(error) => {
                let text = format!("forewarn run cannot reach the server at {}: {error}.", self.authority);
                sentence(StatusCode::SERVICE_UNAVAILABLE, &text)
            }
        }
    }

    /// A connection for each request: a server that was started again is found again.
    async fn send(&self, request: Request<Incoming>) -> io::Result<Response<Incoming>> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(io::Error::other)
    }
}

/// The target of a request with the path before it; proxies' form of it is taken too.
fn prefixed(prefix: &str, uri: &Uri) -> Option<Uri> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    format!("{prefix}{path}").parse().ok()
}

fn sentence(status: StatusCode, text: &str) -> Response<Body> {
    let body = serde_json::json!({ "error": text }).to_string();
    let mut response = Response::new(Full::from(body).map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_get_the_machine_before_them() {
        for (target, expected) in [
            (
                "/metadata/scheduledevents?api-version=2020-07-01",
                "/vm/a/metadata/scheduledevents?api-version=2020-07-01",
            ),
            ("http://169.254.169.254/metadata", "/vm/a/metadata"),
            ("/vm/other/metadata", "/vm/a/vm/other/metadata"),
        ] {
            assert_eq!(prefixed("/vm/a", &target.parse().unwrap()).unwrap(), expected);
        }
    }
}
