//! The network of one server as proxies that can be cut, in one or in both directions. Data that cannot pass waits, as with
//! packets that are lost and sent again.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often waiting data looks whether it can pass.
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[derive(Default)]
pub struct Cut {
    /// Nothing leaves the server.
    pub outgoing: AtomicBool,
    /// Nothing reaches the server.
    pub incoming: AtomicBool,
}

/// Where the target of a proxy is.
#[derive(Clone, Copy)]
pub enum Side {
    Outside,
    /// The target is the server itself.
    Inside,
}

impl Cut {
    pub fn set(&self, outgoing: bool, incoming: bool) {
        self.outgoing.store(outgoing, Ordering::SeqCst);
        self.incoming.store(incoming, Ordering::SeqCst);
    }

    /// Starts a proxy to this address, and returns its own. It ends with the test program.
    pub fn start_proxy(self: &Arc<Self>, target: SocketAddr, side: Side) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().unwrap();
        let cut = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let cut = cut.clone();
                std::thread::spawn(move || cut.join(&stream, target, side));
            }
        });
        address
    }

    fn join(self: &Arc<Self>, client: &TcpStream, target: SocketAddr, side: Side) {
        // A handshake needs both directions.
        self.wait(|cut| cut.outgoing.load(Ordering::SeqCst) || cut.incoming.load(Ordering::SeqCst));
        let Ok(server) = TcpStream::connect(target) else { return };
        let ends = [client, &server].map(|end| end.set_nodelay(true).and_then(|()| end.try_clone()));
        let [Ok(client_end), Ok(server_end)] = ends else { return };
        let cut = self.clone();
        let (forth, back): (Way, Way) = match side {
            Side::Outside => (Way::Outgoing, Way::Incoming),
            Side::Inside => (Way::Incoming, Way::Outgoing),
        };
        std::thread::spawn(move || cut.copy(server_end, client_end, back));
        if let Ok(client) = client.try_clone() {
            self.copy(client, server, forth);
        }
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream, way: Way) {
        let mut buffer = [0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            self.wait(|cut| match way {
                Way::Outgoing => cut.outgoing.load(Ordering::SeqCst),
                Way::Incoming => cut.incoming.load(Ordering::SeqCst),
            });
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }

    fn wait(&self, is_cut: impl Fn(&Cut) -> bool) {
        while is_cut(self) {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

#[derive(Clone, Copy)]
enum Way {
    Outgoing,
    Incoming,
}
