//! `cargo xtask fuzz [TARGET] [SECONDS]`: runs all fuzz targets or one of them, each for a number of seconds.
//!
//! The coverage that libFuzzer needs comes from compiler flags that stable Rust has, so neither nightly nor cargo-fuzz is
//! required; a C++ compiler is. New inputs are kept in `target/fuzz/corpus`. An input that fails is written to
//! `target/fuzz/failures`: fix the bug, and add the input to `fuzz/corpus/TARGET`, where the ordinary tests replay it.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::sh;

/// Time per target without SECONDS. Enough to find what a change has broken, not to prove anything.
const SECONDS_DEFAULT: u64 = 60;

/// The longest input. Bodies can be larger, but what breaks parsers is small.
const INPUT_BYTES_MAX: u64 = 64 * 1024;

/// The time for one input. A parser that takes longer is a way to block the server.
const INPUT_SECONDS_MAX: u64 = 10;

/// The instrumentation that cargo-fuzz would ask for, without sanitizers, which need nightly: our code is safe Rust.
const COVERAGE: &str = "--cfg fuzzing -Ccodegen-units=1 -Cdebug-assertions -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

pub fn run(arguments: &[&str]) -> Result<()> {
    let all = targets()?;
    let seconds = |text: &str| text.parse().with_context(|| format!("'{text}' is not a number of seconds"));
    let (selected, seconds) = match arguments {
        [] => (all, SECONDS_DEFAULT),
        [target] => (select(all, target)?, SECONDS_DEFAULT),
        [target, time] => (select(all, target)?, seconds(time)?),
        _ => bail!("usage: cargo xtask fuzz [TARGET|all] [SECONDS]"),
    };
    let program = build()?;
    for target in selected {
        fuzz(&program, &target, seconds)?;
    }
    Ok(())
}

/// The names of the targets: the directories with corpora. A test checks that they agree with the code.
fn targets() -> Result<Vec<String>> {
    let entries = std::fs::read_dir(sh::root().join("fuzz/corpus"))?;
    let mut names =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn select(all: Vec<String>, name: &str) -> Result<Vec<String>> {
    if name == "all" {
        return Ok(all);
    }
    ensure!(all.iter().any(|known| known == name), "unknown target '{name}': use one of {}, or all", all.join(", "));
    Ok(vec![name.to_owned()])
}

/// Builds the fuzzer in a directory of its own, because every crate is compiled with other flags.
fn build() -> Result<PathBuf> {
    let directory = sh::target().join("fuzz");
    let text = directory.to_string_lossy().into_owned();
    // With --target, the flags do not apply to build scripts.
    let host = host()?;
    let arguments = ["build", "--release", "--package", "fuzz", "--features", "libfuzzer", "--target", &host];
    sh::cargo(&arguments).args(&["--target-dir", &text]).env("RUSTFLAGS", COVERAGE).run()?;
    Ok(directory.join(host).join("release/fuzz"))
}

fn host() -> Result<String> {
    let version = sh::program("rustc").args(&["-vV"]).read()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}

fn fuzz(program: &std::path::Path, target: &str, seconds: u64) -> Result<()> {
    let (found, failures) = (sh::target().join("fuzz/corpus").join(target), sh::target().join("fuzz/failures"));
    std::fs::create_dir_all(&found)?;
    std::fs::create_dir_all(&failures)?;
    let seeds = sh::root().join("fuzz/corpus").join(target);
    let limits = [
        format!("-max_total_time={seconds}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-artifact_prefix={}/{target}-", failures.display()),
        "-print_final_stats=1".into(),
        "-verbosity=1".into(),
    ];
    let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
    let directories = [found.to_string_lossy(), seeds.to_string_lossy()];
    let mut fuzzer =
        sh::program(&program.to_string_lossy()).args(&limits).args(&directories.each_ref().map(AsRef::as_ref));
    let result = fuzzer.env("FUZZ_TARGET", target).run();
    result.with_context(|| format!("{target} failed; the input is in {}", failures.display()))
}
