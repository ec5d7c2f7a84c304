//! Everything that Perdura's own targets need is measured, at the smallest sizes: every series,
//! every latency, every size of the axis. Emulated runs fork this process.

use lab::{Point, X};

use crate::common::{alone, measured};

#[test]
fn all_that_the_targets_are_about_is_measured() {
    let _alone = alone();
    let points = measured(&["PEERS-MIX", "PEERS-CHURN", "PEERS-THREADS"], 3);
    let of = |experiment: &str, metric: &str| -> Vec<&Point> {
        let wanted = |point: &&Point| point.experiment == experiment && point.metric == metric;
        points.iter().filter(wanted).collect()
    };
    let series = |points: &[&Point]| -> Vec<String> {
        let mut names: Vec<String> = points.iter().map(|point| point.series.clone()).collect();
        names.sort();
        names.dedup();
        names
    };

    // The 99th percentile of the time to durability, for every contestant and mixture.
    let throughput = of("PEERS-MIX", "throughput");
    let p99 = of("PEERS-MIX", "p99 to durability");
    assert!(series(&p99).len() >= 15, "{:?}", series(&p99));
    assert_eq!(p99.len(), throughput.len());
    for point in &p99 {
        assert!(point.value > 0.0 && point.unit == "us", "{point:?}");
        assert!(!point.exact && point.emulated.is_none(), "{point:?}");
    }

    let churned = of("PEERS-MIX", "throughput, after churn");
    assert_eq!(
        series(&churned),
        [
            "btreemap",
            "lmdb",
            "nvm-inp",
            "nvm-inp inline",
            "nvm-inp inline statements",
            "nvm-inp process",
            "nvm-inp process inline statements",
            "nvm-inp statements",
        ]
    );
    assert!(churned.iter().all(|point| point.x == X::from("read-only") && point.value > 0.0));

    let growth = of("PEERS-GROWTH", "time for a level or a line");
    assert_eq!((series(&growth), growth.len()), (vec!["nvm-inp".to_owned()], 4));
    for point in growth {
        let at = |metric| {
            let found = of("PEERS-GROWTH", metric);
            let same = |other: &&&Point| {
                (&other.series, &other.panel, &other.x) == (&point.series, &point.panel, &point.x)
            };
            found.iter().find(same).expect("the point").value
        };
        let parts = at("levels of the index") + at("lines fetched");
        let expected = at("time of a transaction") * 1e3 / parts;
        assert!((point.value / expected - 1.0).abs() < 1e-9, "{point:?}: {expected}");
    }

    let stored = of("PEERS-CHURN", "stored");
    let operations: Vec<String> = stored.iter().map(|point| point.x.to_string()).collect();
    assert_eq!(operations, ["0", "200", "400", "600", "800", "1000"]);
    assert!(stored.iter().all(|point| point.value > 0.0));

    let scaling = of("PEERS-THREADS", "scaling");
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= 2) {
        assert_eq!((series(&scaling).len(), scaling.len()), (2, 8), "{scaling:?}");
    } else {
        assert!(scaling.is_empty(), "one core has nothing to share");
    }
}
