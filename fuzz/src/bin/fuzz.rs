//! The fuzzer for one target, named by the variable `FUZZ_TARGET`. Start it with `cargo xtask fuzz`.

// The macro defines the entry point that libFuzzer calls.
#![allow(unsafe_code)]
#![no_main]

use std::sync::LazyLock;

use fuzz::{FuzzTarget, TARGETS};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&FuzzTarget> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET is '{name}': start the fuzzer with `cargo xtask fuzz`"))
});

fuzz_target!(|input: &[u8]| (TARGET.run)(input));
