//! Tests of IDs: parsing, formatting and errors.

use super::*;
use proptest::prelude::*;

/// Renders the path with a `|` before the tail, or the error message.
fn render(raw: &str) -> String {
    match Path::parse(raw) {
        Ok(Path { id, tail: Some(tail) }) => format!("{id}|{tail}"),
        Ok(Path { id, tail: None }) => id.to_string(),
        Err(error) => error.to_string(),
    }
}

fn check(raw: &str, expected: &str) {
    assert_eq!(render(raw), expected, "{raw:?}");
}

fn id(text: &str) -> ResourceId {
    ResourceId::parse(text).expect("the test's ids can be read")
}

const SET: &str = "/subscriptions/S/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/su";

#[test]
fn ids_of_every_depth_are_parsed() {
    check("/", "");
    check("/subscriptions/S", "/subscriptions/S");
    check("/subscriptions/S/resourceGroups/g", "/subscriptions/S/resourceGroups/g");
    check(SET, SET);
    check(&format!("{SET}/virtualMachines/0"), &format!("{SET}/virtualMachines/0"));
    check("/subscriptions/S/providers/Microsoft.Compute", "/subscriptions/S/providers/Microsoft.Compute");
    check("/providers/Microsoft.Compute", "/providers/Microsoft.Compute");
    let image = "/subscriptions/S/providers/Microsoft.Compute/locations/L/publishers/P/artifacttypes/vmimage/offers/O/skus/K/versions/22.04.1";
    check(image, image);
    let event = format!("{SET}/providers/Microsoft.Maintenance/scheduledevents/7");
    check(&event, &event);
}

#[test]
fn a_word_after_an_id_is_its_tail() {
    check("/subscriptions", "|subscriptions");
    check("/tenants", "|tenants");
    check("/providers", "|providers");
    check("/subscriptions/S/locations", "/subscriptions/S|locations");
    check("/subscriptions/S/resourcegroups", "/subscriptions/S|resourceGroups");
    check("/subscriptions/S/resourcegroups/g/resources", "/subscriptions/S/resourceGroups/g|resources");
    check("/subscriptions/S/providers/microsoft.compute/SKUS", "/subscriptions/S/providers/Microsoft.Compute|skus");
    check(&format!("{SET}/poweroff"), &format!("{SET}|poweroff"));
    check(&format!("{SET}/virtualmachines"), &format!("{SET}|virtualMachines"));
    check(&format!("{SET}/virtualMachines/2/deallocate"), &format!("{SET}/virtualMachines/2|deallocate"));
    let maintenance = format!("{SET}/providers/Microsoft.Maintenance");
    check(&format!("{maintenance}/scheduledEvents"), &format!("{maintenance}|scheduledevents"));
    check(
        &format!("{maintenance}/scheduledEvents/7/acknowledge"),
        &format!("{maintenance}/scheduledevents/7|acknowledge"),
    );
}

#[test]
fn words_are_normalized_and_names_are_not() {
    check(
        "/SUBSCRIPTIONS/S/resourcegroups/MyGroup/PROVIDERS/microsoft.network/publicIpAddresses/VM1PublicIP/",
        "/subscriptions/S/resourceGroups/MyGroup/providers/Microsoft.Network/publicIPAddresses/VM1PublicIP",
    );
    check("/providers/Own.Space/odd/Name", "/providers/Own.Space/odd/Name");
    // A name may be the same as a fixed word.
    check(
        "/subscriptions/subscriptions/resourceGroups/PROVIDERS/providers/Microsoft.Compute/virtualMachines/providers",
        "/subscriptions/subscriptions/resourceGroups/PROVIDERS/providers/Microsoft.Compute/virtualMachines/providers",
    );
}

#[test]
fn double_slashes_and_encoded_names_are_accepted() {
    check(
        "//subscriptions/S//resourceGroups/g/providers/Microsoft.Compute//availabilitySets/as%31//",
        "/subscriptions/S/resourceGroups/g/providers/Microsoft.Compute/availabilitySets/as1",
    );
    check("/subscriptions/a+b%2Bc", "/subscriptions/a+b+c");
    check("/%73ubscriptions/S", "/subscriptions/S");
}

#[test]
fn invalid_ids_are_reported() {
    check("", "A resource ID must start with a slash: /subscriptions/…");
    check("subscriptions/S", "A resource ID must start with a slash: /subscriptions/…");
    check(
        &format!("/{}", "x/".repeat(PATH_BYTES_MAX)),
        "A path must not be longer than 2048 bytes. Use shorter names.",
    );
    check("/subscriptions/%ff", "A name in the path is not valid UTF-8. Percent-encode names as UTF-8.");
    let characters = "must not contain spaces, control characters, quotes, slashes or any of < > % & ? #";
    check("/subscriptions/a%2Fb", &format!("The name 'a/b' {characters}."));
    check("/subscriptions/a%20b", &format!("The name 'a b' {characters}."));
    check("/subscriptions/100%", &format!("The name '100%' {characters}."));
    check("/subscriptions/%2E%2e", "The name '..' is reserved for relative paths.");
    check(
        &format!("/subscriptions/{}", "x".repeat(NAME_BYTES_MAX + 1)),
        &format!("The name '{}…' must not be longer than 128 bytes.", "x".repeat(100)),
    );
    let deep = format!("/providers/Microsoft.Compute{}", "/type/name".repeat(PAIRS_MAX + 1));
    check(&deep, "A resource ID can have at most 8 pairs of type and name below a provider. Use a shorter ID.");
    let unexpected = "'locations' is unexpected at this position of a resource ID. A subscription or resource group must be followed by /providers/, and a type by its name.";
    check("/subscriptions/S/locations/westeurope", unexpected);
    let third = format!("{SET}/providers/A/b/c/providers/D/e/f");
    assert!(render(&third).starts_with("'providers' is unexpected at this position"), "{}", render(&third));
}

#[test]
fn an_id_has_no_tail() {
    let error = ResourceId::parse(&format!("{SET}/restart")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The resource ID ends with 'restart' and has no name after it. Add the name of the resource."
    );
}

#[test]
fn an_id_provides_its_parts() {
    let event = id(&format!("{SET}/virtualmachines/0/providers/Microsoft.Maintenance/scheduledevents/7"));
    assert_eq!(event.subscription().unwrap().as_str(), "S");
    assert_eq!(event.group().unwrap().as_str(), "g");
    assert_eq!(event.name().unwrap().as_str(), "7");
    assert_eq!(event.kind().as_deref(), Some("Microsoft.Maintenance/scheduledevents"));
    let instance = event.base();
    assert_eq!(instance.kind().as_deref(), Some("Microsoft.Compute/virtualMachineScaleSets/virtualMachines"));
    assert_eq!(instance.name().unwrap().as_str(), "0");
    assert_eq!(instance.parent(), Some(id(SET)));
    assert_eq!(id(SET).parent(), None);
    let group = id("/subscriptions/S/resourceGroups/g");
    assert_eq!((group.kind(), group.name().unwrap().as_str(), group.parent()), (None, "g", None));
    assert_eq!(id("/subscriptions/S/providers/Microsoft.Compute").name(), None);
}

#[test]
fn an_id_in_a_url_is_ascii() {
    assert_eq!(id("/subscriptions/S/resourceGroups/büro").url_path(), "/subscriptions/S/resourceGroups/b%C3%BCro");
}

fn hash(id: &ResourceId) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

proptest! {
    #[test]
    fn parsing_any_bytes_does_not_panic(bytes: Vec<u8>) {
        let _ = Path::parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn what_is_written_reads_back_as_the_same(
        raw in "(/|//)(subscriptions/|resourceGroups/|providers/|Microsoft\\.Compute/|virtualMachines/|a/|B%62/|é/|%2e/|\\+/){0,14}",
    ) {
        if let Ok(path) = Path::parse(&raw) {
            let written = path.to_string();
            let again = Path::parse(if written.is_empty() { "/" } else { &written });
            prop_assert_eq!(again.as_ref(), Ok(&path));
            prop_assert_eq!(again.unwrap().to_string(), written);
            let through_url = Path::parse(&format!("/{}", path.id.url_path())).unwrap();
            prop_assert_eq!(through_url.id, path.id);
        }
    }

    #[test]
    fn case_makes_no_difference(
        raw in "/subscriptions/[a-zA-Z]{1,8}/resourceGroups/[a-zA-Zé]{1,8}/providers/Microsoft\\.Compute(/[a-zA-Z]{1,9}/[a-zA-Z]{1,9}){0,3}",
        upper: u64,
    ) {
        let mixed: String = raw
            .chars()
            .enumerate()
            .map(|(index, c)| if upper >> (index % 64) & 1 == 1 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
            .collect();
        let (left, right) = (id(&raw), id(&mixed));
        prop_assert_eq!(&left, &right);
        prop_assert_eq!(left.key(), right.key());
        prop_assert_eq!(hash(&left), hash(&right));
        prop_assert_eq!(left.cmp(&right), Ordering::Equal);
    }
}
