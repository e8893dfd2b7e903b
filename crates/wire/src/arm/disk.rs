//! Azure's defaults for the disk of the operating system, in the ARM API and in instance metadata. No disk exists.

use serde_json::{Value, json};

/// Size in GB.
const OS_DISK_GB: u32 = 30;

/// The properties of `storageProfile.osDisk` of a machine that a request leaves out, with their values.
pub fn os_disk_defaults(machine: &str) -> [(&'static str, Value); 6] {
    [
        ("name", json!(format!("{machine}_OsDisk_1"))),
        ("createOption", json!("FromImage")),
        ("caching", json!("ReadWrite")),
        ("diskSizeGB", json!(OS_DISK_GB)),
        ("deleteOption", json!("Detach")),
        ("managedDisk.storageAccountType", json!("Premium_LRS")),
    ]
}
