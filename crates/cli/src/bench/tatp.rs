//! `perdura bench tatp`: what TATP is to the [benchmark](super::terminals).

use std::collections::BTreeMap;
use std::path::Path;

use command::failure::Failure;
use peers::PeerKind;
use perdura::{Database, Schema};
use workloads::tatp::{self, Rate, SUBSCRIBERS_OF_SCALE, Spec};
use workloads::{Check, Form, Measured, Progress, RunError, RunOptions};

use super::bank::{self, Populated};
use super::outage;
use super::terminals::{self, Workload, pass_on_to};
use super::terminals_run::{Success, said};
use crate::args::TatpArgs;
use crate::plan::Plan;

/// Subscribers where the user does not say.
const DEFAULT_SUBSCRIBERS: u32 = 100_000;
/// Transactions of a run where the user does not say.
const DEFAULT_TXNS: u64 = 100_000;

/// Runs the benchmark.
///
/// # Errors
/// As [`terminals::run`].
pub(crate) fn run(args: &TatpArgs) -> Result<(), Failure> {
    let mut plan = Plan::new(&args.common, &args.peer.0)?.with_placement(args.kill.placement)?;
    if let Some(users) = args.kill.users {
        plan.run.workers = users as usize;
    }
    let subscribers = match (args.subscribers, args.scale) {
        (Some(subscribers), _) => subscribers,
        (None, Some(scale)) => scale.checked_mul(SUBSCRIBERS_OF_SCALE).ok_or_else(|| {
            let most = u32::MAX / SUBSCRIBERS_OF_SCALE;
            Failure::Usage(format!("--scale {scale}: 1 to {most} are possible"))
        })?,
        (None, None) => DEFAULT_SUBSCRIBERS,
    };
    let txns = args.txns.unwrap_or(DEFAULT_TXNS);
    let spec = plan.tatp(subscribers, args.form.unwrap_or_default(), txns)?;
    if args.kill.kill_at.is_some() {
        return outage::run(args, &spec, &plan);
    }
    terminals::run(&spec, &plan, &args.common, args.check)
}

impl Workload for Spec {
    type Piece = tatp::Workload;

    const NAME: &'static str = "tatp";
    const TITLE: &'static str = "TATP";
    const KINDS: &'static [&'static str] = &[
        tatp::Kind::ALL[0].name(),
        tatp::Kind::ALL[1].name(),
        tatp::Kind::ALL[2].name(),
        tatp::Kind::ALL[3].name(),
        tatp::Kind::ALL[4].name(),
        tatp::Kind::ALL[5].name(),
        tatp::Kind::ALL[6].name(),
    ];
    const READ_ONLY: usize = 3;
    const COMMUTES: bool = false;
    const SMALLER: &'static str = "fewer --subscribers or --txns";
    const TUPLE_BYTES: u64 = 600;
    const TRANSACTION_BYTES: u64 = 1000;

    pass_on_to!(tatp);

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([("subscribers", u64::from(self.subscribers))])
    }

    fn peer(
        &self,
        kind: PeerKind,
        directory: &Path,
        _: &Plan,
        progress: &Progress,
    ) -> Result<Box<dyn Populated<tatp::Workload>>, Failure> {
        bank::of_tatp(kind, directory, self, progress)
    }

    fn check(
        &self,
        database: &Database,
        runs: &[(&tatp::Workload, &Measured)],
    ) -> Result<Vec<Check>, perdura::Error> {
        let measured: Vec<&Measured> = runs.iter().map(|(_, measured)| *measured).collect();
        tatp::check(database, self, &measured)
    }

    fn judge(runs: &[(&tatp::Workload, &Measured)]) -> Vec<Check> {
        let wrong = tatp::rates(runs).into_iter().find(|rate| !rate.holds());
        vec![Check {
            name: "success_rates",
            what: "each kind of transaction succeeds as often as the benchmark foresees",
            violation: wrong.map(said),
        }]
    }

    fn success(runs: &[(&tatp::Workload, &Measured)]) -> Option<BTreeMap<&'static str, Success>> {
        let success = |rate: Rate| (rate.kind.name(), Success::from(rate));
        Some(tatp::rates(runs).into_iter().map(success).collect())
    }
}
