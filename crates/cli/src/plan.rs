//! The options of a benchmark, checked against each other.

use command::failure::Failure;
use command::host::cores;
use command::settings::run_options;
use command::system::System;
use peers::PeerKind;
use perdura::{Background, Domain, EngineKind};
use workloads::ycsb::{Mix, Skew};
use workloads::{Commit, Form, RunOptions, tatp, tpcb, tpcc, ycsb};

use crate::args::{CommitForm, CommonArgs, TpccScale};

/// Updates that are synced together where the user does not say.
const DEFAULT_GROUP: u32 = 100;

/// The parts that all runs of a benchmark have in common.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Engines, then peers, in the order in which they were named.
    pub(crate) systems: Vec<System>,
    /// The domain of the engines; `None` is the medium's own.
    pub(crate) domain: Option<Domain>,
    /// The options with which the driver runs.
    pub(crate) run: RunOptions,
    /// The threads that do the work which engines put off.
    pub(crate) background: Background,
    /// The number of repetitions.
    pub(crate) repeat: u32,
    /// Each update is declared to be its whole transaction.
    pub(crate) statements: bool,
    /// Engines keep columns within the tuple.
    pub(crate) inline: bool,
    /// Per cent of the indexes of sofort that lie in persistent memory; `None` is its default.
    pub(crate) placement: Option<u32>,
    partitions: usize,
    seed: u64,
}

impl Plan {
    /// Checks the options.
    ///
    /// # Errors
    /// Which of them contradict each other, or what this build cannot run.
    pub(crate) fn new(args: &CommonArgs, peers: &[PeerKind]) -> Result<Self, Failure> {
        let engines = args.engine.0.iter().map(|&kind| System::Engine(kind));
        let named = peers.iter().map(|&kind| System::Peer(kind));
        let systems: Vec<_> = engines.chain(named).collect();
        if systems.is_empty() {
            let why = "there is nothing to run: name an engine with --engine or a peer with --peer";
            return Err(Failure::Usage(why.into()));
        }
        if let Some(why) = peers.iter().find_map(|peer| peer.unavailable()) {
            return Err(Failure::Failed(format!("peer {why}")));
        }
        let commit = match (args.commit, args.group) {
            (CommitForm::Durable, None) => Commit::Durable,
            (CommitForm::Grouped, group) => Commit::Grouped(group.unwrap_or(DEFAULT_GROUP)),
            (CommitForm::Durable, Some(_)) => {
                return Err(Failure::Usage("--group needs --commit grouped".into()));
            }
        };
        let partitions = args.partitions as usize;
        let workers = args.workers.map_or_else(|| partitions.min(cores()), |n| n as usize);
        Ok(Self {
            systems,
            domain: args.domain.0,
            run: run_options(workers, commit),
            background: args.background.into(),
            repeat: args.repeat,
            statements: false,
            inline: false,
            placement: None,
            partitions,
            seed: args.seed,
        })
    }

    /// The same with so many per cent of the indexes of sofort in persistent memory.
    ///
    /// # Errors
    /// No engine of the run has such a choice.
    pub(crate) fn with_placement(self, placement: Option<u32>) -> Result<Self, Failure> {
        let mut engines = self.systems.iter().filter_map(|one| one.kind());
        if placement.is_some() && !engines.any(|kind| kind == EngineKind::Sofort) {
            let why = "--placement is an option of sofort: leave it out, or name --engine sofort";
            return Err(Failure::Usage(why.into()));
        }
        Ok(Self { placement, ..self })
    }

    /// The specification of a YCSB run of so many tuples and transactions.
    ///
    /// # Errors
    /// It cannot be run.
    pub(crate) fn ycsb(
        &self,
        mix: Mix,
        skew: Skew,
        (tuples, transactions): (u64, u64),
        update_columns: u8,
    ) -> Result<ycsb::Spec, Failure> {
        let Self { partitions, seed, .. } = *self;
        let update_columns = usize::from(update_columns);
        let spec = ycsb::Spec { tuples, transactions, mix, skew, update_columns, partitions, seed };
        spec.validate()?;
        Ok(spec)
    }

    /// The specification of a TPC-C run of so many warehouses and transactions.
    ///
    /// # Errors
    /// It cannot be run.
    pub(crate) fn tpcc(
        &self,
        scale: &TpccScale,
        warehouses: u32,
        transactions: u64,
    ) -> Result<tpcc::Spec, Failure> {
        self.refuse_peers("TPC-C")?;
        let Self { partitions, seed, .. } = *self;
        let TpccScale { items, customers, remote } = *scale;
        let spec =
            tpcc::Spec { warehouses, items, customers, transactions, partitions, remote, seed };
        spec.validate()?;
        Ok(spec)
    }

    /// The specification of a TPC-B run of so many branches, accounts of each, and transactions.
    ///
    /// # Errors
    /// It cannot be run.
    pub(crate) fn tpcb(
        &self,
        branches: u32,
        accounts: u32,
        form: Form,
        transactions: u64,
    ) -> Result<tpcb::Spec, Failure> {
        self.peers_have_one_partition("TPC-B")?;
        let Self { partitions, seed, .. } = *self;
        let spec = tpcb::Spec { branches, accounts, transactions, partitions, form, seed };
        spec.validate()?;
        Ok(spec)
    }

    /// Refuses peers in more partitions than one, and with other commits than durable ones.
    fn peers_have_one_partition(&self, workload: &str) -> Result<(), Failure> {
        match self.systems.iter().find_map(|one| one.peer()) {
            Some(peer) if self.partitions != 1 || self.run.commit != Commit::Durable => {
                let why = format!("peers run {workload} in one partition, with durable commits");
                let why = format!("--peer {peer}: {why}: leave out --partitions and --commit");
                Err(Failure::Usage(why))
            }
            _ => Ok(()),
        }
    }

    /// The specification of a TATP run of so many subscribers and transactions.
    ///
    /// # Errors
    /// It cannot be run.
    pub(crate) fn tatp(
        &self,
        subscribers: u32,
        form: Form,
        transactions: u64,
    ) -> Result<tatp::Spec, Failure> {
        self.peers_have_one_partition("TATP")?;
        let Self { partitions, seed, .. } = *self;
        let spec = tatp::Spec { subscribers, transactions, partitions, form, seed };
        spec.validate()?;
        Ok(spec)
    }

    /// Refuses peers, which do not run this workload.
    ///
    /// # Errors
    /// There are some.
    pub(crate) fn refuse_peers(&self, workload: &str) -> Result<(), Failure> {
        let Some(peer) = self.systems.iter().find_map(|one| one.peer()) else { return Ok(()) };
        let why = format!("--peer {peer}: {workload} runs on engines; peers have YCSB only");
        Err(Failure::Usage(why))
    }

    /// The number of partitions.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    /// The seed of keys and values.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }
}
