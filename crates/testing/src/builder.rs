//! Settings of a test server.

use std::ops::Add;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forewarn_server::{ClockSetting, Config, MetadataListener};

use crate::api::Api;
use crate::harness::{self, TestServer};
use crate::{Forewarn, Inner};

/// Settings of a test server, created by [`Forewarn::builder`].
///
/// ```
/// # use std::time::Duration;
/// let builder = forewarn_testing::Forewarn::builder().rate_limit(5).first_call_delay(Duration::from_millis(1));
/// let forewarn = builder.start();
/// # drop(forewarn);
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    config: Config,
}

impl Default for Builder {
    fn default() -> Self {
        let listener = MetadataListener { prefix: Some(true), ..harness::listener() };
        let config = Config { metadata: vec![listener], ..harness::config(ClockSetting::Manual { start: None }) };
        Builder { config }
    }
}

impl Builder {
    /// Sets the start of the manual clock, rounded down to a whole second.
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
        let since = start.duration_since(UNIX_EPOCH).expect("the clock cannot start before 1970");
        let whole = Duration::from_secs(since.as_secs());
        self.config.clock = ClockSetting::Manual { start: Some(after_zero(whole)) };
        self
    }

    /// Uses the real clock, for handlers that compare `NotBefore` with the system time.
    #[must_use]
    pub fn real_clock(mut self) -> Builder {
        self.config.clock = ClockSetting::Real;
        self
    }

    /// Divides notice periods, delays and simulated impacts. With 60, fifteen minutes become fifteen seconds.
    #[must_use]
    pub fn notice_scale(mut self, scale: u32) -> Builder {
        self.config.rules.notice_scale = scale;
        self
    }

    /// Limits the requests per second of a machine; more get status 429.
    #[must_use]
    pub fn rate_limit(mut self, per_second: u32) -> Builder {
        self.config.rate_limit = Some(per_second);
        self
    }

    /// Delays the first response to each machine, as Azure does. Real time, at most two minutes.
    #[must_use]
    pub fn first_call_delay(mut self, delay: Duration) -> Builder {
        self.config.first_call_delay = delay;
        self
    }

    /// Starts the server. It is ready when this returns.
    #[track_caller]
    pub fn start(self) -> Forewarn {
        let server = TestServer::start(self.config);
        let metadata = format!("http://{}", harness::metadata_address(server.running(), 0));
        let api = Api::new(format!("http://{}", server.running().management));
        Forewarn { inner: Arc::new(Inner { api, metadata, _server: server }) }
    }
}

/// Converts a time since 1970 into the server's timestamp type, whose default is 1970.
fn after_zero<T: Default + Add<Duration, Output = T>>(since: Duration) -> T {
    T::default() + since
}
