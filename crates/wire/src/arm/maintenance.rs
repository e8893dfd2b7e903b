//! The window of a maintenance configuration (`Microsoft.Maintenance/maintenanceConfigurations`) in Azure's notation:
//!
//! ```text
//!  {"startDateTime":"2026-05-02 22:00","duration":"05:00","timeZone":"Pacific Standard Time","recurEvery":"Week Saturday,Sunday"}
//! ```
//!
//! Azure names time zones as Windows does; IANA names are accepted too.

use serde_json::Value;

/// A window that recurs daily, or weekly on certain days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// `Mon` to `Sun`; empty for every day.
    pub days: Vec<&'static str>,
    /// `22:00`, local time.
    pub start: String,
    /// `03:00`, local time, on the next day if not after the start.
    pub end: String,
    /// IANA name.
    pub time_zone: String,
    /// The window does not open earlier.
    pub begins: LocalTime,
    /// The window does not open later.
    pub expires: Option<LocalTime>,
}

/// A time in the time zone of its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime {
    /// From 1 to 9999.
    pub year: u16,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
}

/// A member of the window that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowError {
    pub member: &'static str,
    pub problem: String,
}

/// Azure's default for hosts.
const DURATION_DEFAULT: &str = "05:00";

const DAYS: [(&str, &str); 7] = [
    ("Sunday", "Sun"),
    ("Monday", "Mon"),
    ("Tuesday", "Tue"),
    ("Wednesday", "Wed"),
    ("Thursday", "Thu"),
    ("Friday", "Fri"),
    ("Saturday", "Sat"),
];

/// Windows names of common zones.
const ZONES: &[(&str, &str)] = &[
    ("UTC", "UTC"),
    ("GMT Standard Time", "Europe/London"),
    ("Greenwich Standard Time", "Atlantic/Reykjavik"),
    ("W. Europe Standard Time", "Europe/Berlin"),
    ("Romance Standard Time", "Europe/Paris"),
    ("Central Europe Standard Time", "Europe/Budapest"),
    ("Central European Standard Time", "Europe/Warsaw"),
    ("E. Europe Standard Time", "Europe/Chisinau"),
    ("FLE Standard Time", "Europe/Kiev"),
    ("GTB Standard Time", "Europe/Bucharest"),
    ("Turkey Standard Time", "Europe/Istanbul"),
    ("Israel Standard Time", "Asia/Jerusalem"),
    ("Arabian Standard Time", "Asia/Dubai"),
    ("India Standard Time", "Asia/Kolkata"),
    ("SE Asia Standard Time", "Asia/Bangkok"),
    ("Singapore Standard Time", "Asia/Singapore"),
    ("China Standard Time", "Asia/Shanghai"),
    ("Tokyo Standard Time", "Asia/Tokyo"),
    ("Korea Standard Time", "Asia/Seoul"),
    ("AUS Eastern Standard Time", "Australia/Sydney"),
    ("New Zealand Standard Time", "Pacific/Auckland"),
    ("South Africa Standard Time", "Africa/Johannesburg"),
    ("E. South America Standard Time", "America/Sao_Paulo"),
    ("Argentina Standard Time", "America/Buenos_Aires"),
    ("Atlantic Standard Time", "America/Halifax"),
    ("Eastern Standard Time", "America/New_York"),
    ("Central Standard Time", "America/Chicago"),
    ("Mountain Standard Time", "America/Denver"),
    ("US Mountain Standard Time", "America/Phoenix"),
    ("Pacific Standard Time", "America/Los_Angeles"),
    ("Alaskan Standard Time", "America/Anchorage"),
    ("Hawaiian Standard Time", "Pacific/Honolulu"),
];

/// Reads the member `maintenanceWindow`.
pub fn window(given: &Value) -> Result<Window, WindowError> {
    let text = |member: &'static str| given.get(member).and_then(Value::as_str).map(str::trim);
    let required = |member| text(member).ok_or_else(|| error(member, "is required"));
    let begins = local_time("startDateTime", required("startDateTime")?)?;
    let expires = text("expirationDateTime").filter(|text| !text.is_empty());
    let expires = expires.map(|text| local_time("expirationDateTime", text)).transpose()?;
    if expires.is_some_and(|expires| expires <= begins) {
        return Err(error("expirationDateTime", "is not after startDateTime"));
    }
    let duration = clock(text("duration").unwrap_or(DURATION_DEFAULT))
        .filter(|minutes| *minutes > 0)
        .ok_or_else(|| error("duration", "must be from 00:01 to 23:59, such as 05:00"))?;
    let start = u32::from(begins.hour) * 60 + u32::from(begins.minute);
    let end = (start + duration) % MINUTES_PER_DAY;
    Ok(Window {
        days: days(required("recurEvery")?, begins)?,
        start: show(start),
        end: show(end),
        time_zone: zone(required("timeZone")?),
        begins,
        expires,
    })
}

fn error(member: &'static str, problem: impl Into<String>) -> WindowError {
    WindowError { member, problem: problem.into() }
}

const MINUTES_PER_DAY: u32 = 24 * 60;

/// The last year of dates with four digits.
const YEAR_MAX: u16 = 9999;

/// `2026-05-02 22:00`.
fn local_time(member: &'static str, text: &str) -> Result<LocalTime, WindowError> {
    let wrong = || error(member, format!("is '{text}', but must have the form 2026-05-02 22:00"));
    let (date, time) = text.split_once([' ', 'T']).ok_or_else(wrong)?;
    let mut numbers = date.split('-').map(|part| part.parse::<u16>().ok());
    let (Some(Some(year)), Some(Some(month)), Some(Some(day)), None) =
        (numbers.next(), numbers.next(), numbers.next(), numbers.next())
    else {
        return Err(wrong());
    };
    let minutes = clock(time.get(..5).unwrap_or(time)).ok_or_else(wrong)?;
    let part = |number: u16| u8::try_from(number).map_err(|_| wrong());
    let found = LocalTime {
        year,
        month: part(month)?,
        day: part(day)?,
        hour: (minutes / 60) as u8,
        minute: (minutes % 60) as u8,
    };
    let is_date = (1..=YEAR_MAX).contains(&year) && (1..=days_in(&found)).contains(&found.day);
    is_date.then_some(found).ok_or_else(wrong)
}

/// The number of days of a month in the Gregorian calendar; 0 if there is no such month.
fn days_in(date: &LocalTime) -> u8 {
    let is_leap = date.year.is_multiple_of(4) && (!date.year.is_multiple_of(100) || date.year.is_multiple_of(400));
    match date.month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    }
}

/// `22:00` as minutes.
fn clock(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

fn show(minutes: u32) -> String {
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// `Day`, `Week`, or `Week Saturday,Sunday`, each also with a 1 in front.
fn days(recurrence: &str, date: LocalTime) -> Result<Vec<&'static str>, WindowError> {
    let (unit, list) = recurrence.split_once(' ').unwrap_or((recurrence, ""));
    let unit = unit.trim_start_matches('1').trim_end_matches('s');
    let find = |name: &str| {
        let found = DAYS
            .iter()
            .find(|(long, short)| long.eq_ignore_ascii_case(name.trim()) || short.eq_ignore_ascii_case(name.trim()));
        found.map(|(_, short)| *short).ok_or_else(|| error("recurEvery", format!("has the unknown day '{name}'")))
    };
    match (unit.to_ascii_lowercase().as_str(), list.trim()) {
        ("day", "") => Ok(Vec::new()),
        ("week", "") => Ok(vec![DAYS[weekday(date)].1]),
        ("week", list) => list.split(',').map(find).collect(),
        _ => Err(error(
            "recurEvery",
            format!("is '{recurrence}', but must be Day, Week, or Week with days such as Week Saturday,Sunday"),
        )),
    }
}

/// The weekday of a date in the Gregorian calendar; 0 is Sunday (Sakamoto's method).
fn weekday(date: LocalTime) -> usize {
    const OFFSETS: [u16; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
    let year = if date.month < 3 { date.year.saturating_sub(1) } else { date.year };
    let index = usize::from(date.month.clamp(1, 12)) - 1;
    usize::from((year + year / 4 - year / 100 + year / 400 + OFFSETS[index] + u16::from(date.day)) % 7)
}

/// The IANA name of a zone; unknown names are kept, and refused where zones are known.
fn zone(name: &str) -> String {
    let known = ZONES.iter().find(|(windows, _)| windows.eq_ignore_ascii_case(name));
    known.map_or(name, |(_, iana)| iana).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(recurrence: &str, duration: &str) -> Result<Window, WindowError> {
        window(&json!({
            "startDateTime": "2026-05-02 22:00", "duration": duration, "timeZone": "Pacific Standard Time",
            "expirationDateTime": "9999-12-31 00:00", "recurEvery": recurrence,
        }))
    }

    #[test]
    fn windows_recur_daily_or_on_weekdays() {
        let daily = read("Day", "05:00").unwrap();
        assert_eq!((daily.start.as_str(), daily.end.as_str()), ("22:00", "03:00"));
        assert_eq!((daily.days.len(), daily.time_zone.as_str()), (0, "America/Los_Angeles"));
        assert_eq!(read("1Day", "02:00").unwrap().end, "00:00");
        assert_eq!(read("Week", "02:00").unwrap().days, ["Sat"], "2026-05-02 is a Saturday");
        assert_eq!(read("1Week Saturday,Sunday", "02:00").unwrap().days, ["Sat", "Sun"]);
    }

    #[test]
    fn errors_name_the_member() {
        let member = |result: Result<Window, WindowError>| result.unwrap_err().member;
        assert_eq!(member(read("Month Third Sunday", "02:00")), "recurEvery");
        assert_eq!(member(read("Week Someday", "02:00")), "recurEvery");
        assert_eq!(member(read("Day", "24:00")), "duration");
        assert_eq!(member(window(&json!({ "recurEvery": "Day" }))), "startDateTime");
        for start in ["soon", "0000-05-02 22:00", "10000-05-02 22:00", "4294967295-01-01 22:00", "2026-02-29 22:00"] {
            let given = json!({ "startDateTime": start, "timeZone": "UTC", "recurEvery": "Week" });
            assert_eq!(member(window(&given)), "startDateTime", "{start}");
        }
    }

    #[test]
    fn a_window_has_a_first_and_a_last_day() {
        let daily = read("Day", "05:00").unwrap();
        let at = |year, month, day, hour| LocalTime { year, month, day, hour, minute: 0 };
        assert_eq!((daily.begins, daily.expires), (at(2026, 5, 2, 22), Some(at(9999, 12, 31, 0))));
        let expiring = |text: &str| {
            window(&json!({ "startDateTime": "2026-05-02 22:00", "timeZone": "UTC", "recurEvery": "Day",
                "expirationDateTime": text }))
        };
        assert_eq!(expiring("").unwrap().expires, None);
        for text in ["2026-05-02 22:00", "2026-05-01 22:00", "never"] {
            assert_eq!(expiring(text).unwrap_err().member, "expirationDateTime", "{text}");
        }
    }

    #[test]
    fn weekdays_are_those_of_the_calendar() {
        for (date, day) in
            [("2026-05-02", 6), ("2026-01-01", 4), ("2024-02-29", 4), ("2000-03-01", 3), ("9999-12-31", 5)]
        {
            let at = local_time("startDateTime", &format!("{date} 22:00")).unwrap();
            assert_eq!(weekday(at), day, "{date}");
        }
    }
}
