//! `forewarn token`: the token in the data directory, and tokens signed with its key.

use std::fs;
use std::path::Path;

use forewarn_access::{AUDIENCE, SIGNING_KEY_FILE, SignIn, Subject, TOKEN_FILE, rotate_token};
use forewarn_config::data_directory;

use crate::args::{IssueArgs, TokenCommand};
use crate::failure::Failure;
use crate::output;

pub fn run(command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Show(args) => show(&data_directory(args.data)?.join(TOKEN_FILE)),
        TokenCommand::Rotate(args) => rotate(&data_directory(args.data)?),
        TokenCommand::Issue(args) => issue(&data_directory(args.data.data.clone())?, &args),
    }
}

fn show(file: &Path) -> Result<(), Failure> {
    let token = fs::read_to_string(file).map_err(|error| {
        Failure::Refused(format!(
            "cannot read {}: {error}; `forewarn serve` creates it on its first start, so set --data to the server's data directory",
            file.display()
        ))
    })?;
    output::print_line(token.trim())
}

/// Signs locally: anyone who can read the key already has full access.
fn issue(directory: &Path, args: &IssueArgs) -> Result<(), Failure> {
    let key = directory.join(SIGNING_KEY_FILE);
    if !key.exists() {
        return Err(Failure::Refused(format!(
            "{} not found: `forewarn serve` creates it on its first start, so set --data to the server's data directory",
            key.display()
        )));
    }
    let role = args.role;
    let name = args.name.as_deref().unwrap_or(role.as_str());
    check_name(name)?;
    let sign_in = SignIn::in_directory(directory).map_err(|error| Failure::Refused(error.to_string()))?;
    let subject = Subject { name: name.into(), client_id: name.into(), object_id: name.into(), role };
    let now = jiff::Timestamp::now().as_second();
    output::print_line(&sign_in.issue(&subject, AUDIENCE, now, args.hours * 3600).token)
}

/// Names appear in history and in logs.
fn check_name(name: &str) -> Result<(), Failure> {
    let good = (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte));
    let expected = "1 to 64 letters, digits, '.', '_', '@' or '-'";
    if good { Ok(()) } else { Err(Failure::Usage(format!("invalid name {name:?}: use {expected}"))) }
}

fn rotate(directory: &Path) -> Result<(), Failure> {
    let file = directory.join(TOKEN_FILE);
    rotate_token(directory).map_err(|error| {
        let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
        Failure::Refused(format!("cannot rotate the token: {error}{cause}; set --data to the server's data directory"))
    })?;
    output::print_stderr(&format!("Wrote a new token to {}", file.display()));
    Ok(())
}
