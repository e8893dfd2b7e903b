//! Files that only their owner can read: tokens, keys and secrets in the data directory. They are complete and on disk before
//! they get their name. A file that others can read is refused.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    #[error("cannot read or write {path}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is readable by others (mode {mode:o}). Fix it with: chmod 600 {path}")]
    Exposed { path: PathBuf, mode: u32 },
    #[error("{path} is invalid: {what}. Remove it; the next start creates a new one")]
    Invalid { path: PathBuf, what: String },
}

impl SecretFileError {
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> SecretFileError {
        |source| SecretFileError::Io { path: path.to_owned(), source }
    }
}

/// Reads a file, up to `bytes_max`; None if it does not exist.
pub fn read(path: &Path, bytes_max: u64) -> Result<Option<(String, Metadata)>, SecretFileError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(SecretFileError::io(path))?,
    };
    let metadata = file.metadata().map_err(SecretFileError::io(path))?;
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(SecretFileError::Exposed { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    file.take(bytes_max).read_to_string(&mut text).map_err(SecretFileError::io(path))?;
    Ok(Some((text, metadata)))
}

/// Creates a file unless it exists. Two servers that start at once end up with one secret, because a hard link fails if its
/// name exists.
pub fn create(path: &Path, text: &str) -> Result<(), SecretFileError> {
    let created = || {
        if path.try_exists()? {
            return Ok(());
        }
        let dir = directory(path);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let made = write_beside(path, text)?;
        let linked = fs::hard_link(&made, path);
        fs::remove_file(&made)?;
        match linked {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked.and_then(|()| sync(dir)),
        }
    };
    created().map_err(SecretFileError::io(path))
}

/// Replaces a file.
pub fn replace(path: &Path, text: &str) -> Result<(), SecretFileError> {
    let replaced = || {
        let made = write_beside(path, text)?;
        fs::rename(&made, path).inspect_err(|_| drop(fs::remove_file(&made)))?;
        sync(directory(path))
    };
    replaced().map_err(SecretFileError::io(path))
}

fn write_beside(path: &Path, text: &str) -> io::Result<PathBuf> {
    let mut made = path.as_os_str().to_owned();
    made.push(format!(".{:016x}", crate::random::random_guid().0 as u64));
    let made = PathBuf::from(made);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&made)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(&made)))?;
    Ok(made)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_created_is_private_and_the_first_one_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data/secret");
        assert!(read(&path, 100).unwrap().is_none());
        create(&path, "one").unwrap();
        create(&path, "two").unwrap();
        assert_eq!(read(&path, 100).unwrap().unwrap().0, "one");
        replace(&path, "three").unwrap();
        let (text, metadata) = read(&path, 4).unwrap().unwrap();
        assert_eq!((text.as_str(), metadata.mode() & 0o777), ("thre", 0o600));
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_others_can_read_is_not_taken() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("secret");
        create(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read(&path, 100), Err(SecretFileError::Exposed { mode: 0o640, .. })));
    }
}
