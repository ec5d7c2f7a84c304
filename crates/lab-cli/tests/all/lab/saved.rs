//! Files of results with known numbers, as the laboratory itself would save them.

use std::path::{Path, PathBuf};

use lab::results::{Key, Results};
use lab::{Host, Point};

/// A machine that none is.
pub(crate) fn host() -> Host {
    Host {
        name: "here".into(),
        cpu: "a processor".into(),
        cores: 2,
        flush: "clwb".into(),
        medium: "tmpfs".into(),
        kernel: "6.1".into(),
        memory_bytes: 1 << 30,
    }
}

/// A file of results of a commit: the throughput that was measured three times, and lines that were
/// counted.
pub(crate) fn results(directory: &Path, commit: &str, throughput: f64, stores: f64) -> PathBuf {
    let path = directory.join(format!("{commit}.db"));
    let mut results = Results::open_or_create(&path).expect("made");
    results.note_host(&host()).expect("noted");
    let key = Key {
        study: "ycsb".into(),
        configuration: "{}".into(),
        scale: "quick".into(),
        commit: commit.into(),
        host: host().key(),
        seed: 1,
    };
    let rates = [throughput * 0.99, throughput, throughput * 1.01];
    let points = [
        Point::of("P1-F5", "nvm-inp", "balanced").panel("low").measured(
            "native throughput",
            "txn/s",
            &rates,
        ),
        Point::of("P1-F10", "nvm-inp", "balanced").panel("low").counted(
            "nvm stores",
            "per txn",
            stores,
        ),
    ];
    results.save(&key, "", 1.0, &points).expect("saved");
    path
}
