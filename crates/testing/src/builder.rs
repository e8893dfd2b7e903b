//! What a server in a test may be started with.

use std::net::Ipv4Addr;
use std::ops::Add;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forewarn_server::{Auth, BoundAddress, ClockKind, Config, ListenAddress, MetadataListener, StoreChoice};
use tokio::runtime;

use crate::api::Api;
use crate::{Forewarn, Inner};

/// Made by [`Forewarn::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    config: Config,
}

impl Default for Builder {
    fn default() -> Self {
        let any_port = (Ipv4Addr::LOCALHOST, 0).into();
        let listener = MetadataListener {
            address: ListenAddress::Tcp(any_port),
            machine: None,
            network: "default".into(),
            prefix: Some(true),
        };
        let config = Config {
            store: StoreChoice::Memory,
            metadata: vec![listener],
            management: any_port,
            auth: Auth::Off,
            clock: ClockKind::Manual { start: None },
            ..Config::default()
        };
        Builder { config }
    }
}

impl Builder {
    /// The manual clock begins then, at a whole second.
    ///
    /// ```
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// let begin = UNIX_EPOCH + Duration::from_secs(1_785_232_800);
    /// let forewarn = forewarn_testing::Forewarn::builder().clock_start(begin).start();
    /// let event = forewarn.machine("web_0").restart();
    /// assert_eq!(event.not_before(), "2026-07-28T10:15:00Z");
    /// ```
    #[must_use]
    #[track_caller]
    pub fn clock_start(mut self, start: SystemTime) -> Builder {
        let since = start.duration_since(UNIX_EPOCH).expect("the clock begins after 1970");
        let whole = Duration::from_secs(since.as_secs());
        self.config.clock = ClockKind::Manual { start: Some(after_zero(whole)) };
        self
    }

    /// Time passes by itself. For handlers that compare `NotBefore` with their own clock.
    #[must_use]
    pub fn real_clock(mut self) -> Builder {
        self.config.clock = ClockKind::Real;
        self
    }

    /// Divides notice, pauses and simulated impacts: with 60, fifteen minutes are fifteen seconds.
    #[must_use]
    pub fn notice_scale(mut self, scale: u32) -> Builder {
        self.config.rules.notice_scale = scale;
        self
    }

    /// Requests a second that a machine may make before it gets 429.
    #[must_use]
    pub fn rate_limit(mut self, per_second: u32) -> Builder {
        self.config.rate_limit = Some(per_second);
        self
    }

    /// Holds the first requests of a machine so long, as the original does; real time, at most two minutes.
    #[must_use]
    pub fn first_call_delay(mut self, delay: Duration) -> Builder {
        self.config.first_call_delay = delay;
        self
    }

    /// Starts the server; it answers when this returns.
    #[track_caller]
    pub fn start(self) -> Forewarn {
        // Threads of its own, begun where no other runtime is in the way.
        let started = std::thread::spawn(move || {
            let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            let running = runtime.block_on(forewarn_server::start(self.config));
            running.map(|running| (runtime, running)).map_err(|error| format!("{error:#}"))
        });
        let (runtime, running) = match started.join().expect("starting does not panic") {
            Ok(started) => started,
            Err(error) => panic!("The server cannot be started: {error}"),
        };
        let Some(BoundAddress::Tcp(metadata)) = running.metadata.first() else {
            panic!("The server has no listener for machines.")
        };
        let metadata = format!("http://{metadata}");
        let api = Api::new(format!("http://{}", running.management));
        Forewarn { inner: Arc::new(Inner { api, metadata, server: Some((runtime, running)) }) }
    }
}

/// The rules count time from 1970, which is their zero.
fn after_zero<T: Default + Add<Duration, Output = T>>(since: Duration) -> T {
    T::default() + since
}
