//! The connection to etcd that a configuration describes.

use std::path::Path;

use anyhow::{Context, bail};
use forewarn_cluster::{EtcdOptions, EtcdTls, EtcdUser};

use crate::config::EtcdAccess;

pub fn options(address: &str, access: &EtcdAccess) -> anyhow::Result<EtcdOptions> {
    let mut options = EtcdOptions::parse(address)?;
    let identity = match (&access.certificate, &access.key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => bail!("etcd_cert and etcd_key must be set together: set both, or neither"),
    };
    let ca = access.authority.as_deref().map(read).transpose()?;
    if ca.is_some() || identity.is_some() {
        options.tls = Some(EtcdTls { ca, identity, domain: None });
    }
    options.user = match (&access.user, &access.password_file) {
        (Some(name), Some(file)) => {
            let password = String::from_utf8(read(file)?).context("the etcd password is not valid UTF-8")?;
            Some(EtcdUser { name: name.clone(), password: password.trim_end().to_owned() })
        }
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            bail!("etcd_user and etcd_password_file must be set together: set both, or neither")
        }
    };
    Ok(options)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            Some(path)
        };
        let plain = options("etcd://a/r", &EtcdAccess::default()).unwrap();
        assert!(plain.tls.is_none() && plain.user.is_none());
        let access = EtcdAccess {
            authority: file("ca", "CA"),
            certificate: file("cert", "CERT"),
            key: file("key", "KEY"),
            user: Some("forewarn".into()),
            password_file: file("password", "hunter2\n"),
        };
        let guarded = options("etcd://a/r", &access).unwrap();
        let (tls, user) = (guarded.tls.unwrap(), guarded.user.unwrap());
        assert_eq!((tls.ca.unwrap(), tls.identity.unwrap().1), (b"CA".to_vec(), b"KEY".to_vec()));
        assert_eq!((user.name.as_str(), user.password.as_str()), ("forewarn", "hunter2"));
        let half = EtcdAccess { key: None, ..access };
        assert!(options("etcd://a/r", &half).unwrap_err().to_string().contains("must be set together"));
    }
}
