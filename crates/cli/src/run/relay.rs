//! Relays connections out of the program's namespace: metadata requests to a server, on behalf of one machine, and
//! loopback ports to the same ports of the host.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
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
    let Ok(socket) = stream.as_fd().try_clone_to_owned() else { return };
    let socket = Arc::new(socket);
    let service = service_fn(move |request| {
        let (upstream, socket) = (upstream.clone(), socket.clone());
        async move { upstream.forward(request).await.inspect_err(|ConnectionBroken| reset_on_close(&socket)) }
    });
    let server = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // Errors of a connection only concern the program.
    let _ = server.await;
}

/// The server broke the connection off, as a fault makes it do. The program must see the same.
#[derive(Debug)]
struct ConnectionBroken;

impl std::fmt::Display for ConnectionBroken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server closed the connection before responding")
    }
}

impl std::error::Error for ConnectionBroken {}

/// Has the connection reset instead of closed.
fn reset_on_close(socket: &OwnedFd) {
    let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

impl Upstream {
    async fn forward(&self, mut request: Request<Incoming>) -> Result<Response<Body>, ConnectionBroken> {
        let Some(uri) = add_prefix(&self.prefix, request.uri()) else {
            return Ok(error_response(StatusCode::BAD_REQUEST, "The request path is invalid."));
        };
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_11;
        match self.connect().await {
            Ok(mut sender) => match sender.send_request(request).await {
                Ok(response) => Ok(response.map(|body| body.boxed())),
                Err(_) => Err(ConnectionBroken),
            },
            Err(error) => {
                let text = format!("forewarn run cannot reach the server at {}: {error}.", self.authority);
                Ok(error_response(StatusCode::SERVICE_UNAVAILABLE, &text))
            }
        }
    }

    /// Opens a connection per request, so that a restarted server is found again.
    async fn connect(&self) -> io::Result<http1::SendRequest<Incoming>> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const REQUEST: &[u8] = b"GET /metadata/versions HTTP/1.1\r\nHost: x\r\n\r\n";

    /// Sends a request through the relay and returns what the program reads.
    async fn ask(authority: String) -> io::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let relay = listener.local_addr()?;
        tokio::spawn(relay_metadata(listener, Upstream { authority, prefix: "/vm/a".into() }));
        let mut program = TcpStream::connect(relay).await?;
        program.write_all(REQUEST).await?;
        let mut answer = vec![0; 32];
        let read = program.read(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
    }

    #[tokio::test]
    async fn a_reset_by_the_server_is_a_reset_for_the_program() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = server.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = server.accept().await.unwrap();
            let _ = stream.read(&mut [0; 64]).await;
            stream.set_zero_linger().unwrap();
        });
        assert_eq!(ask(authority).await.map_err(|error| error.kind()), Err(io::ErrorKind::ConnectionReset));
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_unavailable() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
        assert!(ask(taken).await.unwrap().starts_with("HTTP/1.1 503"));
    }

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
