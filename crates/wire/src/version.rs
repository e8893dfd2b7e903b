//! The api-versions: which there are, and what is wrong with one that is not among them.
//!
//! Scheduled Events and instance metadata have lists of their own, which share only a few dates.
//! Both types are ordered by age, so "since" is a comparison.

use std::fmt;

/// A version of `/metadata/scheduledevents`, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    V2017_03_01,
    V2017_08_01,
    V2017_11_01,
    V2019_01_01,
    V2019_04_01,
    V2019_08_01,
    V2020_07_01,
}

impl Version {
    pub const ALL: [Version; 7] = [
        Version::V2017_03_01,
        Version::V2017_08_01,
        Version::V2017_11_01,
        Version::V2019_01_01,
        Version::V2019_04_01,
        Version::V2019_08_01,
        Version::V2020_07_01,
    ];

    /// Reads the value of the `api-version` parameter, `None` when there is no such parameter.
    pub fn parse(given: Option<&str>) -> Result<Version, VersionError> {
        let text = given.unwrap_or_default();
        // Clients that keep up with the service ask for the newest: look there first.
        let found = Self::ALL.iter().rev().find(|version| version.as_str() == text);
        found.copied().ok_or_else(|| VersionError::of(text))
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Version::V2017_03_01 => "2017-03-01",
            Version::V2017_08_01 => "2017-08-01",
            Version::V2017_11_01 => "2017-11-01",
            Version::V2019_01_01 => "2019-01-01",
            Version::V2019_04_01 => "2019-04-01",
            Version::V2019_08_01 => "2019-08-01",
            Version::V2020_07_01 => "2020-07-01",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A version of `/metadata/instance`. Always one of [`InstanceVersion::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceVersion(&'static str);

impl InstanceVersion {
    /// Oldest first, as `/metadata/versions` lists them.
    pub const ALL: [InstanceVersion; INSTANCE_VERSIONS.len()] = {
        let mut all = [InstanceVersion(""); INSTANCE_VERSIONS.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = InstanceVersion(INSTANCE_VERSIONS[index]);
            index += 1;
        }
        all
    };

    /// Reads the value of the `api-version` parameter, `None` when there is no such parameter.
    pub fn parse(given: Option<&str>) -> Result<InstanceVersion, VersionError> {
        let text = given.unwrap_or_default();
        match INSTANCE_VERSIONS.binary_search(&text) {
            Ok(index) => Ok(InstanceVersion(INSTANCE_VERSIONS[index])),
            Err(_) => Err(VersionError::of(text)),
        }
    }

    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for InstanceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a value of `api-version` names no version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionError {
    /// There is no `api-version`, or it is empty.
    Missing,
    /// It is not a date of the calendar written `YYYY-MM-DD`.
    NotADate,
    /// It is a date, but of no version of this path.
    NotServed,
}

impl VersionError {
    fn of(text: &str) -> VersionError {
        match text {
            "" => VersionError::Missing,
            _ if is_date(text) => VersionError::NotServed,
            _ => VersionError::NotADate,
        }
    }
}

/// The paths that have versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    ScheduledEvents,
    /// `/metadata/instance`, and `/metadata` itself.
    Instance,
}

impl Endpoint {
    /// The three newest versions of the path, newest first: what the service advises a caller who
    /// named none.
    pub fn newest_versions(self) -> [&'static str; 3] {
        match self {
            Endpoint::ScheduledEvents => newest(&Version::ALL.map(Version::as_str)),
            Endpoint::Instance => newest(&INSTANCE_VERSIONS),
        }
    }
}

/// Ascending, which the binary search relies on.
const INSTANCE_VERSIONS: [&str; 35] = [
    "2017-03-01",
    "2017-04-02",
    "2017-08-01",
    "2017-10-01",
    "2017-12-01",
    "2018-02-01",
    "2018-04-02",
    "2018-10-01",
    "2019-02-01",
    "2019-03-11",
    "2019-04-30",
    "2019-06-01",
    "2019-06-04",
    "2019-08-01",
    "2019-08-15",
    "2019-11-01",
    "2020-06-01",
    "2020-07-15",
    "2020-09-01",
    "2020-10-01",
    "2020-12-01",
    "2021-01-01",
    "2021-02-01",
    "2021-03-01",
    "2021-05-01",
    "2021-08-01",
    "2021-10-01",
    "2021-11-01",
    "2021-11-15",
    "2021-12-13",
    "2023-07-01",
    "2023-11-15",
    "2024-03-15",
    "2024-07-17",
    "2025-04-07",
];

fn newest(ascending: &[&'static str]) -> [&'static str; 3] {
    let last = ascending.len() - 1;
    [ascending[last], ascending[last - 1], ascending[last - 2]]
}

fn is_date(text: &str) -> bool {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text.as_bytes() else {
        return false;
    };
    match (number(&[y1, y2, y3, y4]), number(&[m1, m2]), number(&[d1, d2])) {
        (Some(year), Some(month), Some(day)) => (1..=days_in_month(year, month)).contains(&day),
        _ => false,
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u32::from(digit - b'0')))
}

fn days_in_month(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: Option<&str>, scheduled_events: Result<Version, VersionError>) {
        assert_eq!(Version::parse(given), scheduled_events, "{given:?}");
    }

    #[test]
    fn every_version_reads_back_and_they_are_in_order() {
        for version in Version::ALL {
            check(Some(version.as_str()), Ok(version));
        }
        for version in InstanceVersion::ALL {
            assert_eq!(InstanceVersion::parse(Some(version.as_str())), Ok(version));
        }
        assert!(Version::ALL.is_sorted());
        assert!(INSTANCE_VERSIONS.is_sorted());
    }

    #[test]
    fn what_is_wrong_with_a_version_is_told_apart() {
        use VersionError::*;
        check(None, Err(Missing));
        check(Some(""), Err(Missing));
        for not_a_date in [
            "latest",
            "{latest}",
            "2020",
            "2020-7-1",
            "2020-07-01 ",
            " 2020-07-01",
            "2020-07-01-preview",
            "2020/07/01",
            "2020-13-01",
            "2020-00-10",
            "2020-02-30",
            "2021-02-29",
            "1900-02-29",
            "2020-07-00",
            "2020-07-1x",
            "２020-07-01",
        ] {
            check(Some(not_a_date), Err(NotADate));
        }
        for not_served in ["2024-07-09", "2020-02-29", "2000-02-29", "2021-02-01", "0001-12-31"] {
            check(Some(not_served), Err(NotServed));
        }
    }

    #[test]
    fn the_two_lists_are_not_the_same() {
        assert_eq!(InstanceVersion::parse(Some("2020-07-01")), Err(VersionError::NotServed));
        assert_eq!(Version::parse(Some("2021-02-01")), Err(VersionError::NotServed));
    }

    #[test]
    fn the_newest_versions_are_the_paths_own_newest_first() {
        let events = Endpoint::ScheduledEvents.newest_versions();
        assert_eq!(events, ["2020-07-01", "2019-08-01", "2019-04-01"]);
        let instance = Endpoint::Instance.newest_versions();
        assert_eq!(instance, ["2025-04-07", "2024-07-17", "2024-03-15"]);
    }
}
