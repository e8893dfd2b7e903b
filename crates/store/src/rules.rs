//! The settings of the rules as an attachment of the region. Servers of a cluster store them, so that all of them decide alike,
//! whatever their own configuration says. A single server uses its configuration.

use std::time::Duration;

use forewarn_core::Settings;
use forewarn_core::settings::Pool;
use serde_json::{Value, json};

use crate::attachment::{Attachment, Owner};
use crate::contract::Reader;
use crate::error::StoreError;

const NAME: &str = "rules";

/// Stores the settings.
pub fn put_rules(settings: &Settings) -> Attachment {
    let rules = named_values(settings).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Attachment::put(Owner::Region, NAME.to_owned(), Value::Object(rules).to_string())
}

/// The stored settings; None if there are none. Settings that the stored text does not have are those of `otherwise`.
pub fn read_rules(reader: &dyn Reader, otherwise: &Settings) -> Result<Option<Settings>, StoreError> {
    reader.attachment(Owner::Region, NAME)?.map(|text| parse(&text, otherwise)).transpose()
}

/// The settings that this attachment stores, if it does.
pub fn rules_of(attachment: &Attachment, otherwise: &Settings) -> Result<Option<Settings>, StoreError> {
    let text = attachment.value.as_ref().filter(|_| attachment.owner == Owner::Region && attachment.name == NAME);
    text.map(|text| parse(text, otherwise)).transpose()
}

/// The settings in which a server's configuration differs from those of the region.
pub fn compare_rules(region: &Settings, configured: &Settings) -> Vec<String> {
    let pairs = named_values(region).into_iter().zip(named_values(configured));
    let different = pairs.filter(|((_, region), (_, own))| region != own);
    different
        .map(|((name, region), (_, own))| format!("{name} is {region} in the region and {own} in the configuration"))
        .collect()
}

/// Durations are in milliseconds.
fn named_values(settings: &Settings) -> [(&'static str, Value); 9] {
    let Settings {
        notice_scale,
        idle_disable,
        user_operations_max,
        update_domain_pause,
        driver_timeout,
        machine_orders,
        pool,
    } = settings;
    let span = |span: &Duration| json!(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    [
        ("notice_scale", json!(notice_scale)),
        ("idle_disable_ms", span(idle_disable)),
        ("user_operations_max", json!(user_operations_max)),
        ("update_domain_pause_ms", span(update_domain_pause)),
        ("driver_timeout_ms", span(driver_timeout)),
        ("machine_orders", json!(machine_orders)),
        ("pool_network", json!(pool.network.to_string())),
        ("pool_first", json!(pool.first.to_string())),
        ("pool_count", json!(pool.count)),
    ]
}

fn parse(text: &str, otherwise: &Settings) -> Result<Settings, StoreError> {
    let invalid = || StoreError::Message(format!("the rules of the region are not readable: {text}"));
    let stored: Value = serde_json::from_str(text).map_err(|_| invalid())?;
    let number = |name: &str, default: u32| match stored.get(name) {
        Some(value) => value.as_u64().and_then(|number| u32::try_from(number).ok()).ok_or_else(invalid),
        None => Ok(default),
    };
    let span = |name: &str, default: Duration| match stored.get(name) {
        Some(value) => value.as_u64().map(Duration::from_millis).ok_or_else(invalid),
        None => Ok(default),
    };
    let word = |name: &str| stored.get(name).and_then(Value::as_str);
    let pool = Pool {
        network: word("pool_network").map_or_else(|| otherwise.pool.network.clone(), Into::into),
        first: word("pool_first").map_or(Ok(otherwise.pool.first), |text| text.parse().map_err(|_| invalid()))?,
        count: number("pool_count", otherwise.pool.count)?,
    };
    Ok(Settings {
        notice_scale: number("notice_scale", otherwise.notice_scale)?,
        idle_disable: span("idle_disable_ms", otherwise.idle_disable)?,
        user_operations_max: number("user_operations_max", otherwise.user_operations_max)?,
        update_domain_pause: span("update_domain_pause_ms", otherwise.update_domain_pause)?,
        driver_timeout: span("driver_timeout_ms", otherwise.driver_timeout)?,
        machine_orders: stored.get("machine_orders").map_or(otherwise.machine_orders, |value| value == true),
        pool,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unusual() -> Settings {
        Settings {
            notice_scale: 60,
            idle_disable: Duration::from_millis(1500),
            user_operations_max: 0,
            update_domain_pause: Duration::from_secs(7),
            driver_timeout: Duration::from_secs(11),
            machine_orders: true,
            pool: Pool { network: "lab".into(), first: [10, 0, 0, 9].into(), count: 3 },
        }
    }

    #[test]
    fn rules_survive_being_stored() {
        let other = Settings::default();
        assert_eq!(rules_of(&put_rules(&unusual()), &other).unwrap(), Some(unusual()));
        let another = Attachment::put(Owner::Region, "webhook/a".to_owned(), "{}".to_owned());
        assert_eq!(rules_of(&another, &other).unwrap(), None);
        let older = Attachment::put(Owner::Region, NAME.to_owned(), r#"{"notice_scale":60}"#.to_owned());
        assert_eq!(rules_of(&older, &other).unwrap(), Some(Settings { notice_scale: 60, ..Settings::default() }));
        let damaged = Attachment::put(Owner::Region, NAME.to_owned(), r#"{"notice_scale":"x"}"#.to_owned());
        assert!(rules_of(&damaged, &other).is_err());
    }

    #[test]
    fn differences_name_the_setting_and_both_values() {
        assert_eq!(compare_rules(&unusual(), &unusual()), Vec::<String>::new());
        let own = Settings { notice_scale: 1, ..unusual() };
        assert_eq!(compare_rules(&unusual(), &own), ["notice_scale is 60 in the region and 1 in the configuration"]);
        assert_eq!(compare_rules(&unusual(), &Settings::default()).len(), 9);
    }
}
