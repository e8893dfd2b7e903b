//! The instance document: golden files per version, and paths into it.

use crate::support::check_golden;
use forewarn_wire::error::MetadataError;
use forewarn_wire::instance::{
    ContentType, Format, Image, InstanceView, Interface, Ipv4, Subnet, navigate, root_listing, select_properties, tree,
    versions_body,
};
use forewarn_wire::version::InstanceVersion;
use serde_json::{Value, json};

const MACHINE: InstanceView<'_> = InstanceView {
    name: "web_3",
    computer_name: "web000003",
    vm_id: 0x5C08B38E_4D57_4C23_AC45_ACA61037F084,
    resource_id: "/subscriptions/8d10da13-8125-4ba9-a717-bf7490507b3d/resourceGroups/shop/providers/Microsoft.Compute/virtualMachineScaleSets/web/virtualMachines/3",
    subscription_id: "8d10da13-8125-4ba9-a717-bf7490507b3d",
    resource_group_name: "shop",
    location: "westeurope",
    zone: "2",
    physical_zone: "westeurope-AZ1",
    vm_size: "Standard_D2s_v3",
    os_type: "Linux",
    image: Image { publisher: "debian", offer: "debian-13", sku: "13", version: "13.0.1" },
    fault_domain: "1",
    sub_fault_domain: "",
    update_domain: "4",
    placement_group_id: "a6d3c8a4-31d6-4a3e-9b7f-0d6f1f3c2b10",
    scale_set_name: "web",
    scale_set_id: "",
    host_id: "",
    host_group_id: "",
    priority: "Spot",
    eviction_policy: "Deallocate",
    environment: "AzurePublicCloud",
    provider: "Microsoft.Compute",
    properties: None,
    tags: &[("owner", "shop \"team\""), ("env", "test")],
    interfaces: &[Interface {
        mac_address: "00:0d:3a:f8:06:ec",
        ipv4: &[Ipv4 { private: "10.0.0.4", public: "203.0.113.7" }, Ipv4 { private: "10.0.0.5", public: "" }],
        ipv4_subnets: &[Subnet { address: "10.0.0.0", prefix: "24" }],
        ipv6: &["fd00::4"],
    }],
};

fn version(text: &str) -> InstanceVersion {
    InstanceVersion::parse(Some(text)).expect("the test names versions that are served")
}

fn newest() -> Value {
    tree(version("2025-04-07"), &MACHINE)
}

#[test]
fn every_version_with_changes_matches_its_golden_file() {
    let mut last = Value::Null;
    for version in InstanceVersion::ALL {
        let tree = tree(version, &MACHINE);
        if tree != last {
            check_golden(&format!("instance-{version}.json"), tree.to_string().as_bytes());
            last = tree;
        }
    }
}

#[test]
fn fields_are_present_since_their_first_version() {
    let check = |pointer: &str, first: &str| {
        let having = |&version: &InstanceVersion| tree(version, &MACHINE).pointer(pointer).is_some();
        let found: Vec<_> = InstanceVersion::ALL.into_iter().filter(having).collect();
        let expected: Vec<_> = InstanceVersion::ALL.into_iter().filter(|version| version.as_str() >= first).collect();
        assert_eq!(found, expected, "{pointer}");
    };
    for pointer in ["name", "location", "osType", "platformFaultDomain", "platformUpdateDomain", "vmId", "vmSize"] {
        check(&format!("/compute/{pointer}"), "2017-03-01");
    }
    check("/network/interface/0/macAddress", "2017-03-01");
    for pointer in ["placementGroupId", "resourceGroupName", "subscriptionId", "tags"] {
        check(&format!("/compute/{pointer}"), "2017-08-01");
    }
    check("/compute/vmScaleSetName", "2017-12-01");
    check("/compute/zone", "2017-12-01");
    check("/compute/azEnvironment", "2018-10-01");
    check("/compute/provider", "2018-10-01");
    check("/compute/resourceId", "2019-03-11");
    check("/compute/tagsList", "2019-06-04");
    check("/compute/osProfile/computerName", "2020-07-15");
    check("/compute/priority", "2020-12-01");
    check("/compute/evictionPolicy", "2020-12-01");
    check("/compute/virtualMachineScaleSet/id", "2021-03-01");
    check("/compute/platformSubFaultDomain", "2021-10-01");
    check("/compute/host/id", "2021-11-15");
    check("/compute/hostGroup/id", "2021-11-15");
    check("/compute/physicalZone", "2023-11-15");
}

#[test]
fn values_are_strings_and_keys_are_sorted() {
    fn visit(node: &Value) {
        match node {
            Value::Object(members) => {
                assert!(members.keys().is_sorted(), "{node}");
                members.values().for_each(visit);
            }
            Value::Array(items) => items.iter().for_each(visit),
            _ => assert!(node.is_string(), "{node}"),
        }
    }
    for version in InstanceVersion::ALL {
        visit(&tree(version, &MACHINE));
        visit(&tree(version, &InstanceView::default()));
    }
}

/// Renders the answer as `json <body>` or `text <body>`, or the status of the error.
fn answer(path: &str, format: Format) -> String {
    match navigate(&newest(), path, format) {
        Ok(answer) => {
            let media = match answer.media {
                ContentType::Json => "json",
                ContentType::Text => "text",
            };
            format!("{media} {}", String::from_utf8(answer.body).unwrap())
        }
        Err(refusal) => refusal.status().to_string(),
    }
}

fn check(path: &str, json: &str, text: &str) {
    assert_eq!(answer(path, Format::Json), json, "{path} as JSON");
    assert_eq!(answer(path, Format::Text), text, "{path} as text");
}

#[test]
fn paths_select_subtrees_values_and_listings() {
    check("", &format!("json {}", newest()), "text compute/\nnetwork/");
    check("/", &format!("json {}", newest()), "text compute/\nnetwork/");
    check("/compute/name", "400", "text web_3");
    check("/compute/name/", "400", "text web_3");
    check("/compute/vmId", "400", "text 5c08b38e-4d57-4c23-ac45-aca61037f084");
    check("/compute/platformFaultDomain", "400", "text 1");
    check("/compute/platformSubFaultDomain", "400", "text ");
    check("/compute/tags", "400", "text owner:shop \"team\";env:test");
    check(
        "/compute/tagsList",
        r#"json [{"name":"owner","value":"shop \"team\""},{"name":"env","value":"test"}]"#,
        "text 0/\n1/",
    );
    check("/compute/tagsList/1", r#"json {"name":"env","value":"test"}"#, "text name\nvalue");
    check("/compute/osProfile/computerName", "400", "text web000003");
    check("/compute/publicKeys", "json []", "text ");
    check("/network/interface", &format!("json {}", newest()["network"]["interface"]), "text 0/");
    check(
        "/network/interface/0/ipv4/ipAddress/0",
        r#"json {"privateIpAddress":"10.0.0.4","publicIpAddress":"203.0.113.7"}"#,
        "text privateIpAddress\npublicIpAddress",
    );
    check("/network", &format!("json {}", newest()["network"]), "text interface/");
    check("/network/interface/0/macAddress", "400", "text 000D3AF806EC");
    check(
        "/network/interface/0",
        &format!("json {}", newest()["network"]["interface"][0]),
        "text ipv4/\nipv6/\nmacAddress",
    );
}

#[test]
fn unknown_paths_are_not_found() {
    for path in [
        "/x",
        "/Compute",
        "/compute/Name",
        "/compute/name/x",
        "/compute/name/0",
        "/network/interface/1",
        "/network/interface/-1",
        "/network/interface/+0",
        "/network/interface/x",
        "/network/interface/99999999999999999999999",
    ] {
        check(path, "404", "404");
    }
}

#[test]
fn errors_contain_the_whole_path() {
    let refusal = |path, format| navigate(&newest(), path, format).unwrap_err();
    let path = "/metadata/instance/compute/name".to_owned();
    assert_eq!(refusal("/compute/name", Format::Json), MetadataError::TextFormatNeeded { path });
    let path = "/metadata/instance/compute/x".to_owned();
    assert_eq!(refusal("/compute/x", Format::Text), MetadataError::UnknownElement { path });
}

#[test]
fn the_format_is_json_or_text() {
    assert_eq!(Format::parse(None), Ok(Format::Json));
    assert_eq!(Format::parse(Some("json")), Ok(Format::Json));
    assert_eq!(Format::parse(Some("TEXT")), Ok(Format::Text));
    assert_eq!(Format::parse(Some("")), Err(MetadataError::BadFormat { given: String::new() }));
    assert_eq!(Format::parse(Some("xml")).unwrap_err().status(), 400);
}

#[test]
fn the_root_is_a_listing_and_versions_are_a_list() {
    let listing = root_listing(Format::Text).unwrap();
    assert_eq!(listing.body, b"instance/\nscheduledevents/");
    assert_eq!(root_listing(Format::Json).unwrap_err().status(), 400);
    check_golden("versions.json", &versions_body());
}

#[test]
fn properties_given_through_arm_are_shown() {
    let properties = json!({
        "userData": "c2g=",
        "osProfile": {
            "adminUsername": "me",
            "linuxConfiguration": {
                "disablePasswordAuthentication": false,
                "ssh": { "publicKeys": [{ "path": "/home/me/.ssh/authorized_keys", "keyData": "ssh-ed25519 A" }] },
            },
        },
        "storageProfile": {
            "osDisk": { "name": "os", "diskSizeGB": 30, "managedDisk": { "storageAccountType": "Premium_LRS" } },
            "dataDisks": [{ "lun": 0, "name": "data", "diskSizeGB": 128 }],
        },
    });
    let view = InstanceView { properties: Some(&properties), ..MACHINE };
    let version = InstanceVersion::parse(Some("2021-02-01")).unwrap();
    let compute = &tree(version, &view)["compute"];
    assert_eq!(compute["osProfile"]["adminUsername"], "me");
    assert_eq!(compute["osProfile"]["disablePasswordAuthentication"], "false");
    assert_eq!(compute["publicKeys"], json!([{ "keyData": "ssh-ed25519 A", "path": "/home/me/.ssh/authorized_keys" }]));
    assert_eq!(compute["userData"], "c2g=");
    let storage = &compute["storageProfile"];
    assert_eq!((&storage["osDisk"]["name"], &storage["osDisk"]["diskSizeGB"]), (&json!("os"), &json!("30")));
    assert_eq!(storage["osDisk"]["managedDisk"]["storageAccountType"], "Premium_LRS");
    assert_eq!((&storage["dataDisks"][0]["lun"], &storage["dataDisks"][0]["name"]), (&json!("0"), &json!("data")));
}

/// As the ARM API shows them.
#[test]
fn a_machine_with_a_storage_profile_has_the_defaults_of_azure() {
    let properties = json!({ "storageProfile": {
        "imageReference": { "sku": "13" }, "osDisk": { "caching": "None", "managedDisk": { "storageAccountType": null } } } });
    let version = InstanceVersion::parse(Some("2021-02-01")).unwrap();
    let os_disk = |properties: &Value| {
        let view = InstanceView { properties: Some(properties), ..MACHINE };
        tree(version, &view)["compute"]["storageProfile"]["osDisk"].clone()
    };
    let expected = json!({
        "caching": "None", "createOption": "FromImage", "diffDiskSettings": { "option": "" }, "diskSizeGB": "30",
        "encryptionSettings": { "enabled": "false" }, "image": { "uri": "" },
        "managedDisk": { "id": "", "storageAccountType": "Premium_LRS" }, "name": "web_3_OsDisk_1", "osType": "Linux",
        "vhd": { "uri": "" }, "writeAcceleratorEnabled": "false",
    });
    assert_eq!(os_disk(&properties), expected);
    let image_only = json!({ "storageProfile": { "imageReference": { "sku": "13" } } });
    assert_eq!(os_disk(&image_only)["name"], "web_3_OsDisk_1");
    assert_eq!(os_disk(&select_properties(&image_only)), os_disk(&image_only), "on a host agent");
    assert_eq!(os_disk(&json!({ "osProfile": { "adminUsername": "me" } }))["name"], "");
}

#[test]
fn disable_password_authentication_is_never_empty() {
    let version = InstanceVersion::parse(Some("2021-02-01")).unwrap();
    for (os_type, expected) in [("Linux", "true"), ("Windows", "false")] {
        let view = InstanceView { os_type, ..MACHINE };
        assert_eq!(tree(version, &view)["compute"]["osProfile"]["disablePasswordAuthentication"], expected);
    }
}

#[test]
fn the_selected_properties_give_the_same_document() {
    let disk = json!({ "lun": 3, "name": "data", "diskSizeGB": 64, "caching": "None", "createOption": "Empty" });
    let all = json!({
        "userData": "c2g=",
        "licenseType": "RHEL_BYOS",
        "networkProfile": { "networkInterfaces": [] },
        "storageProfile": { "imageReference": { "sku": "13" }, "osDisk": { "name": "os" }, "dataDisks": [disk] },
        "osProfile": { "adminUsername": "me", "adminPassword": "secret", "linuxConfiguration": {
            "disablePasswordAuthentication": false,
            "ssh": { "publicKeys": [{ "path": "/home/me/.ssh/authorized_keys", "keyData": "ssh-rsa AAAA" }] } } },
    });
    let selected = select_properties(&all);
    let document = |properties| tree(version("2025-04-07"), &InstanceView { properties, ..MACHINE });
    assert_eq!(document(Some(&selected)), document(Some(&all)));
    assert_ne!(document(Some(&selected)), document(None));
    assert_eq!((selected.get("networkProfile"), selected["osProfile"].get("adminPassword")), (None, None));
    assert_eq!(select_properties(&json!({})), json!({}));
}
