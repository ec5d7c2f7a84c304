use super::*;

fn point(experiment: &str, series: &str, panel: &str, x: impl Into<X>, value: f64) -> Point {
    Point::of(experiment, series, x).panel(panel).measured("throughput", "txn/s", &[value])
}

fn claim(text: &str) -> Claim {
    let text = format!("[[claim]]\nid='c'\nexperiment='E'\nsection='1'\ntext='t'\n{text}");
    toml::from_str::<File>(&text).expect("a claim").claim.remove(0)
}

fn verdict(claim: &Claim, points: &[Point]) -> Verdict {
    evaluate(claim, points, None).verdict
}

#[test]
fn every_claim_can_be_read_and_asks_for_one_thing() {
    let papers = claims().expect("read");
    assert!(papers.len() >= 40, "{}", papers.len());
    for claim in &papers {
        assert!(claim.id.starts_with(&claim.experiment), "{}", claim.id);
    }
    let p2 = read(P2).expect("read");
    assert!(p2.iter().all(|claim| claim.id.starts_with(&claim.experiment) && claim.by.is_some()));
    let all: Vec<Claim> = papers.into_iter().chain(p2).chain(targets().expect("read")).collect();
    let mut ids: Vec<&str> = all.iter().map(|claim| claim.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all.len(), "each has a name of its own");
    for claim in &all {
        let asks = [
            claim.paper.is_some(),
            claim.loss.is_some(),
            claim.most,
            claim.below.is_some(),
            claim.at_least.is_some(),
            claim.at_most.is_some(),
            claim.zero,
            claim.greater,
            !claim.best.is_empty(),
        ];
        assert_eq!(asks.iter().filter(|asked| **asked).count(), 1, "{}", claim.id);
        assert_eq!(claim.greater, claim.than.is_some(), "{}", claim.id);
    }
}

#[test]
fn ratio_needs_the_same_side_and_a_quarter_of_the_range() {
    let claim = claim(
        "metric='throughput'\npanel=['low']\nx=['a']\n\
         pairs=[[{series='fast'},{series='slow'}]]\npaper=[1.2, 2.0]",
    );
    for (ratio, expected) in [
        (1.5, Verdict::Reproduced),
        (2.49, Verdict::Reproduced),
        (2.51, Verdict::NotReproduced),
        (1.01, Verdict::Reproduced),
        // Within a quarter of 1.2, but slower: the other direction.
        (0.95, Verdict::NotReproduced),
    ] {
        let points = [point("E", "fast", "low", "a", ratio), point("E", "slow", "low", "a", 1.0)];
        assert_eq!(verdict(&claim, &points), expected, "{ratio}");
    }
}

#[test]
fn what_was_emulated_has_to_hold_at_both_ends() {
    let claim = claim(
        "metric='throughput'\npanel=['low']\nx=['a']\n\
         pairs=[[{series='fast'},{series='slow'}]]\npaper=[2.0, 2.0]",
    );
    let emulated = |series: &str, value, low, high| {
        let place = Point::of("E", series, "a").panel("low");
        place.modelled("throughput", "txn/s", (value, low, high), "2x")
    };
    let slow = emulated("slow", 1.0, 1.0, 1.0);
    let sure = [emulated("fast", 2.0, 1.8, 2.2), slow.clone()];
    assert_eq!(verdict(&claim, &sure), Verdict::Reproduced);
    let tested = evaluate(&claim, &[emulated("fast", 2.0, 1.0, 2.2), slow], None);
    assert_eq!(tested.verdict, Verdict::NotReproduced);
    assert!(tested.reason.contains("low end"), "{}", tested.reason);
    assert!(
        tested.emulated && tested.our_value.contains("[1.00x .. 2.20x]"),
        "{}",
        tested.our_value
    );
}

#[test]
fn without_results_a_claim_cannot_be_tested() {
    let claim = claim("metric='throughput'\nseries=['a','b']\nx=[1]\nbelow=5");
    assert_eq!(verdict(&claim, &[]), Verdict::NotTestable);
    let tested = evaluate(&claim, &[point("E", "a", "", 1_u64, 1.0)], None);
    assert_eq!(tested.verdict, Verdict::NotTestable);
    assert!(tested.reason.contains("lack E b 1"), "{}", tested.reason);
    let both = [point("E", "a", "", 1_u64, 1.0), point("E", "b", "", 1_u64, 6.0)];
    let tested = evaluate(&claim, &both, None);
    assert_eq!((tested.verdict, tested.our_value.as_str()), (Verdict::NotReproduced, "1.00-6.00"));
}

#[test]
fn the_best_is_looked_for_over_all_plots() {
    let claim = claim("metric='throughput'\nseries=['t']\nbest=[256,512,1024]");
    let points = |small: f64, middle: f64| {
        ["reads", "writes"].map(|panel| {
            let scale = if panel == "reads" { 10.0 } else { 1.0 };
            [
                point("E", "t", panel, 64_u64, small * scale),
                point("E", "t", panel, 512_u64, middle * scale),
            ]
        })
    };
    assert_eq!(verdict(&claim, points(1.0, 2.0).as_flattened()), Verdict::Reproduced);
    let tested = evaluate(&claim, points(2.0, 1.0).as_flattened(), None);
    assert_eq!((tested.verdict, tested.our_value.as_str()), (Verdict::NotReproduced, "t 64"));
    assert!(tested.reason.contains("t 64, the mean over the plots = 6.32"), "{}", tested.reason);
}

#[test]
fn what_is_made_of_several_values_is_not_called_one_of_them() {
    let of = |test: &str| claim(&format!("metric='throughput'\nof='mean'\n{test}"));
    let points = [point("E", "t", "reads", 1_u64, 2.0), point("E", "t", "reads", 2_u64, 8.0)];
    let reason = evaluate(&of("x=[1,2]\nbelow=3"), &points, None).reason;
    assert!(reason.contains("the mean of all = 4.00"), "{reason}");
    let reason = evaluate(&of("x=[1]\ngreater=true\nthan={x=[2]}"), &points, None).reason;
    assert!(reason.contains("not so: 2.00 against 8.00"), "{reason}");
}

#[test]
fn a_series_need_not_be_everywhere_on_the_axis() {
    let claim = claim("metric='throughput'\nseries=['large']\nbest=[256]");
    let points = [
        point("E", "small", "reads", 64_u64, 9.0),
        point("E", "large", "reads", 128_u64, 1.0),
        point("E", "large", "reads", 256_u64, 2.0),
    ];
    let tested = evaluate(&claim, &points, None);
    assert_eq!((tested.verdict, tested.our_value.as_str()), (Verdict::Reproduced, "large 256"));
}

#[test]
fn a_reason_has_the_parts_of_what_was_measured() {
    let claim = Claim {
        experiment: "P1-F13".into(),
        ..claim("metric='throughput'\nx=['storage']\nbelow=5")
    };
    let parts = [
        point("P1-F13", "a", "reads", "storage", 60.0),
        point("P1-F13", "a", "reads", "index", 40.0),
    ];
    let tested = evaluate(&claim, &parts, None);
    assert!(tested.reason.contains("storage 60.0, index 40.0"), "{}", tested.reason);
}

/// Points of a run: a count, and its throughput.
fn run(experiment: &str, series: &str, panel: &str, x: impl Into<X>, loads: f64) -> [Point; 2] {
    let place = Point::of(experiment, series, x).panel(panel);
    [
        place.measured("throughput", "txn/s", &[1000.0 / loads]),
        place.counted("nvm loads", "per txn", loads),
    ]
}

#[test]
fn the_reason_of_a_best_size_has_counts_of_both_sizes() {
    let question = "metric='throughput'\nseries=['nvm-inp']\nbest=[256,512,1024]";
    let claim = Claim { experiment: "P1-F15".into(), ..claim(question) };
    let mut points = Vec::new();
    for (panel, more) in [("read-only", 0.0), ("write-heavy", 2.0)] {
        for (bytes, loads) in [(64_u64, 4.0), (512, 7.0)] {
            points.extend(run("P1-F15", "nvm-inp", panel, bytes, loads + more));
        }
    }
    let tested = evaluate(&claim, &points, None);
    assert_eq!(tested.verdict, Verdict::NotReproduced);
    let counts =
        "Counted for a transaction: nvm-inp 64: 5.00 nvm loads; nvm-inp 512: 8.00 nvm loads";
    assert!(tested.reason.contains(counts), "{}", tested.reason);
}

#[test]
fn a_reason_has_the_counts_of_its_own_run_and_of_no_other() {
    let question = "metric='throughput'\nseries=['nvm-cow']\npanel=['write-heavy']\n\
                    pairs=[[{x=512},{x=4096}]]\nmost=true";
    let nodes = Claim { experiment: "P1-F15".into(), ..claim(question) };
    let mut points = Vec::new();
    points.extend(run("P1-F15", "nvm-cow", "write-heavy", 64_u64, 1.0));
    points.extend(run("P1-F15", "nvm-cow", "write-heavy", 512_u64, 9.0));
    points.extend(run("P1-F15", "nvm-cow", "write-heavy", 4096_u64, 5.0));
    let tested = evaluate(&nodes, &points, None);
    let counts = "nvm-cow 512: 9.00 nvm loads; nvm-cow 4096: 5.00 nvm loads";
    assert!(tested.reason.contains(counts), "{}", tested.reason);

    // The sync primitive was emulated with the runs of YCSB at low skew.
    let question = "metric='throughput'\nseries=['nvm-cow']\npanel=['write-heavy']\n\
                    pairs=[[{x=10},{x=10000}]]\nmost=true";
    let sync = Claim { experiment: "P1-F16".into(), ..claim(question) };
    for sync_ns in [10_u64, 10_000] {
        points.push(point("P1-F16", "nvm-cow", "write-heavy", sync_ns, 1.0));
    }
    assert!(!evaluate(&sync, &points, None).reason.contains("Counted"), "nothing was counted yet");
    points.extend(run("P1-F9", "nvm-cow", "low", "write-heavy", 6.0));
    points.extend(run("P1-F9", "nvm-cow", "high", "write-heavy", 3.0));
    let reason = evaluate(&sync, &points, None).reason;
    assert!(reason.ends_with("Counted for a transaction: nvm-cow: 6.00 nvm loads"), "{reason}");
}

#[test]
fn growth_is_held_against_the_smallest_size() {
    let all = targets().expect("read");
    let growth = all.iter().find(|target| target.id == "growth").expect("there");
    let points = |at_most: f64| -> Vec<Point> {
        let mut points = Vec::new();
        for panel in ["read-only", "read-heavy", "balanced", "write-heavy"] {
            for (tuples, ns) in [(10_000_u64, 90.0), (200_000, 70.0), (1_000_000, at_most)] {
                let place = Point::of("PEERS-GROWTH", "nvm-inp", tuples).panel(panel);
                points.push(place.counted("lines fetched", "per txn", 20.5));
                points.push(place.measured("time for a level or a line", "ns", &[ns]));
            }
        }
        points
    };
    assert_eq!(verdict(growth, &points(80.0)), Verdict::Reproduced);
    let tested = evaluate(growth, &points(99.0), None);
    assert_eq!(tested.verdict, Verdict::NotReproduced);
    assert!(tested.reason.contains("1000000 / 10000"), "{}", tested.reason);
    assert!(tested.reason.contains("20.5 lines fetched"), "{}", tested.reason);
    // Beyond the caches it is held against the next smaller size.
    let further = all.iter().find(|target| target.id == "growth-1M").expect("there");
    assert_eq!(verdict(further, &points(70.0)), Verdict::Reproduced);
    assert_eq!(verdict(further, &points(71.0)), Verdict::NotReproduced);
    let unmeasured = evaluate(growth, &[], None);
    assert_eq!(unmeasured.verdict, Verdict::NotTestable);
}

#[test]
fn churn_may_add_two_percent_to_what_the_warm_up_left() {
    let all = targets().expect("read");
    let churn = all.iter().find(|target| target.id == "churn").expect("there");
    let points = |last: f64| -> Vec<Point> {
        let stored = [(0_u64, 100.0), (4_000_000, 101.0), (8_000_000, last)];
        let point = |(operations, bytes): (u64, f64)| {
            let place = Point::of("PEERS-CHURN", "nvm-inp", operations);
            place.measured("stored", "B", &[bytes])
        };
        stored.into_iter().map(point).collect()
    };
    assert_eq!(verdict(churn, &points(102.0)), Verdict::Reproduced);
    assert_eq!(verdict(churn, &points(102.5)), Verdict::NotReproduced);
}

#[test]
fn the_documentation_names_every_claim() {
    let text = include_str!("../../../../docs/paper/claims.md");
    for claim in claims().expect("read") {
        assert!(text.contains(&format!("`{}`", claim.id)), "{}", claim.id);
    }
}

#[test]
fn up_to_is_about_the_extreme_alone() {
    let claim = claim(
        "metric='throughput'\nx=['a']\npairs=[[{series='a'},{series='b'}],[{series='b'},{series='a'}]]\n\
         of='smallest'\npaper=[0.5, 0.5]",
    );
    let points = [point("E", "a", "", "a", 1.0), point("E", "b", "", "a", 2.0)];
    assert_eq!(verdict(&claim, &points), Verdict::Reproduced);
}

#[test]
fn greater_compares_what_belongs_together() {
    let claim = claim(
        "metric='throughput'\nseries=['a','b']\npanel=['writes']\npairs=[[{x=1},{x=2}]]\n\
         greater=true\nthan={panel=['reads']}\nmatched='series'",
    );
    let mut points = Vec::new();
    for (series, reads, writes) in [("a", 2.0, 3.0), ("b", 5.0, 6.0)] {
        for (panel, drop) in [("reads", reads), ("writes", writes)] {
            points.push(point("E", series, panel, 1_u64, drop));
            points.push(point("E", series, panel, 2_u64, 1.0));
        }
    }
    // The drop of `a` on writes is below that of `b` on reads, with which it is not compared.
    assert_eq!(verdict(&claim, &points), Verdict::Reproduced);
    points[2].value = 1.5;
    assert_eq!(verdict(&claim, &points), Verdict::NotReproduced);
}

#[test]
fn the_authors_points_are_held_against_their_own_claim() {
    let claim = claim(
        "metric='throughput'\nx=['a']\npairs=[[{series='fast'},{series='slow'}]]\npaper=[2.0, 2.0]",
    );
    let ours = [point("E", "fast", "", "a", 2.0), point("E", "slow", "", "a", 1.0)];
    let theirs = [point("E", "fast", "", "a", 1.2), point("E", "slow", "", "a", 1.0)];
    let tested = evaluate(&claim, &ours, Some(&theirs));
    assert_eq!(tested.verdict, Verdict::Reproduced);
    assert_eq!(tested.authors_value.as_deref(), Some("1.20x"));
    assert_eq!(tested.authors_verdict, Some(Verdict::NotReproduced));
    // Ours may be a quarter off, theirs what rounding makes of it.
    for (value, ours, authors) in [
        (1.6, Verdict::Reproduced, Verdict::NotReproduced),
        (1.92, Verdict::Reproduced, Verdict::Reproduced),
        (2.09, Verdict::Reproduced, Verdict::Reproduced),
        (2.2, Verdict::Reproduced, Verdict::NotReproduced),
    ] {
        let points = [point("E", "fast", "", "a", value), point("E", "slow", "", "a", 1.0)];
        let tested = evaluate(&claim, &points, Some(&points));
        assert_eq!((tested.verdict, tested.authors_verdict), (ours, Some(authors)), "{value}");
    }
}

#[test]
fn a_verdict_that_depends_on_the_run_says_so() {
    let timed = |series: &str, all: &[f64]| {
        Point::of("E", series, "a").measured("throughput", "txn/s", all)
    };
    let slow = timed("slow", &[1.0, 1.0, 1.25]);
    let claim = claim(
        "metric='throughput'\nx=['a']\npairs=[[{series='fast'},{series='slow'}]]\nat_least=2.0",
    );
    let sure = evaluate(&claim, &[timed("fast", &[3.0, 3.0, 4.0]), slow.clone()], None);
    assert_eq!((sure.verdict, sure.within_spread), (Verdict::Reproduced, false));
    // Slowest over fastest, fastest over slowest.
    assert_eq!(sure.spread.as_deref(), Some("2.40-4.00x"));
    let lucky = evaluate(&claim, &[timed("fast", &[1.5, 2.1, 2.2]), slow.clone()], None);
    assert_eq!((lucky.verdict, lucky.within_spread), (Verdict::Reproduced, true));
    assert!(lucky.reason.contains("1.20-2.20x"), "{}", lucky.reason);
    let unlucky = evaluate(&claim, &[timed("fast", &[1.5, 1.9, 2.2]), slow], None);
    assert_eq!((unlucky.verdict, unlucky.within_spread), (Verdict::NotReproduced, true));
    let counted = [
        Point::of("E", "fast", "a").counted("throughput", "", 3.0),
        Point::of("E", "slow", "a").counted("throughput", "", 1.0),
    ];
    let exact = evaluate(&claim, &counted, None);
    assert_eq!((exact.spread, exact.within_spread), (None, false));
}

#[test]
fn half_an_axis_is_no_axis() {
    let best = claim("metric='throughput'\nseries=['t']\nbest=[256,512,1024]");
    let named = claim("metric='throughput'\nseries=['t']\npanel=['reads']\nx=[64,512]\nbelow=5.0");
    let points = [point("E", "t", "reads", 64_u64, 1.0), point("E", "t", "reads", 512_u64, 2.0)];
    let claims = [best, named];
    let verdicts = |missing: &[Missing]| {
        let tested = test(&claims, &points, missing, None, Setting::Ours);
        (tested[0].verdict, tested[1].verdict, tested[0].reason.clone())
    };
    let of = |experiment, series: Option<&str>| Missing {
        setting: Setting::Ours,
        experiments: vec![experiment],
        all: 9,
        cells: vec![("t 4096".into(), series.map(str::to_owned))],
    };
    assert_eq!(verdicts(&[]).0, Verdict::Reproduced);
    // A gap in another experiment, or of another engine.
    assert_eq!(verdicts(&[of("F", Some("t")), of("E", Some("u"))]).0, Verdict::Reproduced);
    for series in [Some("t"), None] {
        let (best, named, why) = verdicts(&[of("E", series)]);
        // The claim's points are there, or they are missing.
        assert_eq!((best, named), (Verdict::NotTestable, Verdict::Reproduced));
        assert!(why.contains("1 of 9") && why.contains("t 4096"), "{why}");
    }
}

#[test]
fn each_setting_is_tested_with_its_own_points() {
    let claims = claims().expect("read");
    let engines = ["inp", "cow", "log", "nvm-inp", "nvm-cow", "nvm-log"];
    let written = |ratio: f64| -> Vec<Point> {
        let point = |engine: &str| {
            let place = Point::of("P1-T3", engine, "insert");
            place.measured("measured over model", "x", &[ratio])
        };
        engines.into_iter().map(point).collect()
    };
    let insert = |points: &[Point], missing: &[Missing], setting| {
        let tested = test(&claims, points, missing, None, setting);
        assert!(tested.iter().all(|one| one.setting == setting));
        let found = tested.into_iter().find(|one| one.claim == "P1-T3-insert");
        found.expect("there").verdict
    };
    assert_eq!(insert(&written(1.0), &[], Setting::Ours), Verdict::Reproduced);
    assert_eq!(insert(&written(3.0), &[], Setting::Paper), Verdict::NotReproduced);
    // The claim is about all plots: what is missing in one setting is not missing in the other.
    let missing = [Missing {
        setting: Setting::Paper,
        experiments: vec!["P1-T3"],
        all: 6,
        cells: vec![("bytes written, log".into(), Some("log".into()))],
    }];
    assert!(missing[0].text().starts_with("P1-T3 (the paper's setting): 1 of 6"));
    assert_eq!(insert(&written(1.0), &missing, Setting::Ours), Verdict::Reproduced);
    assert_eq!(insert(&written(1.0), &missing, Setting::Paper), Verdict::NotTestable);
}

#[test]
fn papers_setting_does_not_test_its_own_source_figure() {
    let claims = claims().expect("read");
    let place =
        |interface: &str, panel: &str, x: u64| Point::of("P1-F1", interface, x).panel(panel);
    let mut points = Vec::new();
    for panel in ["sequential", "random"] {
        for chunk in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
            for (interface, rate) in [("allocator", 11.0), ("filesystem", 1.0)] {
                points.push(place(interface, panel, chunk).measured("bandwidth", "B/s", &[rate]));
            }
        }
    }
    let of = |setting| {
        let tested = test(&claims, &points, &[], None, setting);
        tested.into_iter().find(|one| one.claim == "P1-F1-bandwidth").expect("there")
    };
    assert_eq!(of(Setting::Ours).verdict, Verdict::Reproduced);
    let papers = of(Setting::Paper);
    assert_eq!((papers.verdict, papers.our_value.as_str()), (Verdict::NotTestable, "-"));
    assert!(papers.reason.contains("what was put in"), "{}", papers.reason);
}

#[test]
fn a_target_may_be_met_exactly() {
    let ratio = "metric='throughput'\nx=['a']\npairs=[[{series='a'},{series='b'}]]\n";
    let points = [point("E", "a", "", "a", 4.0), point("E", "b", "", "a", 2.0)];
    for (question, expected) in [
        ("at_least=2.0", Verdict::Reproduced),
        ("at_least=2.1", Verdict::NotReproduced),
        ("at_most=2.0", Verdict::Reproduced),
        ("at_most=1.9", Verdict::NotReproduced),
    ] {
        assert_eq!(verdict(&claim(&format!("{ratio}{question}")), &points), expected, "{question}");
    }
}

#[test]
fn a_loss_is_tested_as_a_loss() {
    let question =
        "metric='throughput'\nx=['a']\npairs=[[{series='a'},{series='b'}]]\nloss=[0.16, 0.16]";
    let claim = claim(question);
    assert_eq!(claim.paper_value(), "-16%");
    // A quarter of 16% is 4%.
    for (left, expected) in [
        (0.81, Verdict::Reproduced),
        (0.87, Verdict::Reproduced),
        (0.79, Verdict::NotReproduced),
        (0.89, Verdict::NotReproduced),
        (1.2, Verdict::NotReproduced),
    ] {
        let points = [point("E", "a", "", "a", left), point("E", "b", "", "a", 1.0)];
        assert_eq!(verdict(&claim, &points), expected, "{left}");
    }
}

/// The studies of P2 take the ranges of the paper from one place, which names the source of each.
#[test]
fn the_setting_of_p2_can_be_read() {
    let text = include_str!("../../claims/p2-setting.toml");
    let setting: toml::Table = text.parse().expect("it can be read");
    for part in ["machine", "memory", "devices", "sizes", "prices", "projection"] {
        assert!(setting[part].as_table().is_some_and(|part| !part.is_empty()), "{part}");
    }
    assert_eq!(setting["projection"]["most_error"].as_float(), Some(0.15));
}
