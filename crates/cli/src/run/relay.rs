//! Relays connections out of the program's namespace: metadata requests to a server, on behalf of one machine, and
//! loopback ports to the same ports of the host.

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

/// Limit of concurrent connections per listener.
const CONNECTIONS_MAX: usize = 1024;

/// Pause after a failed accept, for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The metadata endpoint of a server, and the path prefix that identifies the machine.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Host and port.
    pub authority: String,
    /// `/vm/web_0`.
    pub prefix: String,
}

type Body = BoxBody<Bytes, hyper::Error>;

pub async fn relay_metadata(listener: TcpListener, upstream: Upstream) {
    let upstream = Arc::new(upstream);
    accept(listener, move |stream| serve_connection(stream, upstream.clone())).await;
}

pub async fn relay_port(listener: TcpListener, port: u16) {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    accept(listener, move |mut listeners| async move {
        // If nothing listens on the host, the program sees a closed connection.
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

async fn serve_connection(stream: TcpStream, upstream: Arc<Upstream>) {
    let service = service_fn(move |request| {
        let upstream = upstream.clone();
        async move { Ok::<_, Infallible>(upstream.forward(request).await) }
    });
    let server = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // Errors of a connection only concern the program.
    let _ = server.await;
}

impl Upstream {
    async fn forward(&self, mut request: Request<Incoming>) -> Response<Body> {
        let Some(uri) = add_prefix(&self.prefix, request.uri()) else {
            return error_response(StatusCode::BAD_REQUEST, "The request path is invalid.");
        };
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_11;
        match self.send(request).await {
            Ok(response) => response.map(|body| body.boxed()),
            Err(error) => {
                let text = format!("forewarn run cannot reach the server at {}: {error}.", self.authority);
                error_response(StatusCode::SERVICE_UNAVAILABLE, &text)
            }
        }
    }

    /// Opens a connection per request, so that a restarted server is found again.
    async fn send(&self, request: Request<Incoming>) -> io::Result<Response<Incoming>> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(io::Error::other)
    }
}

/// Adds the prefix to the target of a request; accepts the absolute form of proxies, too.
fn add_prefix(prefix: &str, uri: &Uri) -> Option<Uri> {
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    format!("{prefix}{path}").parse().ok()
}

fn error_response(status: StatusCode, text: &str) -> Response<Body> {
    let body = serde_json::json!({ "error": text }).to_string();
    let mut response = Response::new(Full::from(body).map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_added_to_paths() {
        for (target, expected) in [
            (
                "/metadata/scheduledevents?api-version=2020-07-01",
                "/vm/a/metadata/scheduledevents?api-version=2020-07-01",
            ),
            ("http://169.254.169.254/metadata", "/vm/a/metadata"),
            ("/vm/other/metadata", "/vm/a/vm/other/metadata"),
        ] {
            assert_eq!(add_prefix("/vm/a", &target.parse().unwrap()).unwrap(), expected);
        }
    }
}
