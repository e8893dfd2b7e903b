//! Cordons, drains and uncordons this machine's Kubernetes node with `kubectl`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::request::ActionRequest;
use super::{Direction, programs};
use crate::executable;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// `None` for the host name, like kubelet.
    #[serde(default)]
    node: Option<String>,
    #[serde(default)]
    kubeconfig: Option<PathBuf>,
    #[serde(default = "default_kubectl")]
    kubectl: String,
    #[serde(default = "default_drain")]
    drain: Vec<String>,
}

fn default_kubectl() -> String {
    "kubectl".into()
}

/// Pods of daemon sets would be recreated immediately, and emptyDir volumes do not survive the event anyway.
fn default_drain() -> Vec<String> {
    vec!["--ignore-daemonsets".into(), "--delete-emptydir-data".into()]
}

impl Kubernetes {
    pub fn check(&self) -> Result<()> {
        if let Some(file) = &self.kubeconfig {
            ensure!(file.is_file(), "the kubeconfig {} does not exist", file.display());
        }
        let node = self.node()?;
        ensure!(!node.is_empty() && !node.starts_with('-'), "invalid node name '{node}'");
        executable::find(&self.kubectl).map(drop)
    }

    pub fn apply(&self, request: &ActionRequest) -> Result<()> {
        let node = self.node()?;
        match Direction::of(request.phase)? {
            Direction::Drain => {
                self.kubectl(&["cordon", &node])?;
                let timeout = format!("--timeout={}s", request.remaining(Duration::MAX).as_secs().max(1));
                let options: Vec<&str> = self.drain.iter().map(String::as_str).collect();
                self.kubectl(&[&["drain", &node, &timeout], options.as_slice()].concat())
            }
            Direction::Restore => self.kubectl(&["uncordon", &node]),
        }
    }

    fn kubectl(&self, words: &[&str]) -> Result<()> {
        let file = self.kubeconfig.as_ref().map(|file| format!("--kubeconfig={}", file.display()));
        let command: Vec<String> = std::iter::once(self.kubectl.clone()).chain(file).collect();
        programs::run(&programs::append(&command, words))
    }

    fn node(&self) -> Result<String> {
        if let Some(node) = &self.node {
            return Ok(node.clone());
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").context("cannot read the host name")?;
        Ok(host.trim().to_ascii_lowercase())
    }
}
