//! A TCP proxy under the control of a test: the network between a host and the server.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Proxy {
    pub address: SocketAddr,
    is_cut: Arc<watch::Sender<bool>>,
}

impl Proxy {
    pub async fn start(to: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_cut = Arc::new(watch::Sender::new(false));
        let cut = is_cut.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, to, cut.subscribe()));
            }
        });
        Proxy { address, is_cut }
    }

    /// Closes all connections and refuses new ones.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    pub fn heal(&self) {
        self.is_cut.send_replace(false);
    }
}

async fn carry(mut near: TcpStream, to: SocketAddr, mut is_cut: watch::Receiver<bool>) {
    if *is_cut.borrow() {
        return;
    }
    let Ok(mut far) = TcpStream::connect(to).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        _ = is_cut.wait_for(|cut| *cut) => {}
    }
}
