//! Peers that run a workload of [`terminals`](super::terminals) which none of ours runs for them.

use std::path::Path;

use command::failure::Failure;
use command::system::System;
use peers::{LmdbBank, PeerKind, PostgresBank, SqliteBank, SqliteRegister};
use workloads::tatp::{self, Inspection, Register};
use workloads::tpcb::{Bank, Books, Spec, Workload};
use workloads::{Check, Measured, Progress, RunError, RunOptions, StoreError};

/// A populated peer, as a benchmark sees it.
pub(super) trait Populated<P>: Send + Sync {
    /// Runs a piece.
    ///
    /// # Errors
    /// The peer's.
    fn run(
        &self,
        piece: &P,
        options: &RunOptions,
        progress: &Progress,
    ) -> Result<Measured, RunError>;

    /// Reads the whole store after these runs. Returns the number of its rows and the checks.
    ///
    /// # Errors
    /// The peer's errors. A check that does not hold is a result, not an error.
    fn check(&self, runs: &[&Measured]) -> Result<(u64, Vec<Check>), StoreError>;

    /// Bytes that its files take.
    ///
    /// # Errors
    /// They cannot be examined.
    fn footprint_bytes(&self) -> Result<u64, StoreError>;
}

/// Creates and populates a peer for TPC-B, for so many transactions in so many workers.
///
/// # Errors
/// The peer's, or it does not run TPC-B.
pub(super) fn of_tpcb(
    kind: PeerKind,
    directory: &Path,
    spec: &Spec,
    (transactions, workers): (u64, usize),
    progress: &Progress,
) -> Result<Box<dyn Populated<Workload>>, Failure> {
    let fail = |error: StoreError| Failure::about(kind, error);
    match kind {
        PeerKind::Sqlite => {
            let bank = SqliteBank::create(directory).map_err(fail)?;
            bank.load(spec, progress).map_err(fail)?;
            Ok(Box::new(Embedded { bank, spec: spec.clone(), bytes: SqliteBank::footprint_bytes }))
        }
        PeerKind::Lmdb => {
            let bank = LmdbBank::create(directory, spec, transactions).map_err(fail)?;
            bank.load(spec, progress).map_err(fail)?;
            Ok(Box::new(Embedded { bank, spec: spec.clone(), bytes: LmdbBank::footprint_bytes }))
        }
        PeerKind::Postgres => {
            let bank = PostgresBank::create(directory, spec, workers, progress).map_err(fail)?;
            Ok(Box::new(Served { bank, spec: spec.clone() }))
        }
        _ => {
            let all = PeerKind::TPCB.map(PeerKind::name).join(", ");
            Err(Failure::about(System::Peer(kind), format!("of the peers, {all} run TPC-B")))
        }
    }
}

/// Creates and populates a peer for TATP.
///
/// # Errors
/// The peer's, or it does not run TATP.
pub(super) fn of_tatp(
    kind: PeerKind,
    directory: &Path,
    spec: &tatp::Spec,
    progress: &Progress,
) -> Result<Box<dyn Populated<tatp::Workload>>, Failure> {
    let fail = |error: StoreError| Failure::about(kind, error);
    if kind != PeerKind::Sqlite {
        let all = PeerKind::TATP.map(PeerKind::name).join(", ");
        return Err(Failure::about(kind, format!("of the peers, {all} runs TATP")));
    }
    let register = SqliteRegister::create(directory).map_err(fail)?;
    register.load(spec, progress).map_err(fail)?;
    Ok(Box::new(Registered { register, spec: spec.clone() }))
}

/// SQLite with TATP's tables.
struct Registered {
    register: SqliteRegister,
    spec: tatp::Spec,
}

impl Populated<tatp::Workload> for Registered {
    fn run(
        &self,
        piece: &tatp::Workload,
        options: &RunOptions,
        progress: &Progress,
    ) -> Result<Measured, RunError> {
        self.register.run(piece, options, progress)
    }

    fn check(&self, runs: &[&Measured]) -> Result<(u64, Vec<Check>), StoreError> {
        let mut inspection = Inspection::new(&self.spec);
        let rows = self.register.show(&mut inspection)?;
        Ok((rows, inspection.end(runs)))
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        self.register.footprint_bytes()
    }
}

/// One in this process, in our loop.
struct Embedded<B> {
    bank: B,
    spec: Spec,
    bytes: fn(&B) -> Result<u64, StoreError>,
}

impl<B: Bank + Send> Populated<Workload> for Embedded<B> {
    fn run(
        &self,
        piece: &Workload,
        options: &RunOptions,
        progress: &Progress,
    ) -> Result<Measured, RunError> {
        self.bank.run(piece, options, progress)
    }

    fn check(&self, runs: &[&Measured]) -> Result<(u64, Vec<Check>), StoreError> {
        Ok(checked(&self.bank.books()?, &self.spec, runs))
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        (self.bytes)(&self.bank)
    }
}

/// A server with a program that runs transactions on it.
struct Served {
    bank: PostgresBank,
    spec: Spec,
}

impl Populated<Workload> for Served {
    fn run(
        &self,
        piece: &Workload,
        options: &RunOptions,
        progress: &Progress,
    ) -> Result<Measured, RunError> {
        self.bank.run(piece, options, progress)
    }

    fn check(&self, runs: &[&Measured]) -> Result<(u64, Vec<Check>), StoreError> {
        Ok(checked(&self.bank.books()?, &self.spec, runs))
    }

    fn footprint_bytes(&self) -> Result<u64, StoreError> {
        self.bank.footprint_bytes()
    }
}

fn checked(books: &Books, spec: &Spec, runs: &[&Measured]) -> (u64, Vec<Check>) {
    let transactions = runs.iter().map(|measured| measured.transactions()).sum();
    let rows = books.branches.len() + books.tellers.len() + books.accounts.len();
    (rows as u64 + books.entries, books.check(spec, transactions))
}
