//! The disks of a domain, read from its XML.

use super::mark::attribute;

/// Paths of the disks that belong to the domain: files and block devices, without CD-ROMs and without disks that are
/// read-only or shared with other domains.
pub fn own_disks(xml: &str) -> Vec<String> {
    let mut disks = Vec::new();
    let mut rest = xml;
    while let Some((_, from)) = rest.split_once("<disk ") {
        let (disk, after) = from.split_once("</disk>").unwrap_or((from, ""));
        rest = after;
        let kind = attribute(&format!("<disk {disk}"), "device");
        let is_own = !disk.contains("<readonly/>") && !disk.contains("<shareable/>");
        // Backing files have sources of their own, after the first one.
        let source = disk.split_once("<source ").map(|(_, source)| format!("<source {source}"));
        if let Some(source) = source
            && kind.as_deref().unwrap_or("disk") == "disk"
            && is_own
        {
            disks.extend(attribute(&source, "file").or_else(|| attribute(&source, "dev")));
        }
    }
    disks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writable_disks_of_the_domain_are_its_own() {
        let xml = "<domain><devices>
            <disk type='file' device='disk'><driver name='qemu'/><source file='/var/lib/a&amp;b.qcow2' index='1'/>
              <backingStore type='file'><source file='/base.qcow2'/></backingStore></disk>
            <disk type='block' device='disk'><source dev='/dev/vg/web1'/></disk>
            <disk type='file' device='cdrom'><source file='/install.iso'/><readonly/></disk>
            <disk type='file' device='disk'><source file='/shared.img'/><shareable/></disk>
            <disk type='file' device='disk'><source file='/ro.img'/><readonly/></disk>
            <disk type='file' device='disk'><target dev='vdz'/></disk>
            </devices></domain>";
        assert_eq!(own_disks(xml), ["/var/lib/a&b.qcow2", "/dev/vg/web1"]);
        assert_eq!(own_disks("<disk "), Vec::<String>::new());
    }
}
