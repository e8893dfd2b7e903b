//! Writes the archive format of initramfs images ("newc"), so that no archiver is needed.

#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const DIR: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;

/// The name of the entry that ends an archive.
const END: &str = "TRAILER!!!";

impl Archive {
    pub fn dir(&mut self, name: &str) {
        self.entry(name, DIR, b"");
    }

    pub fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, FILE, content);
    }

    pub fn program(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PROGRAM, content);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.entry(END, 0, b"");
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let (size, name_size) = (content.len(), name.len() + 1);
        // Magic, inode, mode, owner, group, links, time, size, four device numbers, length of the name, checksum.
        let header = format!(
            "070701{:08x}{mode:08x}{z}{z}{:08x}{z}{size:08x}{z}{z}{z}{z}{name_size:08x}{z}",
            self.entries,
            1,
            z = "00000000",
        );
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_end_with_a_trailer() {
        let mut archive = Archive::default();
        archive.dir("bin");
        archive.program("init", b"#!");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("07070100000001000041ed"), "{text}");
        assert_eq!(&bytes[110..114], b"bin\0");
        assert_eq!(text.matches("070701").count(), 3);
        assert!(text.trim_end_matches('\0').ends_with(END));
    }
}
