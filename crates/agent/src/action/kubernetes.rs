//! Takes this machine out of a Kubernetes cluster, and back: `kubectl` cordons, drains and uncordons.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::order::Order;
use super::{Turn, programs};
use crate::executable;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// `None`: the host name, as kubelet does.
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

/// Pods of daemon sets would come back at once; what is in emptyDir does not outlive the machine anyway.
fn default_drain() -> Vec<String> {
    vec!["--ignore-daemonsets".into(), "--delete-emptydir-data".into()]
}

impl Kubernetes {
    pub fn check(&self) -> Result<()> {
        if let Some(file) = &self.kubeconfig {
            ensure!(file.is_file(), "its kubeconfig {} is not there", file.display());
        }
        let node = self.node()?;
        ensure!(!node.is_empty() && !node.starts_with('-'), "'{node}' is not the name of a node");
        executable::find(&self.kubectl).map(drop)
    }

    pub fn turn(&self, order: &Order) -> Result<()> {
        let node = self.node()?;
        match Turn::of(order.phase)? {
            Turn::Out => {
                self.kubectl(&["cordon", &node])?;
                let timeout = format!("--timeout={}s", order.left(Duration::MAX).as_secs().max(1));
                let options: Vec<&str> = self.drain.iter().map(String::as_str).collect();
                self.kubectl(&[&["drain", &node, &timeout], options.as_slice()].concat())
            }
            Turn::Back => self.kubectl(&["uncordon", &node]),
        }
    }

    fn kubectl(&self, words: &[&str]) -> Result<()> {
        let file = self.kubeconfig.as_ref().map(|file| format!("--kubeconfig={}", file.display()));
        let begin: Vec<String> = std::iter::once(self.kubectl.clone()).chain(file).collect();
        programs::run(&programs::with(&begin, words))
    }

    fn node(&self) -> Result<String> {
        if let Some(node) = &self.node {
            return Ok(node.clone());
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").context("the host name cannot be read")?;
        Ok(host.trim().to_ascii_lowercase())
    }
}
