//! `forewarn events watch`: a live view where a person looks, lines elsewhere.

mod lines;

use crate::args::Output;
use crate::client::Api;
use crate::failure::Failure;

pub fn run(api: &Api, _lines: bool, output: Output) -> Result<(), Failure> {
    lines::run(api, output)
}
