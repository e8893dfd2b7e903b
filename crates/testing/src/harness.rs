//! The in-process server behind [`Forewarn`](crate::Forewarn) and behind the integration tests of our own crates: on
//! loopback and free ports, in memory, without authentication, with the clock that the test chooses.
//!
//! Hidden from the documentation, because it exposes types of the server that are not part of this library's API.

use std::net::{Ipv4Addr, SocketAddr};

use forewarn_server::{
    Auth, BoundAddress, ClockSetting, Config, ListenAddress, MetadataListener, Running, StoreChoice,
    start as start_server,
};
use tokio::runtime::{self, Runtime};

/// The configuration of a test server.
pub fn config(clock: ClockSetting) -> Config {
    Config {
        store: StoreChoice::Memory,
        metadata: vec![listener()],
        management: (Ipv4Addr::LOCALHOST, 0).into(),
        auth: Auth::Off,
        clock,
        ..Config::default()
    }
}

/// A metadata listener on a free port.
pub fn listener() -> MetadataListener {
    MetadataListener::new(ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into()))
}

/// Starts a server on the current runtime.
#[track_caller]
pub fn start(config: Config) -> impl Future<Output = Running> {
    let caller = std::panic::Location::caller();
    async move { start_server(config).await.unwrap_or_else(|error| panic!("{caller}: cannot start the server: {error:#}")) }
}

/// The address of a metadata listener.
#[track_caller]
pub fn metadata_address(running: &Running, listener: usize) -> SocketAddr {
    match &running.metadata[listener] {
        BoundAddress::Tcp(address) => *address,
        BoundAddress::Unix(path) => panic!("{} is not an address", path.display()),
    }
}

/// A server on a runtime of its own, for tests that are not async. It stops when it is dropped.
pub struct TestServer {
    config: Config,
    /// None after [`TestServer::stop`].
    running: Option<Running>,
    runtime: Option<Runtime>,
}

impl TestServer {
    #[track_caller]
    pub fn start(mut config: Config) -> TestServer {
        // On another thread, because this one may belong to a tokio runtime, which cannot start a second one.
        let started = std::thread::spawn(move || {
            let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            let running = runtime.block_on(start_server(config.clone())).map_err(|error| format!("{error:#}"))?;
            // A restarted server has the same addresses.
            for (listener, bound) in config.metadata.iter_mut().zip(&running.metadata) {
                if let BoundAddress::Tcp(address) = bound {
                    listener.address = ListenAddress::Tcp(*address);
                }
            }
            Ok::<_, String>(TestServer { config, running: Some(running), runtime: Some(runtime) })
        });
        match started.join().expect("the server starts without a panic") {
            Ok(server) => server,
            Err(error) => panic!("cannot start the test server: {error}"),
        }
    }

    #[track_caller]
    pub fn running(&self) -> &Running {
        self.running.as_ref().expect("the server is running")
    }

    #[track_caller]
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("the runtime lives as long as the server").block_on(future)
    }

    #[track_caller]
    pub fn stop(&mut self) {
        let running = self.running.take().expect("the server is running");
        self.block_on(running.stop());
    }

    /// Stops the server and starts it again with the same configuration and metadata addresses.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        let running = self.block_on(start(self.config.clone()));
        self.running = Some(running);
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let (running, runtime) = (self.running.take(), self.runtime.take());
        // On another thread, because this one may belong to a tokio runtime, where blocking is not allowed.
        let stopped = std::thread::spawn(move || {
            let Some(runtime) = runtime else { return };
            if let Some(running) = running {
                runtime.block_on(running.stop());
            }
            runtime.shutdown_background();
        });
        let _ = stopped.join();
    }
}
