//! The `storageProfile` of a machine. Forewarn knows the image and the operating system, but no disks; the
//! other properties are present but empty.

use serde_json::Value;

use super::{Fields, InstanceView, object, texts};
use crate::version::InstanceVersion;

pub(super) fn profile(version: InstanceVersion, view: &InstanceView<'_>) -> Value {
    let mut profile = Fields::new(version);
    profile.put("2019-06-01", "dataDisks", Value::Array(Vec::new()));
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
    let text = Value::from;
    object([
        ("caching", text("")),
        ("createOption", text("")),
        ("diffDiskSettings", texts([("option", "")])),
        ("diskSizeGB", text("")),
        ("encryptionSettings", texts([("enabled", "false")])),
        ("image", texts([("uri", "")])),
        ("managedDisk", texts([("id", ""), ("storageAccountType", "")])),
        ("name", text("")),
        ("osType", text(view.os_type)),
        ("vhd", texts([("uri", "")])),
        ("writeAcceleratorEnabled", text("false")),
    ])
}
