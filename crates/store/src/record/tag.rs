//! The words that represent variants in records, and the small types that bodies consist of.
//!
//! Words never change, even if the variant is renamed in Rust.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use forewarn_core::*;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::parse_guid;

/// A variant without data, stored as its word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag<T>(pub T);

pub(crate) trait Tagged: Copy + 'static {
    /// The type's name in error messages.
    const WHAT: &'static str;
    #[cfg(test)]
    const ALL: &'static [&'static str];
    fn tag(self) -> &'static str;
    fn from_tag(tag: &str) -> Option<Self>;
}

macro_rules! tags {
    ($($type:ident $what:literal { $($variant:ident = $tag:literal),+ $(,)? })+) => {$(
        impl Tagged for $type {
            const WHAT: &'static str = $what;
            #[cfg(test)]
            const ALL: &'static [&'static str] = &[$($tag),+];
            fn tag(self) -> &'static str {
                match self { $($type::$variant => $tag),+ }
            }
            fn from_tag(tag: &str) -> Option<Self> {
                match tag { $($tag => Some($type::$variant),)+ _ => None }
            }
        }
    )+};
}

tags! {
    Priority "priority" { Regular = "regular", Spot = "spot" }
    EvictionPolicy "eviction policy" { Deallocate = "deallocate", Delete = "delete" }
    Power "power state" { Running = "running", Stopped = "stopped", Deallocated = "deallocated" }
    Orchestration "orchestration mode" { Uniform = "uniform", Flexible = "flexible" }
    UpgradeMode "upgrade mode" { Automatic = "automatic", Manual = "manual", Rolling = "rolling" }
    EventKind "event type" {
        Freeze = "Freeze", Reboot = "Reboot", Redeploy = "Redeploy", Preempt = "Preempt", Terminate = "Terminate",
        SpotRebalanceRecommendation = "SpotRebalanceRecommendation",
    }
    Cause "cause" {
        HostMaintenance = "host-maintenance",
        LiveMigration = "live-migration",
        UserRestart = "user-restart",
        UserRedeploy = "user-redeploy",
        SelfServiceMaintenance = "self-service-maintenance",
        HardwareFailure = "hardware-failure",
        Eviction = "eviction",
        RebalanceRecommendation = "rebalance-recommendation",
        Deletion = "deletion",
    }
    HostState "host state" { Active = "active", Draining = "draining", Drained = "drained", Failed = "failed" }
    StepState "step state" {
        Pending = "pending",
        InProgress = "in-progress",
        Succeeded = "succeeded",
        Failed = "failed",
        Skipped = "skipped",
        Canceled = "canceled",
    }
    Source "source" { Platform = "Platform", User = "User" }
    Visibility "visibility" { Shown = "shown", Hidden = "hidden" }
}

impl<T: Tagged> Serialize for Tag<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.tag())
    }
}

impl<'de, T: Tagged> Deserialize<'de> for Tag<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word<T>(PhantomData<T>);
        impl<T: Tagged> Visitor<'_> for Word<T> {
            type Value = T;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a word for the {}", T::WHAT)
            }
            fn visit_str<E: Error>(self, tag: &str) -> Result<T, E> {
                T::from_tag(tag).ok_or_else(|| E::custom(format_args!("unknown {} '{tag}'", T::WHAT)))
            }
        }
        deserializer.deserialize_str(Word(PhantomData)).map(Tag)
    }
}

/// Text that is borrowed when writing and, unless it contains escapes, when reading.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a Name> for Text<'a> {
    fn from(name: &'a Name) -> Self {
        Text(Cow::Borrowed(name))
    }
}

impl<'a> From<&'a SharedName> for Text<'a> {
    fn from(name: &'a SharedName) -> Self {
        Text(Cow::Borrowed(name))
    }
}

impl<'a> From<&'a String> for Text<'a> {
    fn from(text: &'a String) -> Self {
        Text(Cow::Borrowed(text))
    }
}

impl Text<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Text<'_> {
    fn default() -> Self {
        Text(Cow::Borrowed(""))
    }
}

/// A GUID in its usual form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuidText(pub Guid);

impl Serialize for GuidText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for GuidText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        parse_guid(&text.0).map(GuidText).ok_or_else(|| D::Error::custom(format_args!("'{}' is not a GUID", text.0)))
    }
}

/// A duration in whole milliseconds, the resolution of all times.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Millis(u64);

impl From<Duration> for Millis {
    fn from(span: Duration) -> Self {
        Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Millis> for Duration {
    fn from(span: Millis) -> Self {
        Duration::from_millis(span.0)
    }
}
