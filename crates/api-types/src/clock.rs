//! The server's clock.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ClockMode, Time};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Clock {
    pub kind: ClockMode,
    pub now: Time,
    /// Divisor of notice periods, pauses and simulated impacts.
    pub notice_scale: u32,
    /// The next time at which something changes without a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_deadline: Option<Time>,
    /// Description of that deadline: `NotBefore of a Reboot of web_0`, or `housekeeping` if it affects no machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_deadline_of: Option<String>,
}

/// `nextDeadlineOf` of a deadline that affects no machine.
pub const HOUSEKEEPING: &str = "housekeeping";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdvanceClock {
    #[schema(maximum = 43_200_000)]
    pub seconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetClock {
    pub now: Time,
}
