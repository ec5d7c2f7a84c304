//! The balances that must agree (clause 2.3), and the rows that must be there.

use std::collections::{BTreeMap, HashMap};

use perdura::{Database, Environment, Error, Row, Scan, Value};

use super::schema::{ACCOUNT_FILLER, BRANCH_FILLER, TELLER_FILLER, Tables, fill};
use super::spec::Spec;
use crate::checks::Check;
use crate::reads::Reads;

/// Balances by number.
pub(super) type Balances = BTreeMap<u64, i64>;

/// The demands, by their names.
pub(super) const DEMANDS: [(&str, &str); 5] = [
    ("branches_tellers", "a branch's balance is the sum of its tellers'"),
    ("branches_history", "a branch's balance is the sum of its history"),
    ("tellers_history", "a teller's balance is the sum of its history"),
    ("accounts_history", "an account's balance is the sum of its history"),
    ("population", "branches, tellers and accounts are those that were loaded"),
];

/// Checks a whole database: in each partition every balance of a branch is the sum of those of its
/// tellers and of its history, that of a teller and of an account the sum of its history, and the rows
/// of the population are there, no others, and as they were loaded but for their balances.
///
/// # Errors
/// The database's own. A check that does not hold is no error but the result.
pub fn check<E: Environment>(database: &Database<E>, spec: &Spec) -> Result<Vec<Check>, Error> {
    let tables = Tables::of(database)?;
    let mut checks = DEMANDS.map(|(name, what)| Check { name, what, violation: None });
    for partition in 0..database.partition_count() {
        let found = database.partition(partition).read(|tx| look(tx, &tables, spec, partition))?;
        for (check, found) in checks.iter_mut().zip(found) {
            check.violation = check.violation.take().or(found);
        }
    }
    Ok(checks.into())
}

/// The contradictions in one partition, in the order of the checks.
fn look<T: Reads>(
    tx: &T,
    tables: &Tables,
    spec: &Spec,
    partition: usize,
) -> Result<[Option<String>; 5], Error> {
    let mut paid = [HashMap::new(), HashMap::new(), HashMap::new()];
    tx.each(&tables.history, &Scan::all(), |row| {
        for (column, paid) in [2, 1, 3].into_iter().zip(&mut paid) {
            *paid.entry(row.u64(column)).or_insert(0) += row.i64(4);
        }
    })?;
    let [by_branch, by_teller, mut by_account] = paid;
    let (mut branches, mut tellers) = (Balances::new(), Balances::new());
    let mut of_tellers = Balances::new();
    let mut population = Population::default();
    tx.each(&tables.branch, &Scan::all(), |row| {
        population.has::<BRANCH_FILLER>("branch", row, None);
        branches.insert(row.u64(0), row.i64(1));
    })?;
    tx.each(&tables.teller, &Scan::all(), |row| {
        let branch = (row.u64(0) - 1) / super::TELLERS + 1;
        population.has::<TELLER_FILLER>("teller", row, Some(branch));
        tellers.insert(row.u64(0), row.i64(2));
        *of_tellers.entry(row.u64(1)).or_default() += row.i64(2);
    })?;
    let mut accounts = None;
    tx.each(&tables.account, &Scan::all(), |row| {
        let branch = (row.u64(0) - 1) / u64::from(spec.accounts) + 1;
        population.has::<ACCOUNT_FILLER>("account", row, Some(branch));
        let (account, balance) = (row.u64(0), row.i64(2));
        let sum = by_account.remove(&account).unwrap_or(0);
        if accounts.is_none() && balance != sum {
            accounts =
                Some(format!("account {account}: its balance is {balance}, its history {sum}"));
        }
    })?;
    let stranger = by_account.keys().min();
    let stranger = stranger.map(|id| format!("history of account {id}, which does not exist"));
    let branch_numbers: Vec<u64> = spec.branches_of(partition).collect();
    let all = branch_numbers.len() as u64 * u64::from(spec.accounts);
    let wanted_tellers = branch_numbers.iter().flat_map(|branch| spec.tellers_of(*branch));
    let population = population.wrong.or_else(|| {
        let complete = branches.keys().eq(&branch_numbers)
            && tellers.keys().copied().eq(wanted_tellers)
            && population.accounts == all;
        let there = (branches.len(), tellers.len(), population.accounts);
        (!complete).then(|| {
            let (branches, tellers, accounts) = there;
            format!("partition {partition}: {branches} branches, {tellers} tellers, {accounts} accounts, not those that were loaded")
        })
    });
    Ok([
        differs("branch", &branches, "its tellers'", |id| of_tellers.get(id)),
        differs("branch", &branches, "its history", |id| by_branch.get(id))
            .or_else(|| stray("branch", &branches, by_branch.keys())),
        differs("teller", &tellers, "its history", |id| by_teller.get(id))
            .or_else(|| stray("teller", &tellers, by_teller.keys())),
        accounts.or(stranger),
        population,
    ])
}

/// The first balance that is not the sum of something else.
pub(super) fn differs<'a>(
    what: &str,
    balances: &Balances,
    of: &str,
    sum: impl Fn(&u64) -> Option<&'a i64>,
) -> Option<String> {
    balances.iter().find_map(|(id, balance)| {
        let sum = sum(id).copied().unwrap_or(0);
        (*balance != sum).then(|| format!("{what} {id}: its balance is {balance}, {of} {sum}"))
    })
}

/// History of something that does not exist.
pub(super) fn stray<'a>(
    what: &str,
    balances: &Balances,
    ids: impl Iterator<Item = &'a u64>,
) -> Option<String> {
    let stray = ids.filter(|id| !balances.contains_key(id)).min();
    stray.map(|id| format!("history of {what} {id}, which does not exist"))
}

/// The first fault of the rows of the population, and the number of accounts.
#[derive(Default)]
struct Population {
    wrong: Option<String>,
    accounts: u64,
}

impl Population {
    /// Looks at a row: its filler is the last column, its branch the second one.
    fn has<const FILLER: usize>(&mut self, table: &str, row: &Row, branch: Option<u64>) {
        self.accounts += u64::from(table == "account");
        let id = row.u64(0);
        let filler = row.get(row.len() - 1) == Value::Bytes(&fill::<FILLER>(id));
        let at_home = branch.is_none_or(|branch| row.u64(1) == branch);
        if self.wrong.is_none() && !(filler && at_home) {
            self.wrong = Some(format!("{table} {id} is not as it was loaded"));
        }
    }
}
