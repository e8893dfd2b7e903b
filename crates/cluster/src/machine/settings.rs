//! Times and limits of the state machine.

use std::time::Duration;

/// All of these have a default that fits servers in one site.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The interval of the leader's heartbeats: three fit into `silence_min`.
    pub heartbeat_every: Duration,
    /// How long a follower waits for news in one request: six requests fit into `silence_min`.
    pub follow_wait: Duration,
    /// The pause after a request that failed.
    pub retry_after: Duration,
    /// The silence of a leader after which another server takes over.
    pub silence_min: Duration,
    /// The required silence doubles up to this while leaders are deposed that are alive, so that an overloaded site
    /// settles down.
    pub silence_max: Duration,
    /// Reads that must show the same silence. While the log does not answer, the leader cannot send heartbeats either.
    pub silence_reads: u32,
    /// Time without a takeover after which the required silence is the minimum again.
    pub quiet_after: Duration,
    /// How long a leader tries to find out whether a commit has happened.
    pub settle_max: Duration,
    /// How long a leader stays that cannot write.
    pub failing_max: Duration,
    /// The age of the leader's own last heartbeat up to which it may act on machines. Less than `silence_min`, so that a leader
    /// has stopped acting before another one starts.
    pub act_max: Duration,
    /// How long a leader stays without contact to most servers.
    pub contact_max: Duration,
    /// How long a server that resigned does not take over again.
    pub pause: Duration,
    /// The interval at which a server reports its progress while it makes progress.
    pub report_every: Duration,
    /// The same while it makes none.
    pub report_idle_every: Duration,
    /// The interval at which the leader looks for records to delete.
    pub truncate_every: Duration,
    /// Fewer records are not worth a deletion.
    pub truncate_records_min: u64,
    /// The longest interval of truncations. Each lets the service behind the log forget overwritten values, which etcd otherwise
    /// keeps forever: heartbeats alone overwrite 216,000 a day.
    pub compact_every: Duration,
    /// Above this size of the log, records are deleted that a majority has applied. etcd is limited to 2 GB by default and
    /// becomes slow long before.
    pub log_bytes_max: u64,
    /// Entries that a copy applies in one transaction. Most of them change the same pages, so a follower that was away catches up
    /// several times faster than with one transaction each.
    pub apply_entries_max: usize,
    /// The bytes of their payloads, unless one entry has more: a new leader that catches up sends no heartbeats meanwhile.
    pub apply_bytes_max: usize,
    /// Reads that must show a log behind this server before it believes that the log was replaced by an older one.
    pub behind_reads: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            heartbeat_every: Duration::from_millis(400),
            follow_wait: Duration::from_millis(200),
            retry_after: Duration::from_millis(100),
            silence_min: Duration::from_millis(1200),
            silence_max: Duration::from_secs(10),
            silence_reads: 5,
            quiet_after: Duration::from_secs(60),
            settle_max: Duration::from_secs(2),
            failing_max: Duration::from_secs(2),
            act_max: Duration::from_secs(1),
            contact_max: Duration::from_secs(5),
            pause: Duration::from_secs(30),
            report_every: Duration::from_secs(1),
            report_idle_every: Duration::from_secs(10),
            truncate_every: Duration::from_secs(30),
            truncate_records_min: 1000,
            compact_every: Duration::from_secs(600),
            log_bytes_max: 400 << 20,
            apply_entries_max: 256,
            apply_bytes_max: 4 << 20,
            behind_reads: 5,
        }
    }
}
