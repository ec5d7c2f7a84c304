//! `perdura bench tpcb`: what TPC-B is to the [benchmark](super::terminals).

use std::collections::BTreeMap;
use std::path::Path;

use command::failure::Failure;
use peers::PeerKind;
use perdura::{Database, Schema};
use workloads::tpcb::{self, Spec};
use workloads::{Check, Form, Measured, Progress, RunError, RunOptions};

use super::bank::{self, Populated};
use super::terminals::{self, Workload, pass_on_to};
use crate::args::TpcbArgs;
use crate::plan::Plan;

/// Runs the benchmark.
///
/// # Errors
/// As [`terminals::run`].
pub(crate) fn run(args: &TpcbArgs) -> Result<(), Failure> {
    let plan = Plan::new(&args.common, &args.peer.0)?;
    let form = args.form.unwrap_or_default();
    let spec = plan.tpcb(args.branches, args.accounts, form, args.txns)?;
    terminals::run(&spec, &plan, &args.common, args.check)
}

impl Workload for Spec {
    type Piece = tpcb::Workload;

    const NAME: &'static str = "tpcb";
    const TITLE: &'static str = "TPC-B";
    const KINDS: &'static [&'static str] = &["tpcb"];
    const READ_ONLY: usize = 0;
    const COMMUTES: bool = true;
    const SMALLER: &'static str = "fewer --branches or --txns";
    const TUPLE_BYTES: u64 = 600;
    const TRANSACTION_BYTES: u64 = 1500;

    pass_on_to!(tpcb);

    fn sizes(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([
            ("branches", u64::from(self.branches)),
            ("accounts", u64::from(self.accounts)),
        ])
    }

    fn peer(
        &self,
        kind: PeerKind,
        directory: &Path,
        plan: &Plan,
        progress: &Progress,
    ) -> Result<Box<dyn Populated<tpcb::Workload>>, Failure> {
        let transactions = self.transactions.saturating_mul(u64::from(plan.repeat) + 1);
        bank::of_tpcb(kind, directory, self, (transactions, plan.run.workers), progress)
    }

    fn check(
        &self,
        database: &Database,
        _: &[(&tpcb::Workload, &Measured)],
    ) -> Result<Vec<Check>, perdura::Error> {
        tpcb::check(database, self)
    }
}
