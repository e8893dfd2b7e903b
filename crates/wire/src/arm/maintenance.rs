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
    let (date, start) = start(required("startDateTime")?)?;
    let duration = clock(text("duration").unwrap_or(DURATION_DEFAULT))
        .filter(|minutes| *minutes > 0)
        .ok_or_else(|| error("duration", "must be from 00:01 to 23:59, such as 05:00"))?;
    let end = (start + duration) % MINUTES_PER_DAY;
    Ok(Window {
        days: days(required("recurEvery")?, date)?,
        start: show(start),
        end: show(end),
        time_zone: zone(required("timeZone")?),
    })
}

fn error(member: &'static str, problem: impl Into<String>) -> WindowError {
    WindowError { member, problem: problem.into() }
}

const MINUTES_PER_DAY: u32 = 24 * 60;

type Date = [u32; 3];

/// `2026-05-02 22:00` as a date and the minutes of the day.
fn start(text: &str) -> Result<(Date, u32), WindowError> {
    let wrong = || error("startDateTime", format!("is '{text}', but must have the form 2026-05-02 22:00"));
    let (date, time) = text.split_once([' ', 'T']).ok_or_else(wrong)?;
    let numbers: Option<Vec<u32>> = date.split('-').map(|part| part.parse().ok()).collect();
    let date: Date = numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(wrong)?;
    let [_, month, day] = date;
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let minutes = clock(time.get(..5).unwrap_or(time)).filter(|_| is_date).ok_or_else(wrong)?;
    Ok((date, minutes))
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
fn days(recurrence: &str, date: Date) -> Result<Vec<&'static str>, WindowError> {
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
fn weekday([year, month, day]: Date) -> usize {
    const OFFSETS: [u32; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
    let year = if month < 3 { year.saturating_sub(1) } else { year };
    let index = month.clamp(1, 12) as usize - 1;
    ((year + year / 4 - year / 100 + year / 400 + OFFSETS[index] + day) % 7) as usize
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
        assert_eq!(member(window(&json!({ "startDateTime": "soon", "recurEvery": "Day" }))), "startDateTime");
    }

    #[test]
    fn weekdays_are_those_of_the_calendar() {
        for (date, day) in [([2026, 5, 2], 6), ([2026, 1, 1], 4), ([2024, 2, 29], 4), ([2000, 3, 1], 3)] {
            assert_eq!(weekday(date), day, "{date:?}");
        }
    }
}
