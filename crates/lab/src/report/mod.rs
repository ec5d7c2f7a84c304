//! One HTML file with everything in it: plots, claims, what to choose, how it was measured.
//!
//! The page is put together by `assets/page.js` from the data that is embedded, and drawn by
//! Vega-Lite, whose scripts are embedded too: the file needs no network.

mod markdown;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::claims::{self, Missing, Tested};
use crate::emulation::{FileCosts, Host as Line};
use crate::error::LabError;
use crate::experiments::EXPERIMENTS;
use crate::host::Host;
use crate::point::Point;
use crate::results::{Configured, Measurement, Results, Selection, Unequal};
use crate::run::{Identity, Plan};
use crate::scale::Sizes;
use crate::setting::Setting;

const TEMPLATE: &str = include_str!("../../assets/report.html");
const STYLE: &str = include_str!("../../assets/report.css");
const CHARTS: &str = include_str!("../../assets/charts.js");
const PAGE: &str = include_str!("../../assets/page.js");
const VEGA: &str = include_str!("../../assets/vega/vega.min.js");
const VEGA_LITE: &str = include_str!("../../assets/vega/vega-lite.min.js");
const VEGA_EMBED: &str = include_str!("../../assets/vega/vega-embed.min.js");

/// The data of a report.
pub struct Report {
    /// The measured points, with how they were measured.
    pub configured: Vec<Configured>,
    /// The cost of a line on the machine, by the size of the memory: what emulation goes by.
    pub calibrations: Vec<Line>,
    /// The cells of the studies, in the order in which they were measured.
    pub measurements: Vec<Measurement>,
    /// The authors' published points, if they were given.
    pub authors: Option<Vec<Point>>,
    /// The outcomes of the papers' claims in our setting.
    pub claims: Vec<Tested>,
    /// Their outcomes in the paper's setting.
    pub papers: Vec<Tested>,
    /// The paragraph on both settings.
    pub follows: String,
    /// The costs of files on the machine, if they were measured for the paper's setting.
    pub file_costs: Option<FileCosts>,
    /// The outcomes of Perdura's own targets.
    pub targets: Vec<Tested>,
    /// The machine.
    pub host: Host,
    /// The results.
    pub selection: Selection,
    /// The missing parts of studies that were begun.
    pub missing: Vec<Missing>,
    /// [`Results::unequal`].
    pub unequal: Vec<Unequal>,
    points: Vec<Point>,
    paper_points: Vec<Point>,
}

/// An experiment as the page receives it.
#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    title: &'a str,
    about: &'a str,
    paper: &'a str,
    scaled: String,
}

/// All data that the page receives.
#[derive(Serialize)]
struct Data<'a> {
    perdura: &'a str,
    host: &'a Host,
    commit: &'a str,
    scale: &'a str,
    seed: u64,
    date: String,
    seconds: f64,
    experiments: Vec<Shown<'a>>,
    missing: Vec<String>,
    unequal: Vec<&'a str>,
    calibrations: &'a [Line],
    file_costs: Option<FileCosts>,
    points: &'a [Point],
    /// The same in the paper's setting.
    paper_points: &'a [Point],
    authors: Option<&'a [Point]>,
    claims: &'a [Tested],
    /// The same claims in the paper's setting.
    papers: &'a [Tested],
    /// The paragraph on both settings.
    follows: &'a str,
    targets: &'a [Tested],
}

impl Report {
    /// Reads what was measured, and tests the claims.
    ///
    /// # Errors
    /// The results cannot be read.
    pub fn new(
        results: &Results,
        selection: Selection,
        authors: Option<Vec<Point>>,
    ) -> Result<Self, LabError> {
        let configured = results.configured(&selection)?;
        let of = |setting| -> Vec<Point> {
            let of = configured.iter().filter(|one| one.setting() == setting);
            of.map(|one| one.point.clone()).collect()
        };
        let (points, paper_points) = (of(Setting::Ours), of(Setting::Paper));
        let host = results.host(&selection.host)?;
        let missing = missing(results, &selection, &host)?;
        let unequal = results.unequal(&selection)?;
        let all = claims::claims()?;
        let test = |all: &[claims::Claim], points: &[Point], setting| {
            claims::test(all, points, &missing, authors.as_deref(), setting)
        };
        // The paper's setting is P1's.
        let (p1, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|claim| claim.experiment.starts_with("P1-"));
        let mut claims = test(&p1, &points, Setting::Ours);
        let papers = test(&p1, &paper_points, Setting::Paper);
        let follows = claims::follows(&claims, &papers);
        claims.extend(test(&others, &points, Setting::Ours));
        let targets = claims::test(&claims::targets()?, &points, &missing, None, Setting::Ours);
        let mut measurements = results.measurements()?;
        measurements.retain(|Measurement { key, .. }| {
            key.commit == selection.commit
                && key.host == selection.host
                && key.scale == selection.scale
                && key.seed == selection.seed
        });
        let calibrations = results.calibrations(&selection.host, &selection.commit)?;
        let calibrations = calibrations.into_iter().map(|(_, line)| line).collect();
        let file_costs = results.file_costs(&selection.host, &selection.commit)?;
        Ok(Self {
            configured,
            calibrations,
            measurements,
            authors,
            claims,
            papers,
            follows,
            file_costs,
            targets,
            host,
            selection,
            missing,
            unequal,
            points,
            paper_points,
        })
    }

    /// The page.
    ///
    /// # Errors
    /// The data cannot be encoded: a bug of ours.
    pub fn html(&self) -> Result<String, LabError> {
        let data = serde_json::to_string(&self.data())
            .map_err(|error| LabError::measuring("the report")(&error))?;
        let data = within_script(&data);
        let mut page = TEMPLATE.to_owned();
        for (name, text) in [
            ("%STYLE%", STYLE),
            ("%CHARTS%", CHARTS),
            ("%PAGE%", PAGE),
            ("%VEGA%", VEGA),
            ("%VEGA_LITE%", VEGA_LITE),
            ("%VEGA_EMBED%", VEGA_EMBED),
            ("%DATA%", data.as_str()),
        ] {
            page = page.replacen(name, text, 1);
        }
        Ok(page)
    }

    fn data(&self) -> Data<'_> {
        let scaled = scaled(&self.measurements);
        let shown = |experiment: &'static crate::experiments::Experiment| Shown {
            id: experiment.id,
            title: experiment.title,
            about: experiment.about,
            paper: experiment.paper,
            scaled: scaled.get(experiment.study.name()).map_or(String::new(), |all| all.join(". ")),
        };
        let last = self.measurements.iter().map(|one| one.finished_s).max().unwrap_or_default();
        Data {
            perdura: env!("CARGO_PKG_VERSION"),
            host: &self.host,
            commit: &self.selection.commit,
            scale: &self.selection.scale,
            seed: self.selection.seed,
            date: date(last),
            seconds: self.measurements.iter().map(|one| one.seconds).sum(),
            experiments: EXPERIMENTS.iter().map(shown).collect(),
            missing: self.missing.iter().map(Missing::text).collect(),
            unequal: self.unequal.iter().map(|one| one.text.as_str()).collect(),
            calibrations: &self.calibrations,
            file_costs: self.file_costs,
            points: &self.points,
            paper_points: &self.paper_points,
            authors: self.authors.as_deref(),
            claims: &self.claims,
            papers: &self.papers,
            follows: &self.follows,
            targets: &self.targets,
        }
    }
}

/// The smaller sizes, by study. A study may have several workloads, each scaled in its own
/// way, and the paper's setting one of its own.
fn scaled(measurements: &[Measurement]) -> BTreeMap<&str, Vec<String>> {
    let mut scaled: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for setting in Setting::ALL {
        let of = |one: &&Measurement| Setting::of(&one.key.configuration) == setting;
        for Measurement { key, scaled: text, .. } in measurements.iter().filter(of) {
            let all = scaled.entry(&key.study).or_default();
            let line = match setting {
                Setting::Paper if !all.contains(text) => format!("in the paper's setting {text}"),
                _ => text.clone(),
            };
            if !text.is_empty() && !all.contains(&line) {
                all.push(line);
            }
        }
    }
    scaled
}

/// Returns what a run like this one should have and has not, of the studies that it began.
fn missing(
    results: &Results,
    selection: &Selection,
    host: &Host,
) -> Result<Vec<Missing>, LabError> {
    // This version does not know the scale, so it cannot say what is missing.
    let Some(sizes) = Sizes::named(&selection.scale, host.memory_bytes) else {
        return Ok(Vec::new());
    };
    let all: Vec<_> = EXPERIMENTS.iter().collect();
    let (commit, seed) = (selection.commit.clone(), selection.seed);
    let identity = Identity { commit, host: host.clone(), seed };
    Ok(Plan::new(results, &all, sizes, identity)?.incomplete())
}

/// All points of a selection as a table with commas: each row says by itself what it is of.
#[must_use]
pub fn csv(selection: &Selection, points: &[Configured]) -> String {
    let mut text = String::from(
        "experiment,panel,series,x,metric,unit,value,low,high,n,exact,emulated,\
         configuration,commit,host,scale,seed,setting\n",
    );
    let Selection { commit, host, scale, seed } = selection;
    let of = [commit, host, scale].map(|word| cell(word)).join(",");
    for one in points {
        let Configured { configuration, point } = one;
        let words = [
            cell(&point.experiment),
            cell(&point.panel),
            cell(&point.series),
            cell(&point.x.to_string()),
            cell(&point.metric),
            cell(&point.unit),
        ];
        text += &format!(
            "{},{},{},{},{},{},{},{},{of},{seed},{}\n",
            words.join(","),
            point.value,
            point.low,
            point.high,
            point.n,
            point.exact,
            cell(point.emulated.as_deref().unwrap_or_default()),
            cell(configuration),
            one.setting().name(),
        );
    }
    text
}

/// A word as it may stand between commas (RFC 4180).
fn cell(word: &str) -> String {
    match word.contains([',', '"', '\n']) {
        true => format!("\"{}\"", word.replace('"', "\"\"")),
        false => word.to_owned(),
    }
}

/// The day of a time in seconds since 1970, in UTC: `2026-11-22`.
fn date(seconds: i64) -> String {
    // H. Hinnant's algorithm: days since the first of March of year 0, in eras of 400 years.
    let days = seconds.div_euclid(86_400) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

/// JSON as it may stand in a script: `</script` ends one wherever it stands, and `<!--` changes
/// what does. A `<` can only be in a string.
fn within_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Key;

    #[test]
    fn what_stands_in_the_page_cannot_end_its_script() {
        let names = ["<!--<script>", "</script>"].map(str::to_owned);
        let embedded = within_script(&serde_json::to_string(&names).expect("JSON"));
        assert!(!embedded.contains('<'), "{embedded}");
        let read: [String; 2] = serde_json::from_str(&embedded).expect("JSON");
        assert_eq!(read, names);
    }

    #[test]
    fn scaling_is_reported_once_and_again_where_papers_differs() {
        let measured = |study: &str, setting: Setting, scaled: &str| {
            let configuration = format!("{{\"setting\":\"{}\"}}", setting.name());
            let (study, scale) = (study.to_owned(), "quick".to_owned());
            let (commit, host) = ("c".to_owned(), "h".to_owned());
            let key = Key { study, configuration, scale, commit, host, seed: 1 };
            Measurement { key, scaled: scaled.to_owned(), finished_s: 0, seconds: 1.0 }
        };
        let (ours, papers) = (Setting::Ours, Setting::Paper);
        let all = [
            measured("tpcc", papers, "items: 2 instead of 3"),
            measured("tpcc", ours, "warehouses: 2 instead of 8"),
            measured("ycsb", papers, "tuples: 1 instead of 2"),
            measured("ycsb", ours, "tuples: 1 instead of 2"),
            measured("ycsb", ours, ""),
        ];
        let found = scaled(&all);
        let own = "in the paper's setting items: 2 instead of 3";
        assert_eq!(found["tpcc"], ["warehouses: 2 instead of 8", own]);
        assert_eq!(found["ycsb"], ["tuples: 1 instead of 2"]);
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_795_348_800), "2026-11-22");
    }

    #[test]
    fn csv_quotes_what_has_commas() {
        let place = Point::of("P1-F5", "inp", "balanced");
        let point = place.modelled("throughput", "txn/s", (2.0, 1.0, 3.0), "320 ns, 8 cores");
        let configuration = r#"{"engine":"inp"}"#.to_owned();
        let (commit, host, scale) = ("c0ffee".into(), "here-1".into(), "full/8".into());
        let selection = Selection { commit, host, scale, seed: 7 };
        let text = csv(&selection, &[Configured { configuration, point }]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "experiment,panel,series,x,metric,unit,value,low,high,n,exact,emulated,\
                 configuration,commit,host,scale,seed,setting",
                "P1-F5,,inp,balanced,throughput,txn/s,2,1,3,1,false,\"320 ns, 8 cores\",\
                 \"{\"\"engine\"\":\"\"inp\"\"}\",c0ffee,here-1,full/8,7,ours",
            ]
        );
    }

    #[test]
    fn no_script_of_the_page_contains_its_own_end() {
        for script in [CHARTS, PAGE, VEGA, VEGA_LITE, VEGA_EMBED] {
            assert!(!script.contains("</script"));
        }
        for name in ["%DATA%", "%PAGE%", "%VEGA%"] {
            assert_eq!(TEMPLATE.matches(name).count(), 1);
        }
    }
}
