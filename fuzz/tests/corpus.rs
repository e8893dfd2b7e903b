//! Replays the corpora of all fuzz targets.

use std::collections::BTreeSet;
use std::path::Path;

use fuzz::TARGETS;

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_input_of_the_corpora_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names(&corpus), targets, "each target has a corpus, and each corpus a target");
    for target in TARGETS {
        let directory = corpus.join(target.name);
        let inputs = names(&directory);
        assert!(!inputs.is_empty(), "the corpus of {} is empty", target.name);
        for name in inputs {
            println!("{}/{name}", target.name);
            (target.run)(&std::fs::read(directory.join(name)).unwrap());
        }
    }
}
