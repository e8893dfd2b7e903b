//! The addresses at which host agents reach the servers of a cluster, as attachments of the region.

use std::collections::BTreeMap;

use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner, Reader, StoreError};

const PREFIX: &str = "hosts-listener/";

/// The attachment with the address of a node's listener for hosts.
pub fn put_host_listener(node: &str, address: &str) -> Attachment {
    Attachment::put(Owner::Region, format!("{PREFIX}{node}"), address.to_owned())
}

/// Removes the address of a node.
pub fn remove_host_listener(node: &str) -> Attachment {
    Attachment::remove(Owner::Region, format!("{PREFIX}{node}"))
}

/// All addresses, by node. A cluster has a handful of nodes, so one page suffices. Blocking.
pub fn read_host_listeners(reader: &dyn Reader) -> Result<BTreeMap<String, String>, StoreError> {
    let stored = reader.attachments(Owner::Region, PREFIX, None, ATTACHMENTS_PAGE_MAX)?;
    let of_node = |(name, address): (String, String)| Some((name.strip_prefix(PREFIX)?.to_owned(), address));
    Ok(stored.into_iter().filter_map(of_node).collect())
}
