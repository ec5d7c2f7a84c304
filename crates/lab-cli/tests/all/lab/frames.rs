//! All JSON of the laboratory has the frame of the others: version, machine, runs.

use serde_json::Value;

use super::saved::{host, results};
use super::{json, lab, run};

/// The keys that every machine has.
const MACHINE: [&str; 5] = ["cpu", "cores", "flush", "medium", "kernel"];
/// The keys of a point.
const POINT: [&str; 8] =
    ["experiment", "series", "x", "metric", "unit", "value", "emulated", "setting"];

fn has(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "{key} is missing in {value}");
    }
}

/// The runs, once the frame has been looked at.
fn framed(value: &Value) -> &Vec<Value> {
    assert_eq!(value["perdura"], env!("CARGO_PKG_VERSION"), "{value}");
    has(&value["host"], &MACHINE);
    assert!(value["host"]["cores"].is_u64() && value["host"]["cpu"].is_string(), "{value}");
    value["runs"].as_array().expect("runs")
}

#[test]
fn a_run_and_a_report_have_points_in_their_frame() {
    let directory = tempfile::tempdir().expect("a directory");
    let results = directory.path().join("results.db");
    let measured = json(&lab(&["run", "P1-T3", "--tiny", "--json", "-"], &results));
    let page = directory.path().join("report.html");
    let page = page.to_str().expect("text");
    let reported = json(&lab(&["report", "--out", page, "--json", "-"], &results));
    for json in [&measured, &reported] {
        let points = framed(json);
        assert!(points.len() > 50, "{}", points.len());
        points.iter().for_each(|point| has(point, &POINT));
        assert_eq!(json["lab"], json["runs"]);
        has(json, &["commit", "scale", "seed"]);
    }
    assert_eq!((&measured["host"], &measured["runs"]), (&reported["host"], &reported["runs"]));
    let claims = reported["claims"].as_array().expect("claims");
    for claim in claims {
        has(claim, &["claim", "setting", "paper_value", "our_value", "verdict", "reason"]);
        let known = ["reproduced", "not reproduced", "not testable here"];
        assert!(known.iter().any(|verdict| claim["verdict"] == *verdict), "{claim}");
    }

    let status = json(&lab(&["status", "--tiny", "--json", "-"], &results));
    assert_eq!(status["host"], measured["host"], "the same machine");
    let runs = framed(&status);
    assert_eq!(runs.len(), 1, "{status}");
    has(&runs[0], &["commit", "host", "scale", "seed", "measurements"]);
    assert_eq!((&runs[0]["host"], &runs[0]["measurements"]), (&status["host_key"], &12.into()));
    let studies = status["studies"].as_array().expect("studies");
    for study in studies {
        has(study, &["study", "experiments", "done", "all", "left_seconds"]);
    }
}

#[test]
fn a_comparison_has_both_sides_in_its_frame() {
    let directory = tempfile::tempdir().expect("a directory");
    let a = results(directory.path(), "aaaa", 100.0, 3.0);
    let b = results(directory.path(), "bbbb", 80.0, 3.0);
    let (a, b) = (a.to_str().expect("text"), b.to_str().expect("text"));
    let compared = json(&run(&["lab", "compare", a, b, "--json", "-"]));
    let runs = framed(&compared);
    assert_eq!((runs.len(), &compared["only_one_side"]), (2, &0.into()), "{compared}");
    has(&runs[0], &["experiment", "series", "x", "metric", "unit", "a", "b", "worse_by", "change"]);
    assert_eq!(
        (&runs[0]["metric"], &runs[0]["change"]),
        (&"native throughput".into(), &"worse".into())
    );
    for (side, commit) in [("a", "aaaa"), ("b", "bbbb")] {
        let side = &compared[side];
        has(&side["host"], &MACHINE);
        assert_eq!(side["host"]["cpu"], host().cpu.as_str());
        assert_eq!(
            (&side["commit"], &side["scale"], &side["seed"]),
            (&commit.into(), &"quick".into(), &1.into())
        );
    }
}
