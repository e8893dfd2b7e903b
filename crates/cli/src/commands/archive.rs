//! `forewarn export` and `forewarn import`: all data of a data directory as lines of JSON, and back. While a server uses the
//! directory, a copy is exported.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use forewarn_config::data_directory;
use forewarn_store::archive::{self, Summary};
use forewarn_store::{SqliteStore, StoreError};

use super::backup::copy_database;
use crate::args::ArchiveArgs;
use crate::failure::Failure;
use crate::output;

pub const DATABASE: &str = "forewarn.db";

pub fn export(args: ArchiveArgs) -> Result<(), Failure> {
    let directory = data_directory(args.data.data)?;
    if !directory.join(DATABASE).exists() {
        let what = format!("no data found in {}: set --data to the server's data directory", directory.display());
        return Err(Failure::Refused(what));
    }
    if !is_dash(&args.file) && fs::symlink_metadata(&args.file).is_ok() {
        let what = format!("{} already exists: choose another file name", args.file.display());
        return Err(Failure::Refused(what));
    }
    let (mut store, _copy) = open_or_copy(&directory)?;
    let summary = if is_dash(&args.file) {
        archive::export(&mut store, BufWriter::new(io::stdout().lock())).map_err(store_failure)?
    } else {
        export_to_file(&mut store, &args.file)?
    };
    output::print_stderr(&format!("Exported {}", describe_summary(summary)));
    Ok(())
}

/// Writes to a temporary private file that is renamed once complete.
fn export_to_file(store: &mut SqliteStore, file: &Path) -> Result<Summary, Failure> {
    let beside = PathBuf::from(format!("{}.part-{}", file.display(), std::process::id()));
    let written = write_whole(store, &beside, file);
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write_whole(store: &mut SqliteStore, beside: &Path, file: &Path) -> Result<Summary, Failure> {
    let no_file = |error: io::Error| Failure::Refused(format!("cannot write {}: {error}", file.display()));
    let mut out = BufWriter::new(private_file(beside).map_err(no_file)?);
    let summary = archive::export(store, &mut out).map_err(store_failure)?;
    out.flush().and_then(|()| out.get_ref().sync_all()).and_then(|()| fs::rename(beside, file)).map_err(no_file)?;
    Ok(summary)
}

fn private_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

pub fn import(args: ArchiveArgs) -> Result<(), Failure> {
    let directory = data_directory(args.data.data)?;
    let summary = if is_dash(&args.file) {
        archive::import(BufReader::new(io::stdin().lock()), &mut open(&directory)?)
    } else {
        let input = File::open(&args.file)
            .map_err(|error| Failure::Refused(format!("cannot read {}: {error}", args.file.display())))?;
        archive::import(BufReader::new(input), &mut open(&directory)?)
    };
    let summary = summary.map_err(store_failure)?;
    output::print_stderr(&format!("Imported {} into {}", describe_summary(summary), directory.display()));
    Ok(())
}

fn is_dash(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Opens the store, or a copy of it if a server uses it. The copy ends with the second value.
fn open_or_copy(directory: &Path) -> Result<(SqliteStore, Option<TemporaryDirectory>), Failure> {
    match SqliteStore::open(directory) {
        Ok(store) => Ok((store, None)),
        Err(StoreError::InUse { .. }) => {
            // In the data directory, because the copy is as large and as secret as the data.
            let copy = TemporaryDirectory(directory.join(format!("export-{}", std::process::id())));
            let created = fs::DirBuilder::new().mode(0o700).create(&copy.0);
            created.map_err(|error| Failure::Refused(format!("cannot write {}: {error}", copy.0.display())))?;
            copy_database(&directory.join(DATABASE), &copy.0.join(DATABASE))?;
            let store = SqliteStore::open(&copy.0).map_err(store_failure)?;
            Ok((store, Some(copy)))
        }
        Err(error) => Err(store_failure(error)),
    }
}

/// A directory that is removed with this value.
struct TemporaryDirectory(PathBuf);

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(directory: &Path) -> Result<SqliteStore, Failure> {
    SqliteStore::open(directory).map_err(|error| match &error {
        // The store advises to choose another directory, which suits only a second server.
        StoreError::InUse { .. } => {
            Failure::Refused(format!("a server is using {}: stop it first", directory.display()))
        }
        _ => store_failure(error),
    })
}

fn is_broken_pipe(error: &StoreError) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let of_json = error.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind).or(of_json);
        if kind == Some(io::ErrorKind::BrokenPipe) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn describe_summary(summary: Summary) -> String {
    let Summary { records, attachments, history } = summary;
    match attachments {
        0 => format!("{records} records and {history} history rows"),
        _ => format!("{records} records, {attachments} attachments and {history} history rows"),
    }
}

/// The error with its causes; silent if the reader of a pipe is gone.
pub fn store_failure(error: StoreError) -> Failure {
    if is_broken_pipe(&error) {
        return Failure::Silent;
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    Failure::Refused(text)
}
