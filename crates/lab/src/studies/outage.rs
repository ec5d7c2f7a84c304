//! TATP on SOFORT across a kill (P4 5, Figures 8 to 10): throughput and response time before it,
//! and how long it takes until they are restored.
//!
//! A cell is a scheme and a number of subscribers: a process of users is killed in the middle,
//! another one opens the database and goes on ([`crate::bench::Launcher::outage`]). Everything is
//! measured natively, in `adr` (modelled): flushes and fences are executed, memory is this host's.

use serde_json::json;
use workloads::{Form, tatp};

use super::{Cell, Done, Stage};
use crate::bench::{Bench, Crossed, Crossing};
use crate::error::LabError;
use crate::point::Point;
use crate::room::Takes;
use crate::scale::{Scale, Sizes};

/// Users: P4 has four on eight cores.
const USERS: usize = 2;
/// Bytes that a subscriber takes with all rows, in columns, dictionaries and indexes, at most.
const SUBSCRIBER_BYTES: u64 = 6_000;
/// Bytes that users add in a second.
const SECOND_BYTES: u64 = 64 << 20;
/// Seconds that a subscriber takes to load, and to read in the end.
const SUBSCRIBER_SECONDS: f64 = 1e-4;

/// The subscribers whose course is drawn, and of Figures 9 and 10; less where there are less.
const DRAWN_SUBSCRIBERS: u32 = 200_000;
/// Subscribers in the paper.
const PAPER_SUBSCRIBERS: u32 = 5_000_000;

/// The sizes of a scale.
struct Extent {
    /// Subscribers.
    subscribers: &'static [u32],
    /// Samples before and after the kill; P4 kills at second 15.
    samples: (u32, u32),
    /// Kills.
    repeat: u32,
}

impl Extent {
    const fn of(scale: Scale) -> Self {
        match scale {
            Scale::Tiny => Self { subscribers: &[300], samples: (3, 5), repeat: 1 },
            Scale::Quick => Self { subscribers: &[50_000, 200_000], samples: (60, 120), repeat: 1 },
            Scale::Full => {
                Self { subscribers: &[50_000, 200_000, 1_000_000], samples: (150, 300), repeat: 3 }
            }
        }
    }
}

/// A scheme of P4 5: where indexes lie, and when opening builds those in ordinary memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    /// Before the first transaction: scenario 1, Figure 8a.
    First,
    /// During transactions: scenario 2, Figure 8b; and, with so many per cent of the indexes in
    /// persistent memory, scenarios 3 and 4, Figures 8c and 8d.
    Background(u32),
}

impl Scheme {
    const ALL: [Self; 4] =
        [Self::First, Self::Background(0), Self::Background(40), Self::Background(100)];

    /// The name in plots.
    fn name(self) -> String {
        match self {
            Self::First => "first, 0%".into(),
            Self::Background(percent) => format!("{percent}%"),
        }
    }

    /// Per cent of the indexes in persistent memory.
    const fn placement(self) -> u32 {
        match self {
            Self::First => 0,
            Self::Background(percent) => percent,
        }
    }
}

struct OutageStage {
    scheme: Scheme,
    crossing: Crossing,
    repeat: u32,
    /// Figures 9 and 10 are of this number of subscribers, and so is the course.
    is_drawn: bool,
    cells: [Cell; 1],
}

/// One stage for each scheme and size.
pub(super) fn stages(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let mut stages: Vec<Box<dyn Stage>> = Vec::new();
    let extent = Extent::of(sizes.scale);
    for subscribers in extent.subscribers {
        for scheme in Scheme::ALL {
            let stage = stage(scheme, *subscribers, &extent);
            if sizes.fits(&stage.cells[0].takes) {
                stages.push(Box::new(stage));
            }
        }
    }
    stages
}

fn stage(scheme: Scheme, subscribers: u32, extent: &Extent) -> OutageStage {
    let (before, after) = extent.samples;
    let largest = extent.subscribers.iter().copied().max();
    let is_drawn = largest.map(|largest| largest.min(DRAWN_SUBSCRIBERS)) == Some(subscribers);
    let spec = tatp::Spec {
        subscribers,
        transactions: 1,
        partitions: 1,
        form: Form::Specification,
        seed: 0,
    };
    let repeat = extent.repeat;
    let configuration = json!({
        "engine": "sofort",
        "workload": "tatp",
        "subscribers": subscribers,
        "users": USERS,
        "rebuild": match scheme { Scheme::First => "first", Scheme::Background(_) => "background" },
        "nvm_percent": scheme.placement(),
        "samples_before": before,
        "samples_after": after,
        "repeat": repeat,
    });
    let seconds = f64::from(before + after) / 10.0;
    let weight = f64::from(repeat) * (seconds + f64::from(subscribers) * SUBSCRIBER_SECONDS);
    let grown = SECOND_BYTES.saturating_mul(seconds as u64 + 1);
    let bytes = u64::from(subscribers) * SUBSCRIBER_BYTES + grown;
    // Indexes are in the memory of the process.
    let takes = Takes::on_medium(bytes) + Takes::in_memory(bytes / 4);
    let label = format!("TATP across a kill, {}, {subscribers} subscribers", scheme.name());
    let scaled = format!(
        "subscribers: {subscribers} instead of {PAPER_SUBSCRIBERS}; users: {USERS} instead of 4"
    );
    let cells = [Cell::new(label, &configuration, &scaled, weight, takes)];
    let (placement, first) = (scheme.placement(), scheme == Scheme::First);
    let crossing = Crossing { spec, users: USERS, placement, first, before, after };
    OutageStage { scheme, crossing, repeat, is_drawn, cells }
}

impl Stage for OutageStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(&self, bench: &Bench<'_>, _: &[usize], done: &mut Done<'_>) -> Result<(), LabError> {
        bench.watch.phase(&self.cells[0].label);
        let failed = LabError::measuring("sofort");
        let mut all = Vec::new();
        for _ in 0..self.repeat {
            let place = bench.place("outage")?;
            let mut crossing = self.crossing.clone();
            crossing.spec.seed = bench.seed;
            let crossed = bench.launcher.outage(&crossing, place.path());
            let crossed = crossed.map_err(|why| failed(&why))?;
            if crossed.wrong > 0 {
                let what = "acknowledged changes are lost, or checks do not hold";
                return Err(failed(&format!("{} {what}", crossed.wrong)));
            }
            all.push(crossed);
        }
        done(0, &self.points(&all))
    }
}

impl OutageStage {
    fn points(&self, all: &[Crossed]) -> Vec<Point> {
        let name = self.scheme.name();
        let subscribers = u64::from(self.crossing.spec.subscribers);
        let mut points = Vec::new();
        // A value that some run lacks is left out.
        let mut add = |experiment: &str, x: u64, metric: &str, unit: &str, of: Of| {
            let values: Option<Vec<f64>> = all.iter().map(of).collect();
            if let Some(values) = values {
                let place = Point::of(experiment, &name, x);
                points.push(place.measured(metric, unit, &values));
            }
        };
        add("P4-F8", subscribers, "throughput", "txn/s", |one| Some(one.throughput_txn_s));
        add("P4-F8", subscribers, "recovery delta", "s", |one| one.delta_s);
        add("P4-F8", subscribers, "recovery area", "txn", |one| Some(one.area_txns));
        add("P4-F8", subscribers, "first answer", "ms", |one| one.first_answer_ms);
        add("P4-F8", subscribers, "first commit", "ms", |one| one.first_commit_ms);
        add("P4-F8", subscribers, "indexes built", "s", |one| one.built_s);
        add("P4-F8", subscribers, "delta over building", "x", |one| {
            Some(one.delta_s? / one.built_s.filter(|built_s| *built_s > 0.0)?)
        });
        if let Scheme::Background(percent) = self.scheme
            && self.is_drawn
        {
            let percent = u64::from(percent);
            let native = |one: &Crossed| Some(one.throughput_txn_s);
            add("P4-F9", percent, "native throughput", "txn/s", native);
            add("P4-F9", percent, "recovery area", "txn", |one| Some(one.area_txns));
            add("P4-F10", percent, "response time", "us", |one| one.response_mean_us);
            add("P4-F10", percent, "peak response time", "us", |one| one.response_peak_us);
            add("P4-F10", percent, "response time before", "us", |one| one.before_mean_us);
        }
        if self.is_drawn {
            points.extend(self.course(&all[0]));
        }
        points
    }

    /// The course of a run, by seconds.
    fn course(&self, one: &Crossed) -> Vec<Point> {
        let place =
            |second: f64| Point::of("P4-F8", &self.scheme.name(), crate::point::X::Number(second));
        let point = |(number, throughput): (usize, &f64)| {
            let place = place((number + 1) as f64 / 10.0).panel("course");
            place.once("throughput of 100 ms", "txn/s", *throughput, false)
        };
        one.throughputs_txn_s.iter().enumerate().map(point).collect()
    }
}

/// A figure of a run, if it is known.
type Of = fn(&Crossed) -> Option<f64>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;

    fn crossed(delta_s: Option<f64>) -> Crossed {
        Crossed {
            throughputs_txn_s: vec![10.0, 0.0, 5.0],
            throughput_txn_s: 10.0,
            delta_s,
            area_txns: 7.0,
            ..Crossed::default()
        }
    }

    #[test]
    fn unknown_values_are_no_figures_and_first_course_counts() {
        let stage = stage(Scheme::Background(40), 300, &Extent::of(Scale::Tiny));
        let metrics = |all: &[Crossed]| -> Vec<String> {
            stage.points(all).into_iter().map(|point| point.metric).collect()
        };
        let known = metrics(&[crossed(Some(1.0)), crossed(Some(2.0))]);
        assert!(known.iter().any(|metric| metric == "recovery delta"));
        let unknown = metrics(&[crossed(Some(1.0)), crossed(None)]);
        assert!(!unknown.iter().any(|metric| metric == "recovery delta"), "{unknown:?}");
        let course = unknown.iter().filter(|metric| *metric == "throughput of 100 ms");
        assert_eq!(course.count(), 3);
        let area = stage.points(&[crossed(None)]);
        let area = area.iter().find(|point| point.metric == "recovery area").expect("there");
        assert_eq!((area.value, &area.x), (7.0, &300_u64.into()));
        let share = stage.points(&[crossed(None)]);
        let share = share.iter().find(|point| point.experiment == "P4-F9").expect("there");
        assert_eq!((share.series.as_str(), &share.x), ("40%", &40_u64.into()));
        assert_eq!(stage.crossing.placement, 40);
    }

    #[test]
    fn each_scheme_is_measured_at_each_size() {
        let stages = stages(&Sizes::new(Scale::Quick, 16 << 30));
        assert_eq!(stages.len(), 4 * Extent::of(Scale::Quick).subscribers.len());
        let mut all: Vec<&str> =
            stages.iter().map(|stage| stage.cells()[0].configuration.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), stages.len());
    }
}
