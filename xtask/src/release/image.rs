//! The container image: both programs and nothing else, written as an archive without a daemon.
//!
//! The archive is an OCI layout (`index.json`) and a Docker archive (`manifest.json`) at once, as `docker save` writes it,
//! because the OCI format has no health check.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::archive::{Owner, ROOT, StagingDir, compress, sha256};
use super::{VERSION, read};
use crate::static_programs::Programs;
use crate::{package, sh};

/// The user that the server runs as; the number that images without a distribution commonly use.
const USER: u32 = 65532;

/// Public certificate authorities, for webhooks to https URLs.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The files of the image.
const PASSWD: &str = "root:x:0:0:root:/:/sbin/nologin\nforewarn:x:65532:65532:forewarn:/data:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nforewarn:x:65532:\n";
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

pub fn write(programs: &Programs, path: &Path) -> Result<()> {
    let image = StagingDir::new()?;
    let (layer, diff_id) = write_layer(programs, &image)?;
    let config = write_blob(&image, &config(&diff_id)?)?;
    let manifest = write_blob(&image, &manifest(&config, &layer))?;
    image.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    image.file("index.json", 0o644, index(&manifest).to_string().as_bytes())?;
    let docker = json!([{ "Config": config.path(), "RepoTags": [tag()], "Layers": [layer.path()] }]);
    image.file("manifest.json", 0o644, docker.to_string().as_bytes())?;
    if path.exists() {
        fs::remove_file(path)?;
    }
    image.append(path, &["blobs", "index.json", "manifest.json", "oci-layout"], ROOT)
}

/// The name of the image in the archive.
pub fn tag() -> String {
    format!("localhost/forewarn:{VERSION}")
}

/// A file that is named after its content.
struct Blob {
    digest: String,
    size: u64,
}

impl Blob {
    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({ "mediaType": media_type, "digest": format!("sha256:{}", self.digest), "size": self.size })
    }
}

/// Writes the only layer and returns it with the digest of its uncompressed form.
fn write_layer(programs: &Programs, image: &StagingDir) -> Result<(Blob, String)> {
    let root = StagingDir::new()?;
    root.file("usr/bin/forewarn", 0o755, &read(&programs.forewarn)?)?;
    root.file("usr/bin/forewarn-agent", 0o755, &read(&programs.agent)?)?;
    root.file("etc/passwd", 0o644, PASSWD.as_bytes())?;
    root.file("etc/group", 0o644, GROUP.as_bytes())?;
    root.file("etc/nsswitch.conf", 0o644, NSSWITCH.as_bytes())?;
    root.file(&AUTHORITIES[1..], 0o644, &read(Path::new(AUTHORITIES))?)?;
    root.dir("tmp", 0o1777)?;
    root.dir("data", 0o700)?;
    image.dir("blobs/sha256", 0o755)?;
    let plain = image.path().join("layer");
    root.append(&plain, &["etc", "tmp", "usr"], ROOT)?;
    root.append(&plain, &["data"], Owner(USER))?;
    let diff_id = sha256(&plain)?;
    compress(&plain)?;
    Ok((keep(image, &image.path().join("layer.gz"))?, diff_id))
}

fn write_blob(image: &StagingDir, value: &Value) -> Result<Blob> {
    image.file("blob", 0o644, value.to_string().as_bytes())?;
    keep(image, &image.path().join("blob"))
}

/// Moves a file to the blobs.
fn keep(image: &StagingDir, file: &Path) -> Result<Blob> {
    let blob = Blob { digest: sha256(file)?, size: fs::metadata(file)?.len() };
    fs::rename(file, image.path().join(blob.path()))?;
    Ok(blob)
}

/// Callers of the metadata endpoint name their machine in the path: behind a container's network, their addresses say
/// nothing.
const COMMAND: [&str; 7] = [
    "serve",
    "--metadata",
    "0.0.0.0:8169,prefix=true",
    "--management",
    "127.0.0.1:8170",
    "--management-tls",
    "0.0.0.0:8171",
];

fn config(diff_id: &str) -> Result<Value> {
    let epoch = format!("--date=@{}", package::source_date_epoch()?);
    let date = sh::program("date").args(&["--utc", "+%Y-%m-%dT%H:%M:%SZ", &epoch]).read()?;
    let created = date.trim();
    const SECOND_NANOS: u64 = 1_000_000_000;
    Ok(json!({
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin", "FOREWARN_DATA=/data"],
            "Entrypoint": ["/usr/bin/forewarn"],
            "Cmd": COMMAND,
            "WorkingDir": "/data",
            "Volumes": { "/data": {} },
            "ExposedPorts": { "8169/tcp": {}, "8171/tcp": {} },
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "Forewarn",
                "org.opencontainers.image.description": "Scheduled Events for any fleet of virtual machines",
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                "org.opencontainers.image.version": VERSION,
            },
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/forewarn", "health"],
                "Interval": 30 * SECOND_NANOS,
                "Timeout": 5 * SECOND_NANOS,
                "StartPeriod": 10 * SECOND_NANOS,
                "Retries": 3,
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff_id}")] },
        "history": [{ "created": created, "created_by": "cargo xtask release" }],
    }))
}

fn manifest(config: &Blob, layer: &Blob) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar+gzip")],
    })
}

fn index(manifest: &Blob) -> Value {
    let mut entry = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
    entry["platform"] = json!({ "architecture": "amd64", "os": "linux" });
    entry["annotations"] = json!({
        "io.containerd.image.name": tag(),
        "org.opencontainers.image.ref.name": VERSION,
    });
    json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry] })
}

/// Whether this machine has the files that the image is made of.
pub fn check_prerequisites() -> Result<()> {
    fs::metadata(AUTHORITIES).map(drop).with_context(|| format!("{AUTHORITIES}; install ca-certificates"))
}
