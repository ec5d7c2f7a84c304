//! The authors' own published points, if the user has them.
//!
//! The file is not part of this project. It is a CSV with the columns
//! `figure,workload,engine,mix,skew,latency_ns,x,metric,unit,value`; its rows become points like
//! ours, so that plots and claims treat both alike.

use std::path::Path;

use crate::error::LabError;
use crate::point::{Point, X};

const HEAD: [&str; 10] =
    ["figure", "workload", "engine", "mix", "skew", "latency_ns", "x", "metric", "unit", "value"];
/// Transactions of the authors' YCSB: their loads and stores are totals.
const PAPER_TXNS: f64 = 8e6;

/// Reads the authors' points.
///
/// # Errors
/// The file cannot be read, or a line is not what it should be.
pub fn read(path: &Path) -> Result<Vec<Point>, LabError> {
    let text = std::fs::read_to_string(path).map_err(|error| LabError::io(path, error))?;
    parse(&text).map_err(|what| LabError::Input { path: path.to_owned(), what })
}

fn parse(text: &str) -> Result<Vec<Point>, String> {
    // Some editors put a byte order mark before a text.
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
    if head != HEAD {
        return Err(format!("its first line has to be `{}`", HEAD.join(",")));
    }
    let mut points = Vec::new();
    for (number, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let wrong = |what: &str| format!("line {}: {what}: {line}", number + 2);
        let Ok(fields) = <[&str; 10]>::try_from(fields) else {
            return Err(wrong("it has to have ten fields"));
        };
        let value: f64 = fields[9].parse().map_err(|_| wrong("the value is no number"))?;
        points.extend(point(&fields, value).map_err(|what| wrong(&what))?);
    }
    points.extend(totals(&points));
    Ok(points)
}

/// The row as one of our points; none for what we do not show.
fn point(fields: &[&str; 10], value: f64) -> Result<Option<Point>, String> {
    let [figure, _, engine, mix, skew, latency, x, ..] = *fields;
    let number = |text: &str| -> Result<X, String> {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        digits.parse().map(X::Number).map_err(|_| format!("`{text}` is no number"))
    };
    let low = skew == "low";
    let (experiment, panel, x, metric, unit, value) = match figure {
        "1" => ("P1-F1", skew, number(x)?, "bandwidth", "B/s", value),
        "5-7" => {
            let experiment = match latency {
                "160" => "P1-F5",
                "320" => "P1-F6",
                "1280" => "P1-F7",
                _ => return Err("the latency is none of the paper's".into()),
            };
            (experiment, skew, mix.into(), "throughput", "txn/s", value)
        }
        "8" => ("P1-F8", "", number(latency)?, "throughput", "txn/s", value),
        "9" => ("P1-F9", skew, mix.into(), "nvm loads", "per txn", value / PAPER_TXNS),
        "10" => ("P1-F10", skew, mix.into(), "nvm stores", "per txn", value / PAPER_TXNS),
        "11" => {
            let metric = if fields[7] == "nvm_loads" { "nvm loads" } else { "nvm stores" };
            ("P1-F11", "", "tpcc".into(), metric, "count", value)
        }
        "12a" => ("P1-F12", "ycsb", number(x)?, "recovery", "ms", value),
        "12b" => ("P1-F12", "tpcc", number(x)?, "recovery", "ms", value),
        "13" => ("P1-F13", mix, x.into(), "time share", "%", value),
        "14a" => ("P1-F14", "ycsb", x.into(), "footprint", "B", value * 1e9),
        "14b" => ("P1-F14", "tpcc", x.into(), "footprint", "B", value * 1e9),
        "15" if low => ("P1-F15", mix, number(x)?, "throughput", "txn/s", value),
        "16" if low => ("P1-F16", mix, number(x)?, "throughput", "txn/s", value),
        "15" | "16" => return Ok(None),
        _ => return Err(format!("figure {figure} is none of the paper's")),
    };
    let place = Point::of(experiment, engine, x).panel(panel);
    Ok(Some(place.measured(metric, unit, &[value])))
}

/// The sums that the paper's stacked bars show.
fn totals(points: &[Point]) -> Vec<Point> {
    let mut totals: Vec<Point> = Vec::new();
    for point in points.iter().filter(|point| point.experiment == "P1-F14") {
        let same = |total: &&mut Point| total.panel == point.panel && total.series == point.series;
        match totals.iter_mut().find(same) {
            Some(total) => {
                let value = total.value + point.value;
                (total.value, total.low, total.high) = (value, value, value);
            }
            None => totals.push(Point { x: "total".into(), ..point.clone() }),
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(rows: &[&str]) -> String {
        let mut text = HEAD.join(",");
        for row in rows {
            text += "\n";
            text += row;
        }
        text
    }

    #[test]
    fn rows_become_points_like_ours() {
        let text = file(&[
            "1,micro,allocator,durable write,random,,16 B,bandwidth,B/s,5.5",
            "5-7,ycsb,cow,balanced,high,1280,,throughput,txn/s,7.0",
            "14a,ycsb,inp,balanced,low,,table,footprint,GB,2.0",
            "14a,ycsb,inp,balanced,low,,log,footprint,GB,0.5",
            "15,ycsb,nvm-inp,balanced,high,320,node 512 B,throughput,txn/s,1.0",
            "16,ycsb,nvm-inp,balanced,low,320,sync 100 ns,throughput,txn/s,1.0",
        ]);
        let points = parse(&text).expect("parses");
        assert_eq!(points.len(), 6);
        assert_eq!((points[0].experiment.as_str(), &points[0].x), ("P1-F1", &X::Number(16.0)));
        assert_eq!((points[1].experiment.as_str(), &points[1].x), ("P1-F7", &"balanced".into()));
        assert_eq!((points[4].panel.as_str(), &points[4].x), ("balanced", &X::Number(100.0)));
        assert_eq!((&points[5].x, points[5].value), (&"total".into(), 2.5e9));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        assert!(parse("a,b,c").expect_err("refused").contains("first line"));
        for (row, what) in [
            ("5-7,ycsb", "line 2: it has to have ten fields"),
            ("5-7,ycsb,cow,balanced,high,1280,,throughput,txn/s,x", "no number"),
            ("99,ycsb,cow,balanced,high,1280,,throughput,txn/s,1", "figure 99"),
        ] {
            let error = parse(&file(&[row])).expect_err("refused");
            assert!(error.contains(what), "{error}");
        }
    }
}
