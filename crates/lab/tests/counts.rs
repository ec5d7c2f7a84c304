//! The same seed gives the same counts, bit for bit. One test in a process of its own: emulated runs
//! fork it.

use std::path::Path;

use lab::bench::{Bench, Contestant, Killed, Launcher, Reopened};
use lab::experiments::named;
use lab::results::{Results, Selection};
use lab::run::{Identity, Plan};
use lab::timing::Calibrations;
use lab::{Host, Point, Scale, Sizes};

struct Nobody;

impl Launcher for Nobody {
    fn kill(&self, _: Contestant, _: &Killed, _: &Path) -> Result<Reopened, String> {
        Err("nobody is killed here".into())
    }
}

fn host() -> Host {
    Host {
        name: "here".into(),
        cpu: "c".into(),
        cores: 2,
        flush: "clwb".into(),
        medium: "tmpfs".into(),
        kernel: "6.1".into(),
        memory_bytes: 1 << 30,
    }
}

/// The counts of all studies that count, of a run from nothing.
fn counts(seed: u64) -> Vec<Point> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut results = Results::open_or_create(&directory.path().join("results.db")).expect("made");
    let ids = ["P1-F9", "P1-F11", "P1-F14", "P1-T3"].map(str::to_owned);
    let experiments = named(&ids).expect("known");
    let identity = Identity { commit: "c".into(), host: host(), seed };
    let plan = Plan::new(&results, &experiments, Sizes::new(Scale::Tiny, 0), identity);
    let bench = Bench {
        directory: directory.path(),
        seed,
        launcher: &Nobody,
        watch: &(),
        room: &|| None,
        calibrations: Calibrations::default(),
    };
    plan.expect("planned").run(&mut results, &bench, &()).expect("measured");
    let scale = "tiny".into();
    let selection = Selection { commit: "c".into(), host: host().key(), scale, seed };
    let points = results.points(&selection).expect("read");
    points.into_iter().filter(|point| point.exact).collect()
}

#[test]
fn the_same_seed_gives_the_same_counts_and_another_one_others() {
    let (one, two, other) = (counts(7), counts(7), counts(8));
    assert!(one.len() > 400, "{}", one.len());
    for (one, two) in one.iter().zip(&two) {
        assert_eq!(one.value.to_bits(), two.value.to_bits(), "{one:?} {two:?}");
    }
    assert_eq!(one, two);
    assert_ne!(one, other);
    let some = |metric: &str| one.iter().any(|point| point.metric == metric && point.value > 0.0);
    for metric in ["nvm loads", "nvm stores", "flushed lines", "fences", "footprint", "measured"] {
        assert!(some(metric), "{metric}");
    }
}
