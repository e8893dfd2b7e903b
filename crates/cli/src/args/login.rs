//! Arguments of `forewarn login` and `forewarn context`.

use std::path::PathBuf;

use clap::Subcommand;

use super::connection::Output;

#[derive(Debug, clap::Args)]
pub struct LoginArgs {
    /// Address of the server's management API, such as https://forewarn.example:8171.
    #[arg(value_name = "URL")]
    pub server: String,
    /// Name of the context [default: the host name in the URL].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// File with the certificate authority of the server (PEM) [default: the authorities of the system, or the
    /// server's own after you confirm its fingerprint].
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// SHA-256 fingerprint of the server's own authority; `forewarn ca fingerprint` on the server prints it.
    #[arg(long, value_name = "SHA256", conflicts_with = "ca")]
    pub fingerprint: Option<String>,
    /// Token to use [default: read from standard input].
    #[arg(long, env = "FOREWARN_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// List contexts; the current one is marked.
    List {
        /// Output format.
        #[arg(short, long, value_name = "FORMAT", default_value = "table")]
        output: Output,
    },
    /// Select the context that commands use.
    Use {
        /// Name of the context.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Delete a context and its token.
    #[command(visible_alias = "logout")]
    Delete {
        /// Name of the context.
        #[arg(value_name = "NAME")]
        name: String,
    },
}
