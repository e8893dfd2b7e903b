//! The `storageProfile` of a machine: the image, the operating system, and the disks that the ARM API was told about.
//! The other properties are present but empty, unless the ARM API fills them in.

use serde_json::Value;

use super::{Fields, InstanceView, object, properties, texts};
use crate::arm::disk::os_disk_defaults;
use crate::version::InstanceVersion;

pub(super) fn profile(version: InstanceVersion, view: &InstanceView<'_>) -> Value {
    let mut profile = Fields::new(version);
    profile.put("2019-06-01", "dataDisks", properties::list(view, "storageProfile.dataDisks").map(data_disk).collect());
    profile.put("2019-06-01", "imageReference", image_reference(version, view));
    profile.put("2019-06-01", "osDisk", os_disk(view));
    profile.put("2021-02-01", "resourceDisk", texts([("size", "0")]));
    profile.into_value()
}

fn image_reference(version: InstanceVersion, view: &InstanceView<'_>) -> Value {
    let mut image = Fields::new(version);
    image.text("2019-06-01", "id", "");
    image.text("2019-06-01", "offer", view.image.offer);
    image.text("2019-06-01", "publisher", view.image.publisher);
    image.text("2019-06-01", "sku", view.image.sku);
    image.text("2019-06-01", "version", view.image.version);
    image.text("2023-07-01", "communityGalleryImageId", "");
    image.text("2023-07-01", "exactVersion", "");
    image.text("2023-07-01", "sharedGalleryImageId", "");
    image.into_value()
}

fn os_disk(view: &InstanceView<'_>) -> Value {
    // Only the ARM API fills in properties, so machines without a storage profile have none.
    let has_profile = view.properties.is_some_and(|properties| properties.get("storageProfile").is_some());
    let defaults: Vec<_> = if has_profile { os_disk_defaults(view.name).to_vec() } else { Vec::new() };
    let default = |place: &str| defaults.iter().find(|(key, _)| *key == place);
    let text = |place: &str| {
        let given = properties::text(view, &format!("storageProfile.osDisk.{place}"));
        match default(place) {
            Some((_, Value::String(text))) if given.is_empty() => Value::from(text.as_str()),
            Some((_, value)) if given.is_empty() => Value::from(value.to_string()),
            Some(_) | None => Value::from(given),
        }
    };
    let nested = |key: &'static str, place: &str| object([(key, text(place))]);
    object([
        ("caching", text("caching")),
        ("createOption", text("createOption")),
        ("diffDiskSettings", nested("option", "diffDiskSettings.option")),
        ("diskSizeGB", text("diskSizeGB")),
        ("encryptionSettings", texts([("enabled", "false")])),
        ("image", nested("uri", "image.uri")),
        (
            "managedDisk",
            object([("id", text("managedDisk.id")), ("storageAccountType", text("managedDisk.storageAccountType"))]),
        ),
        ("name", text("name")),
        ("osType", Value::from(view.os_type)),
        ("vhd", nested("uri", "vhd.uri")),
        ("writeAcceleratorEnabled", flag(&properties::text(view, "storageProfile.osDisk.writeAcceleratorEnabled"))),
    ])
}

fn data_disk(disk: &Value) -> Value {
    let text = |place: &str| Value::from(properties::text_at(disk, place));
    let nested = |key: &'static str, place: &str| object([(key, text(place))]);
    object([
        ("bytesPerSecondThrottle", text("diskMBpsReadWrite")),
        ("caching", text("caching")),
        ("createOption", text("createOption")),
        ("diskCapacityBytes", text("diskCapacityBytes")),
        ("diskSizeGB", text("diskSizeGB")),
        ("image", nested("uri", "image.uri")),
        ("isSharedDisk", Value::from("false")),
        ("isUltraDisk", flag(if is_ultra(disk) { "true" } else { "false" })),
        ("lun", text("lun")),
        (
            "managedDisk",
            object([("id", text("managedDisk.id")), ("storageAccountType", text("managedDisk.storageAccountType"))]),
        ),
        ("name", text("name")),
        ("opsPerSecondThrottle", text("diskIOPSReadWrite")),
        ("vhd", nested("uri", "vhd.uri")),
        ("writeAcceleratorEnabled", flag(&properties::text_at(disk, "writeAcceleratorEnabled"))),
    ])
}

fn is_ultra(disk: &Value) -> bool {
    properties::text_at(disk, "managedDisk.storageAccountType") == "UltraSSD_LRS"
}

/// `true` or `false`, never empty.
fn flag(text: &str) -> Value {
    Value::from(if text.eq_ignore_ascii_case("true") { "true" } else { "false" })
}
