//! The document of `/metadata/attested/document`: proof of who a machine is, to be signed. Its keys are in alphabetical order,
//! as in Azure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::document::format_rfc1123;
use crate::guid;
use crate::version::InstanceVersion;

/// The version that introduced the path.
pub const FIRST_VERSION: &str = "2018-10-01";

/// How long a document is valid: as long as Azure's.
pub const VALID_SECS: i64 = 6 * 3600;

/// The longest nonce, as in Azure's specification.
pub const NONCE_CHARS_MAX: usize = 32;

#[derive(Debug, Clone, Copy)]
pub struct AttestedView<'a> {
    /// The nonce of the request; None: the current time.
    pub nonce: Option<&'a str>,
    pub vm_id: u128,
    pub subscription_id: &'a str,
    pub sku: &'a str,
    pub license_type: &'a str,
    pub now_unix_secs: i64,
}

/// Whether a nonce has an acceptable form: up to 32 letters and digits, or hyphens as in the default.
pub fn is_nonce(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_plain && (1..=NONCE_CHARS_MAX).contains(&text.len())
}

/// The content to sign.
pub fn content(version: InstanceVersion, view: &AttestedView<'_>) -> Vec<u8> {
    let (created, expires) = (Civil::at(view.now_unix_secs), Civil::at(view.now_unix_secs + VALID_SECS));
    let nonce = view.nonce.map_or_else(|| created.as_nonce(), str::to_owned);
    let members = [
        ("2020-09-01", "licenseType", Value::from(view.license_type)),
        (FIRST_VERSION, "nonce", Value::from(nonce)),
        (FIRST_VERSION, "plan", json!({"name": "", "product": "", "publisher": ""})),
        ("2019-11-01", "sku", Value::from(view.sku)),
        ("2019-04-30", "subscriptionId", Value::from(view.subscription_id)),
        (FIRST_VERSION, "timeStamp", json!({"createdOn": created.as_stamp(), "expiresOn": expires.as_stamp()})),
        (FIRST_VERSION, "vmId", Value::from(guid::Lower(view.vm_id).to_string())),
    ];
    let present = members.into_iter().filter(|(since, _, _)| version.as_str() >= since);
    let members: Map<String, Value> = present.map(|(_, key, value)| (key.to_owned(), value)).collect();
    Value::Object(members).to_string().into_bytes()
}

/// The body of the response. `signed`: the signed content, PKCS#7 in DER.
pub fn body(signed: &[u8]) -> Vec<u8> {
    json!({"encoding": "pkcs7", "signature": STANDARD.encode(signed)}).to_string().into_bytes()
}

/// A time in UTC, split into its fields.
struct Civil {
    year: String,
    month: String,
    day: String,
    time: String,
}

impl Civil {
    fn at(unix_secs: i64) -> Civil {
        const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
        // `Mon, 19 Sep 2016 18:29:47 GMT`: every field has its place.
        let text = format_rfc1123(unix_secs);
        let month = MONTHS.find(&text[8..11]).map_or(0, |at| at / 3 + 1);
        Civil {
            year: text[12..16].to_owned(),
            month: format!("{month:02}"),
            day: text[5..7].to_owned(),
            time: text[17..25].to_owned(),
        }
    }

    /// `11/30/20 21:19:19 -0000`
    fn as_stamp(&self) -> String {
        format!("{}/{}/{} {} -0000", self.month, self.day, &self.year[2..], self.time)
    }

    /// `20201130-211919`
    fn as_nonce(&self) -> String {
        format!("{}{}{}-{}", self.year, self.month, self.day, self.time.replace(':', ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(version: &str, nonce: Option<&str>) -> String {
        let version = InstanceVersion::parse(Some(version)).unwrap();
        let view = AttestedView {
            nonce,
            vm_id: 0x02aab8a4_74ef_476e_8182_f6d2ba4166a6,
            subscription_id: "sub",
            sku: "12-gen2",
            license_type: "",
            now_unix_secs: 1_606_771_159,
        };
        String::from_utf8(content(version, &view)).unwrap()
    }

    #[test]
    fn the_document_has_the_keys_of_its_version_in_order() {
        assert_eq!(
            render("2025-04-07", Some("1234576")),
            "{\"licenseType\":\"\",\"nonce\":\"1234576\",\"plan\":{\"name\":\"\",\"product\":\"\",\"publisher\":\"\"},\
             \"sku\":\"12-gen2\",\"subscriptionId\":\"sub\",\"timeStamp\":{\"createdOn\":\"11/30/20 21:19:19 -0000\",\
             \"expiresOn\":\"12/01/20 03:19:19 -0000\"},\"vmId\":\"02aab8a4-74ef-476e-8182-f6d2ba4166a6\"}"
        );
        assert_eq!(
            render("2018-10-01", None),
            "{\"nonce\":\"20201130-211919\",\"plan\":{\"name\":\"\",\"product\":\"\",\"publisher\":\"\"},\
             \"timeStamp\":{\"createdOn\":\"11/30/20 21:19:19 -0000\",\"expiresOn\":\"12/01/20 03:19:19 -0000\"},\
             \"vmId\":\"02aab8a4-74ef-476e-8182-f6d2ba4166a6\"}"
        );
    }

    #[test]
    fn a_nonce_is_short_and_plain() {
        for good in ["1", "1234567890", "20201130-211919", "abcdefghijklmnopqrstuvwxyz012345"] {
            assert!(is_nonce(good), "{good}");
        }
        for bad in ["", "a b", "\"", "é", "abcdefghijklmnopqrstuvwxyz0123456"] {
            assert!(!is_nonce(bad), "{bad}");
        }
    }
}
