//! The socket of one management connection. It fails when its client does not read for too long, and reports input, so that
//! pipelined requests can be counted.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::connection::ConnectionUse;

/// How long a client can leave a response unread. Long enough for a network to recover from a short outage.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

pub struct ManagementSocket<S> {
    socket: S,
    connection: ConnectionUse,
    /// Runs while a write waits for the client.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> ManagementSocket<S> {
    pub fn new(socket: S, connection: ConnectionUse) -> ManagementSocket<S> {
        ManagementSocket { socket, connection, deadline: None }
    }

    /// The result of a write, or an error if the client has not read for too long.
    fn limit<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its responses")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ManagementSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        if read.is_ready() {
            self.connection.record_input();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ManagementSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.limit(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.limit(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        self.limit(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.socket).poll_shutdown(context);
        self.limit(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// The clock of tokio advances by itself when every task waits, so this takes no time.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_disconnected() {
        let (mut client, server) = duplex(64);
        let mut socket = ManagementSocket::new(server, ConnectionUse::new([127, 0, 0, 1].into(), Arc::default()));
        socket.write_all(&[0; 64]).await.unwrap();
        let error = socket.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        client.read_exact(&mut [0; 64]).await.unwrap();
        socket.write_all(&[0; 64]).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_not_disconnected() {
        let (mut client, server) = duplex(64);
        let mut socket = ManagementSocket::new(server, ConnectionUse::new([127, 0, 0, 1].into(), Arc::default()));
        let reader = tokio::spawn(async move {
            for _ in 0..10 {
                sleep(WRITE_TIMEOUT / 2).await;
                client.read_exact(&mut [0; 64]).await.unwrap();
            }
        });
        socket.write_all(&[0; 640]).await.unwrap();
        reader.await.unwrap();
    }
}
