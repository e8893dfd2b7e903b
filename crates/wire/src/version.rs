//! The api-versions of each path, and errors for others.
//!
//! Scheduled Events and instance metadata have separate lists that share only a few dates. Both types are
//! ordered by age, so "since" is a comparison.

use std::fmt;

/// A version of `/metadata/scheduledevents`. Ordered from oldest to newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    V2017_03_01,
    V2017_08_01,
    V2017_11_01,
    V2019_01_01,
    V2019_04_01,
    V2019_08_01,
    V2020_07_01,
    /// Not released in Azure. Handlers probe for it and fall back on 404.
    V2024_07_09,
}

impl Version {
    /// The versions that Azure has released.
    pub const ALL: [Version; 7] = [
        Version::V2017_03_01,
        Version::V2017_08_01,
        Version::V2017_11_01,
        Version::V2019_01_01,
        Version::V2019_04_01,
        Version::V2019_08_01,
        Version::V2020_07_01,
    ];

    /// The version that Azure has not released.
    pub const PREVIEW: Version = Version::V2024_07_09;

    /// The number of versions, including the preview.
    pub const COUNT: usize = Self::ALL.len() + 1;

    /// Parses the value of the `api-version` parameter; `None` if it is missing.
    pub fn parse(given: Option<&str>) -> Result<Version, VersionError> {
        let text = given.unwrap_or_default();
        // Current clients request the newest version, so it is compared first.
        let found = Self::ALL.iter().rev().find(|version| version.as_str() == text);
        found.copied().ok_or_else(|| VersionError::classify(text))
    }

    /// Like [`Version::parse`], but knows the preview too.
    pub fn parse_with_preview(given: Option<&str>) -> Result<Version, VersionError> {
        if given == Some(Self::PREVIEW.as_str()) { Ok(Self::PREVIEW) } else { Self::parse(given) }
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
            Version::V2024_07_09 => "2024-07-09",
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
    /// All versions, oldest first, as listed by `/metadata/versions`.
    pub const ALL: [InstanceVersion; INSTANCE_VERSIONS.len()] = {
        let mut all = [InstanceVersion(""); INSTANCE_VERSIONS.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = InstanceVersion(INSTANCE_VERSIONS[index]);
            index += 1;
        }
        all
    };

    /// Parses the value of the `api-version` parameter; `None` if it is missing.
    pub fn parse(given: Option<&str>) -> Result<InstanceVersion, VersionError> {
        let text = given.unwrap_or_default();
        match INSTANCE_VERSIONS.binary_search(&text) {
            Ok(index) => Ok(InstanceVersion(INSTANCE_VERSIONS[index])),
            Err(_) => Err(VersionError::classify(text)),
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

/// A reason to reject an `api-version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionError {
    /// The parameter is missing or empty.
    Missing,
    /// The value is not a calendar date in the form `YYYY-MM-DD`.
    NotADate,
    /// The value is a date, but not a version of this path.
    NotServed,
}

impl VersionError {
    fn classify(text: &str) -> VersionError {
        match text {
            "" => VersionError::Missing,
            _ if is_date(text) => VersionError::NotServed,
            _ => VersionError::NotADate,
        }
    }
}

/// The versioned paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    ScheduledEvents,
    /// `/metadata/instance`, and `/metadata` itself.
    Instance,
}

impl Endpoint {
    /// The three newest versions of the path, newest first. Azure suggests them if a request has no valid
    /// version.
    pub fn newest_versions(self) -> [&'static str; 3] {
        match self {
            Endpoint::ScheduledEvents => take_newest(&Version::ALL.map(Version::as_str)),
            Endpoint::Instance => take_newest(&INSTANCE_VERSIONS),
        }
    }
}

/// In ascending order, as required by the binary search.
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

fn take_newest(ascending: &[&'static str]) -> [&'static str; 3] {
    let last = ascending.len() - 1;
    [ascending[last], ascending[last - 1], ascending[last - 2]]
}

fn is_date(text: &str) -> bool {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text.as_bytes() else {
        return false;
    };
    match (parse_number(&[y1, y2, y3, y4]), parse_number(&[m1, m2]), parse_number(&[d1, d2])) {
        (Some(year), Some(month), Some(day)) => (1..=days_in_month(year, month)).contains(&day),
        _ => false,
    }
}

fn parse_number(digits: &[u8]) -> Option<u32> {
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
    fn every_version_is_parsed_back_and_versions_are_sorted() {
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
    fn invalid_versions_have_different_errors() {
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
    fn only_the_preview_parser_knows_the_preview() {
        assert_eq!(Version::parse(Some("2024-07-09")), Err(VersionError::NotServed));
        assert_eq!(Version::parse_with_preview(Some("2024-07-09")), Ok(Version::PREVIEW));
        assert_eq!(Version::parse_with_preview(Some("2020-07-01")), Ok(Version::V2020_07_01));
        assert_eq!(Version::parse_with_preview(Some("2024-07-08")), Err(VersionError::NotServed));
        assert!(Version::ALL.iter().all(|version| *version < Version::PREVIEW));
    }

    #[test]
    fn the_two_paths_have_different_versions() {
        assert_eq!(InstanceVersion::parse(Some("2020-07-01")), Err(VersionError::NotServed));
        assert_eq!(Version::parse(Some("2021-02-01")), Err(VersionError::NotServed));
    }

    #[test]
    fn newest_versions_belong_to_the_path_and_come_newest_first() {
        let events = Endpoint::ScheduledEvents.newest_versions();
        assert_eq!(events, ["2020-07-01", "2019-08-01", "2019-04-01"]);
        let instance = Endpoint::Instance.newest_versions();
        assert_eq!(instance, ["2025-04-07", "2024-07-17", "2024-03-15"]);
    }
}
