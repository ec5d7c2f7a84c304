//! Recovery: how soon data is there again after SIGKILL, of P1's engines by the number of
//! transactions (P1 5.4, F12), and of engines and peers by the size of the data.

use perdura::{Domain, EngineKind};
use serde_json::json;
use workloads::tpcc;
use workloads::ycsb::{Mix, Skew, Spec};

use super::settings::in_both;
use super::{Cell, Done, Stage};
use crate::bench::{Bench, Contestant, Killed, Reopened};
use crate::error::LabError;
use crate::point::{Point, X};
use crate::room::Takes;
use crate::scale::{Sizes, scaled_of};
use crate::setting::Setting;

/// Transactions before the kill where the size of the data is what matters.
const TXNS_BEFORE_KILL: u64 = 10_000;
/// Transactions that a process has left when it is killed, about.
const IN_HAND_BYTES: u64 = 128 << 20;

struct RecoveryStage {
    contestant: Contestant,
    setting: Setting,
    jobs: Vec<Killed>,
    cells: Vec<Cell>,
    kills: u32,
    /// The experiment, and for each cell the plot and the place on its axis.
    experiment: &'static str,
    places: Vec<(&'static str, u64)>,
}

fn stage(contestant: Contestant, kills: u32, experiment: &'static str) -> RecoveryStage {
    let (jobs, cells, places) = (Vec::new(), Vec::new(), Vec::new());
    RecoveryStage { contestant, setting: Setting::Ours, jobs, cells, kills, experiment, places }
}

/// The engines of P1, by transactions, in both settings.
pub(super) fn p1(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let stages = |engine| in_both(|setting| of_engine(engine, setting, sizes));
    EngineKind::P1.into_iter().flat_map(stages).collect()
}

fn of_engine(engine: EngineKind, setting: Setting, sizes: &Sizes) -> RecoveryStage {
    let mut stage = stage(Contestant::Engine(engine, Domain::Adr), sizes.kills, "P1-F12");
    stage.setting = setting;
    for &txns in &sizes.recovery_txns {
        let spec = Spec { partitions: setting.partitions(1), ..ycsb(sizes.recovery_tuples, txns) };
        stage.add(Killed::Ycsb(spec), ("ycsb", txns), &sizes.scaled_recovery(setting));
    }
    let (warehouses, items, customers) = sizes.recovery_shop(setting);
    for &transactions in &sizes.recovery_txns {
        let spec = tpcc::Spec {
            warehouses,
            items,
            customers,
            transactions,
            partitions: warehouses as usize,
            remote: false,
            seed: 0,
        };
        let scaled = sizes.scaled_recovery_tpcc(setting);
        stage.add(Killed::Tpcc(spec), ("tpcc", transactions), &scaled);
    }
    stage
}

/// Engines and peers, by the size of the data.
pub(super) fn peers(sizes: &Sizes) -> Vec<Box<dyn Stage>> {
    let engines = EngineKind::P1.into_iter().map(|kind| Contestant::Engine(kind, Domain::Adr));
    let peers = ::peers::PeerKind::ALL
        .into_iter()
        .filter(|kind| kind.unavailable().is_none() && kind.is_durable())
        .map(Contestant::Peer);
    let mut stages: Vec<Box<dyn Stage>> = Vec::new();
    for contestant in engines.chain(peers) {
        let mut stage = stage(contestant, sizes.kills, "PEERS-REOPEN");
        let job = |&tuples: &u64| Killed::Ycsb(ycsb(tuples, TXNS_BEFORE_KILL.min(tuples)));
        let fitting = |tuples: &&u64| sizes.fits(&stage.takes(&job(tuples)));
        let fitting: Vec<u64> = sizes.reopened.iter().filter(fitting).copied().collect();
        let most = fitting.iter().copied().max().unwrap_or(0);
        let left_out = fitting.len() < sizes.reopened.len();
        let scaled = scaled_of(&contestant.name(), left_out, Sizes::scaled_reopened(most));
        for tuples in fitting {
            stage.add(job(&tuples), ("", tuples), &scaled);
        }
        stages.push(Box::new(stage));
    }
    stages
}

fn ycsb(tuples: u64, transactions: u64) -> Spec {
    Spec {
        tuples,
        transactions,
        mix: Mix::Balanced,
        skew: Skew::Low,
        update_columns: 1,
        partitions: 1,
        seed: 0,
    }
}

impl RecoveryStage {
    /// The room of the process that is killed, with what it has in hand so that it never runs out
    /// of work; the one that looks comes after it.
    fn takes(&self, job: &Killed) -> Takes {
        Takes::in_memory(IN_HAND_BYTES) + self.takes_without(job)
    }

    fn takes_without(&self, job: &Killed) -> Takes {
        match (job, self.contestant) {
            (Killed::Ycsb(spec), Contestant::Engine(kind, _)) => {
                Takes::ycsb(kind, spec.tuples, spec.transactions)
            }
            (Killed::Ycsb(spec), Contestant::Peer(kind)) => {
                Takes::peer(kind, spec.tuples, spec.transactions)
            }
            (Killed::Tpcc(spec), _) => Takes::shop(spec, spec.transactions),
        }
    }

    fn add(&mut self, job: Killed, (panel, x): (&'static str, u64), scaled: &str) {
        let name = self.contestant.name();
        let (mut configuration, label, weight) = match &job {
            Killed::Ycsb(spec) => (
                json!({
                    "contestant": name, "workload": "ycsb", "tuples": spec.tuples,
                    "txns": spec.transactions, "kills": self.kills,
                }),
                format!("{name} killed, YCSB, {} tuples, {} txns", spec.tuples, spec.transactions),
                0.8 + spec.tuples as f64 * 6e-6 + spec.transactions as f64 * 1e-5,
            ),
            Killed::Tpcc(spec) => (
                json!({
                    "contestant": name, "workload": "tpcc", "items": spec.items,
                    "customers": spec.customers, "txns": spec.transactions, "kills": self.kills,
                }),
                format!("{name} killed, TPC-C, {} txns", spec.transactions),
                1.5 + spec.tuples() as f64 * 1e-5 + spec.transactions as f64 * 1e-4,
            ),
        };
        if let (Contestant::Engine(engine, _), Setting::Paper) = (self.contestant, self.setting) {
            self.setting.note(engine, &mut configuration);
            let partitions = match &job {
                Killed::Ycsb(spec) => spec.partitions,
                Killed::Tpcc(spec) => spec.partitions,
            };
            configuration["partitions"] = partitions.into();
        }
        let label = self.setting.label(label);
        let weight = weight * f64::from(self.kills);
        let takes = self.takes(&job);
        self.cells.push(Cell::new(label, &configuration, scaled, weight, takes));
        self.jobs.push(job);
        self.places.push((panel, x));
    }
}

impl Stage for RecoveryStage {
    fn cells(&self) -> &[Cell] {
        &self.cells
    }

    fn measure(
        &self,
        bench: &Bench<'_>,
        missing: &[usize],
        done: &mut Done<'_>,
    ) -> Result<(), LabError> {
        let name = self.contestant.name();
        let failed = LabError::measuring(&name);
        for &cell in missing {
            bench.watch.phase(&self.cells[cell].label);
            let job = seeded(&self.jobs[cell], bench.seed);
            let mut found = Vec::new();
            for _ in 0..self.kills {
                let place = bench.place("killed")?;
                let reopened =
                    bench.launcher.kill(self.contestant, &job, self.setting, place.path());
                let reopened = reopened.map_err(|why| failed(&why))?;
                if reopened.wrong > 0 {
                    let why = format!(
                        "{} transactions were lost or wrong after a kill; `perdura bench recovery` shows which",
                        reopened.wrong
                    );
                    return Err(failed(&why));
                }
                found.push(reopened);
            }
            done(cell, &self.points(cell, &name, &found))?;
        }
        Ok(())
    }
}

impl RecoveryStage {
    fn points(&self, cell: usize, name: &str, found: &[Reopened]) -> Vec<Point> {
        let (panel, x) = self.places[cell];
        let place = Point::of(self.experiment, name, X::from(x)).panel(panel);
        let all = |of: fn(&Reopened) -> f64| found.iter().map(of).collect::<Vec<f64>>();
        let mut points = vec![
            place.measured("recovery", "ms", &all(|one| one.open_ms)),
            place.measured("first commit", "ms", &all(|one| one.first_commit_ms)),
        ];
        let recovered: Option<Vec<f64>> =
            found.iter().map(|one| one.recovered.map(|count| count as f64)).collect();
        if let Some(recovered) = recovered {
            points.push(place.measured("redone and undone", "count", &recovered));
        }
        points
    }
}

fn seeded(job: &Killed, seed: u64) -> Killed {
    match job {
        Killed::Ycsb(spec) => Killed::Ycsb(Spec { seed, ..spec.clone() }),
        Killed::Tpcc(spec) => Killed::Tpcc(tpcc::Spec { seed, ..spec.clone() }),
    }
}
