//! One study in both settings.

use super::{Cell, Done, Stage};
use crate::bench::Bench;
use crate::error::LabError;
use crate::setting::Setting;

/// The stages that `make` makes for each setting. If the paper's changes nothing of the cells it is
/// one, whose cells are measured once and saved for both.
pub(super) fn in_both<S: Stage + 'static>(make: impl Fn(Setting) -> S) -> Vec<Box<dyn Stage>> {
    let [ours, papers] = Setting::ALL.map(make);
    match same(ours.cells(), papers.cells()) {
        true => vec![Box::new(Shared::new(ours, papers.cells()))],
        false => vec![Box::new(ours), Box::new(papers)],
    }
}

/// Returns true if the configurations say the same but for the setting.
fn same(ours: &[Cell], papers: &[Cell]) -> bool {
    let same = |(ours, papers): (&Cell, &Cell)| {
        Setting::unmarked(&papers.configuration).as_ref() == Some(&ours.configuration)
    };
    ours.len() == papers.len() && ours.iter().zip(papers).all(same)
}

/// A stage of both settings. Cell `2 n` is cell `n` of ours, and cell `2 n + 1` the same in the
/// paper's.
struct Shared<S> {
    ours: S,
    cells: Vec<Cell>,
}

impl<S: Stage> Shared<S> {
    fn new(ours: S, papers: &[Cell]) -> Self {
        let both = |(ours, papers): (&Cell, &Cell)| {
            // It takes no time of its own.
            [ours.clone(), Cell { weight: 0.0, ..papers.clone() }]
        };
        let cells = ours.cells().iter().zip(papers).flat_map(both).collect();
        Self { ours, cells }
    }
}

impl<S: Stage> Stage for Shared<S> {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(
        &self,
        bench: &Bench<'_>,
        missing: &[usize],
        done: &mut Done<'_>,
    ) -> Result<(), LabError> {
        let mut once: Vec<usize> = missing.iter().map(|cell| cell / 2).collect();
        once.dedup();
        self.ours.measure(bench, &once, &mut |measured, points| {
            for cell in missing.iter().filter(|cell| *cell / 2 == measured) {
                done(*cell, points)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;
    use crate::bench::{Contestant, Killed, Launcher, Reopened};
    use crate::calibrations::Calibrations;
    use crate::experiments::{named, studies};
    use crate::point::Point;
    use crate::room::Takes;
    use crate::scale::{Scale, Sizes};
    use crate::studies::Study;

    /// Two cells, of which the second can be configured as the setting says.
    struct Pretended {
        cells: Vec<Cell>,
    }

    thread_local! {
        static MEASURED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }

    fn pretended(setting: Setting, differs: bool) -> Pretended {
        let cell = |number: u64| {
            let mut configuration = json!({ "number": number });
            setting.mark(&mut configuration);
            if differs && setting == Setting::Paper && number == 1 {
                configuration["commit"] = "grouped".into();
            }
            Cell::new("cell", &configuration, "", 1.0, Takes::default())
        };
        Pretended { cells: vec![cell(0), cell(1)] }
    }

    impl Stage for Pretended {
        fn cells(&self) -> &[Cell] {
            &self.cells
        }

        fn measure(
            &self,
            _: &Bench<'_>,
            missing: &[usize],
            done: &mut Done<'_>,
        ) -> Result<(), LabError> {
            for &cell in missing {
                MEASURED.with(|all| all.borrow_mut().push(cell));
                done(cell, &[Point::of("E", "s", cell as u64).counted("m", "u", 1.0)])?;
            }
            Ok(())
        }
    }

    struct NoKills;

    impl Launcher for NoKills {
        fn kill(
            &self,
            _: Contestant,
            _: &Killed,
            _: Setting,
            _: &std::path::Path,
        ) -> Result<Reopened, String> {
            Err("nothing is killed".into())
        }
    }

    /// Returns which cells were saved, each with the place of its point, and how often was
    /// measured.
    fn measured(stage: &dyn Stage, missing: &[usize]) -> (Vec<(usize, String)>, Vec<usize>) {
        let bench = Bench {
            directory: std::path::Path::new("."),
            seed: 1,
            launcher: &NoKills,
            watch: &(),
            room: &|| None,
            calibrations: Calibrations::default(),
        };
        MEASURED.with(|all| all.borrow_mut().clear());
        let mut saved = Vec::new();
        let outcome = stage.measure(&bench, missing, &mut |cell, points| {
            saved.push((cell, points[0].x.to_string()));
            Ok(())
        });
        outcome.expect("measured");
        (saved, MEASURED.with(|all| all.borrow().clone()))
    }

    #[test]
    fn cells_alike_in_both_settings_are_measured_once() {
        let stages = in_both(|setting| pretended(setting, false));
        assert_eq!(stages.len(), 1);
        let settings: Vec<Setting> =
            stages[0].cells().iter().map(|cell| Setting::of(&cell.configuration)).collect();
        let [ours, papers] = Setting::ALL;
        assert_eq!(settings, [ours, papers, ours, papers]);
        let at = |cell, x: &str| (cell, x.to_owned());
        let all = vec![at(0, "0"), at(1, "0"), at(2, "1"), at(3, "1")];
        assert_eq!(measured(&*stages[0], &[0, 1, 2, 3]), (all, vec![0, 1]));
        // A value that one setting has is not saved again.
        assert_eq!(measured(&*stages[0], &[1, 2]), (vec![at(1, "0"), at(2, "1")], vec![0, 1]));
    }

    fn cells(study: Study) -> Vec<Cell> {
        let stages = study.stages(&Sizes::new(Scale::Quick, 0));
        stages.iter().flat_map(|stage| stage.cells().to_vec()).collect()
    }

    #[test]
    fn every_cell_of_p1_is_unique_in_both_settings() {
        for study in [
            Study::Bytes,
            Study::Recovery,
            Study::Footprint,
            Study::Tpcc,
            Study::Ycsb,
            Study::Nodes,
        ] {
            let cells = cells(study);
            let of = |setting| -> Vec<&Cell> {
                cells.iter().filter(|cell| Setting::of(&cell.configuration) == setting).collect()
            };
            let (ours, papers) = (of(Setting::Ours), of(Setting::Paper));
            assert!(!ours.is_empty());
            let label = |cell: &&Cell| Setting::Paper.label(cell.label.clone());
            let mut wanted: Vec<String> = ours.iter().map(label).collect();
            let mut found: Vec<String> = papers.iter().map(|cell| cell.label.clone()).collect();
            wanted.sort();
            found.sort();
            assert_eq!(found, wanted, "{}", study.name());
            let all: HashSet<&str> = cells.iter().map(|cell| cell.configuration.as_str()).collect();
            assert_eq!(all.len(), cells.len(), "{}", study.name());
        }
        let others =
            [Study::Bandwidth, Study::Peers, Study::Reopening, Study::Threads, Study::Churn];
        for cell in others.into_iter().flat_map(cells) {
            assert_eq!(Setting::of(&cell.configuration), Setting::Ours, "{}", cell.label);
        }
    }

    #[test]
    fn our_configurations_keep_their_form() {
        let is = |study, label: &str, configuration: &str| {
            let cells = cells(study);
            let cell = cells.iter().find(|cell| cell.label == label).expect(label);
            assert_eq!(cell.configuration, configuration, "{label}");
        };
        is(
            Study::Ycsb,
            "YCSB cow, balanced, low skew",
            r#"{"cache_bytes":1048576,"checkpoint_bytes":13421772,"commit":"durable","engine":"cow","group":64,"log_reserve_bytes":209715,"memtable_bytes":1677721,"mix":"balanced","page_cache_bytes":13421772,"partitions":8,"repeat":3,"skew":"low","tuples":100000,"txns":100000}"#,
        );
        is(
            Study::Tpcc,
            "TPC-C nvm-inp",
            r#"{"cache_bytes":2097152,"checkpoint_bytes":26843545,"commit":"durable","customers":1000,"engine":"nvm-inp","items":20000,"log_reserve_bytes":419430,"memtable_bytes":3355443,"page_cache_bytes":26843545,"partitions":2,"repeat":3,"txns":20000,"warehouses":2}"#,
        );
        is(
            Study::Recovery,
            "inp killed, YCSB, 50000 tuples, 1000 txns",
            r#"{"contestant":"inp","kills":3,"tuples":50000,"txns":1000,"workload":"ycsb"}"#,
        );
        is(
            Study::Footprint,
            "storage of log, YCSB",
            r#"{"checkpoint_bytes":13421772,"engine":"log","log_reserve_bytes":209715,"memtable_bytes":1677721,"page_cache_bytes":13421772,"partitions":8,"tuples":100000,"txns":400000,"workload":"ycsb"}"#,
        );
        is(
            Study::Nodes,
            "nvm-cow, read-only, nodes of 4096 bytes",
            r#"{"cache_bytes":524288,"checkpoint_bytes":6710886,"chunk_bytes":1048576,"engine":"nvm-cow","log_reserve_bytes":104857,"memtable_bytes":838860,"mix":"read-only","node_bytes":4096,"page_cache_bytes":6710886,"partitions":8,"repeat":3,"tuples":50000,"txns":50000}"#,
        );
        is(
            Study::Bytes,
            "bytes written, cow",
            r#"{"engine":"cow","growth":4,"memtable_bytes":65536,"operations":1000,"tuples":4000}"#,
        );
    }

    /// Twenty minutes on two idle cores: a run takes less than the seconds that are estimated, and the
    /// paper's setting is not to double them.
    #[test]
    fn the_papers_setting_takes_no_longer_than_ours() {
        let p1 = studies(&named(&["P1".into()]).expect("known"));
        let cells: Vec<Cell> = p1.into_iter().flat_map(cells).collect();
        let seconds = |setting| -> f64 {
            let of = cells.iter().filter(|cell| Setting::of(&cell.configuration) == setting);
            of.map(|cell| cell.weight).sum()
        };
        let (ours, papers) = (seconds(Setting::Ours), seconds(Setting::Paper));
        assert!(papers <= ours && ours + papers < 1500.0, "{ours} and {papers}");
    }

    #[test]
    fn what_it_changes_is_measured_in_each() {
        let stages = in_both(|setting| pretended(setting, true));
        assert_eq!(stages.len(), 2);
        assert_eq!(measured(&*stages[1], &[1]).1, [1]);
    }
}
