//! TPC-B on other databases: the peers.
//!
//! A [`Bank`] has its own way of holding the four tables. It enters the same transactions in the
//! same loop as our engines, in one partition that all workers share, and its [`Books`] must
//! balance afterwards.

use super::check::{Balances, DEMANDS, differs, stray};
use super::inputs::Workload;
use super::schema::{ACCOUNT_FILLER, BRANCH_FILLER, HISTORY_FILLER, TELLER_FILLER, fill};
use super::spec::{Spec, TELLERS};
use crate::checks::Check;
use crate::connection::Tries;
use crate::lanes::Lane;
use crate::measure::{Observer, RunError, RunOptions};
use crate::store::StoreError;
use crate::terminals::{self, Backend, Measured, Outcome, Perform};

/// A transaction as it is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The key of its row in the history.
    pub id: u64,
    /// The account.
    pub account: u64,
    /// The teller.
    pub teller: u64,
    /// The teller's branch.
    pub branch: u64,
    /// The amount that is added to all three balances.
    pub delta: i64,
}

impl Entry {
    /// The filler of its row in the history.
    #[must_use]
    pub fn filler(&self) -> [u8; HISTORY_FILLER] {
        fill(self.id)
    }
}

/// A database with the four tables, to which many workers may come.
pub trait Bank: Sync {
    /// The place at which one worker enters transactions.
    type Connection<'a>: BankConnection
    where
        Self: 'a;

    /// Its name in errors.
    fn name(&self) -> &str;

    /// A place for one more worker.
    ///
    /// # Errors
    /// The database's.
    fn connect(&self) -> Result<Self::Connection<'_>, StoreError>;

    /// Populates it; durable when it returns. [`Pages`] has the rows.
    ///
    /// # Errors
    /// The database's.
    fn load<O: Observer>(&self, spec: &Spec, progress: &O) -> Result<(), StoreError>;

    /// Reads all that the checks compare.
    ///
    /// # Errors
    /// The database's.
    fn books(&self) -> Result<Books, StoreError>;

    /// Runs a workload on it. The progress counts the transactions of each worker.
    ///
    /// # Errors
    /// The first error of any worker. Peers have one partition, and commits that are durable.
    fn run<O: Observer>(
        &self,
        workload: &Workload,
        options: &RunOptions,
        progress: &O,
    ) -> Result<Measured, RunError>
    where
        Self: Sized,
    {
        terminals::check_peer(self.name(), "TPC-B", workload.spec().partitions, options)?;
        terminals::drive(&BankBackend { bank: self, workload }, 1, options, progress)
    }
}

/// A place at which transactions are entered.
pub trait BankConnection {
    /// Books a transaction, durably, and returns the account's balance after it.
    ///
    /// # Errors
    /// The database's; nothing of the transaction is left then.
    fn book(&mut self, entry: &Entry) -> Result<i64, StoreError>;
}

struct BankBackend<'a, B> {
    bank: &'a B,
    workload: &'a Workload,
}

impl<B: Bank> Backend for BankBackend<'_, B> {
    type Terminal<'a>
        = BankTerminal<'a, B>
    where
        Self: 'a;

    const KINDS: usize = 1;

    fn name(&self) -> &str {
        self.bank.name()
    }

    fn transactions(&self, partition: usize) -> usize {
        self.workload.inputs(partition).len()
    }

    fn kind(&self, _: usize, _: usize) -> (usize, bool) {
        (0, false)
    }

    fn terminal(&self, _: Lane) -> Result<BankTerminal<'_, B>, StoreError> {
        Ok(BankTerminal { connection: self.bank.connect()?, workload: self.workload })
    }
}

struct BankTerminal<'a, B: Bank + 'a> {
    connection: B::Connection<'a>,
    workload: &'a Workload,
}

impl<B: Bank> Perform for BankTerminal<'_, B> {
    fn perform(&mut self, number: usize) -> Result<Outcome, StoreError> {
        let input = self.workload.inputs(0)[number];
        let entry = Entry {
            id: self.workload.id(0, number),
            account: input.account,
            teller: u64::from(input.teller),
            branch: input.branch(),
            delta: i64::from(input.delta),
        };
        std::hint::black_box(self.connection.book(&entry)?);
        Ok(Outcome::Committed)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn tries(&self) -> Tries {
        Tries::default()
    }
}

/// The rows of a population: numbers and fillers; balances are zero.
#[derive(Debug, Clone, Copy)]
pub struct Pages<'a>(
    /// The specification.
    pub &'a Spec,
);

impl Pages<'_> {
    /// The branches.
    pub fn branches(&self) -> impl Iterator<Item = (u64, [u8; BRANCH_FILLER])> + use<> {
        (1..=u64::from(self.0.branches)).map(|id| (id, fill(id)))
    }

    /// The tellers, each with its branch.
    pub fn tellers(&self) -> impl Iterator<Item = (u64, u64, [u8; TELLER_FILLER])> + use<> {
        let last = u64::from(self.0.branches) * TELLERS;
        (1..=last).map(|id| (id, (id - 1) / TELLERS + 1, fill(id)))
    }

    /// The accounts, each with its branch.
    pub fn accounts(&self) -> impl Iterator<Item = (u64, u64, [u8; ACCOUNT_FILLER])> + use<> {
        let accounts = u64::from(self.0.accounts);
        let last = u64::from(self.0.branches) * accounts;
        (1..=last).map(move |id| (id, (id - 1) / accounts + 1, fill(id)))
    }
}

/// The balances of a bank, by number, and the sums of its history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Books {
    /// Branches and their balances.
    pub branches: Balances,
    /// Tellers and their balances.
    pub tellers: Balances,
    /// Accounts and their balances.
    pub accounts: Balances,
    /// The amounts of the history, summed by branch.
    pub history_of_branches: Balances,
    /// The amounts of the history, summed by teller.
    pub history_of_tellers: Balances,
    /// The amounts of the history, summed by account.
    pub history_of_accounts: Balances,
    /// Rows of the history.
    pub entries: u64,
}

impl Books {
    /// Adds a row of the history.
    pub fn add(&mut self, branch: u64, teller: u64, account: u64, delta: i64) {
        *self.history_of_branches.entry(branch).or_default() += delta;
        *self.history_of_tellers.entry(teller).or_default() += delta;
        *self.history_of_accounts.entry(account).or_default() += delta;
        self.entries += 1;
    }

    /// Checks that the balances agree, as [`super::check()`] does, and that the history has so many
    /// rows.
    #[must_use]
    pub fn check(&self, spec: &Spec, entries: u64) -> Vec<Check> {
        let mut of_tellers = Balances::new();
        for (teller, balance) in &self.tellers {
            *of_tellers.entry((teller - 1) / TELLERS + 1).or_default() += balance;
        }
        let against = |what, balances: &Balances, history: &Balances| {
            differs(what, balances, "its history", |id| history.get(id))
                .or_else(|| stray(what, balances, history.keys()))
        };
        let found = [
            differs("branch", &self.branches, "its tellers'", |id| of_tellers.get(id)),
            against("branch", &self.branches, &self.history_of_branches),
            against("teller", &self.tellers, &self.history_of_tellers),
            against("account", &self.accounts, &self.history_of_accounts),
            self.incomplete(spec, entries),
        ];
        let check = |((name, what), violation)| Check { name, what, violation };
        DEMANDS.into_iter().zip(found).map(check).collect()
    }

    /// The rows that are too many or too few.
    fn incomplete(&self, spec: &Spec, entries: u64) -> Option<String> {
        let pages = Pages(spec);
        let complete = self.branches.keys().copied().eq(pages.branches().map(|row| row.0))
            && self.tellers.keys().copied().eq(pages.tellers().map(|row| row.0))
            && self.accounts.keys().copied().eq(pages.accounts().map(|row| row.0))
            && self.entries == entries;
        (!complete).then(|| {
            let (branches, tellers) = (self.branches.len(), self.tellers.len());
            let (accounts, rows) = (self.accounts.len(), self.entries);
            format!(
                "{branches} branches, {tellers} tellers, {accounts} accounts, {rows} rows of \
                 history after {entries} transactions"
            )
        })
    }
}
