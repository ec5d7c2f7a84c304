//! Work on a whole database: syncs, checkpoints, work that was put off, figures, the check.

use engines::below::{Bad, Description, Environment, Memory, Purpose};
use engines::{CheckReport, EngineStats, Footprint, StructureStats};

use super::{Copying, Database};
use crate::declared;
use crate::error::Error;
use crate::partition_lock::PartitionLock;
use crate::reachable::Reachable;

impl<E: Environment> Database<E> {
    /// Makes everything committed so far durable.
    ///
    /// # Errors
    /// The medium failed; or, when all is durable, [`Error::Background`].
    pub fn sync(&self) -> Result<(), Error> {
        for number in 0..self.partitions.len() {
            self.partition(number).write_lock()?.sync()?;
        }
        self.background_error()
    }

    /// Takes a checkpoint of every partition, in engines that have such a thing.
    ///
    /// # Errors
    /// No room, or the medium failed; or, when it is done, [`Error::Background`].
    pub fn checkpoint(&self) -> Result<(), Error> {
        for number in 0..self.partitions.len() {
            self.partition(number).write_lock()?.checkpoint()?;
        }
        self.background_error()
    }

    /// Does about `budget` bytes, in each partition, of the work that its engine has put off, such
    /// as merging the runs of a log-structured engine. Returns about how many bytes still wait.
    ///
    /// This call is optional. Without it, commits do what is needed to keep memory, files and the
    /// number of runs bounded; with [`crate::Background::Thread`] a thread does it instead. The
    /// call is for an application that knows when it has time:
    ///
    /// ```
    /// # use perdura::*;
    /// # fn main() -> Result<(), Error> {
    /// # let directory = std::env::temp_dir().join(format!("perdura-bg-{}", std::process::id()));
    /// # std::fs::create_dir_all(&directory).unwrap();
    /// # let table = TableSchema::new("t").column("k", ColumnType::U64).key(&["k"]);
    /// # let schema = Schema::new().table(table);
    /// # let options = Options::new().engine(EngineKind::Log);
    /// # let db = Database::create(directory.join("db"), &schema, &options)?;
    /// # let t = db.table("t")?;
    /// for key in 0..100 {
    ///     db.write(|tx| tx.insert(&t, &[Value::U64(key)]))?;
    /// }
    /// // No transaction waits now, so all of it can be done.
    /// while db.background(64 << 10)? > 0 {}
    /// assert_eq!(db.stats()?.waiting_bytes, 0);
    /// # drop(db);
    /// # std::fs::remove_dir_all(&directory).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A step failed, perhaps for lack of room. It changed nothing, and is tried again. Or, when
    /// all is done, [`Error::Background`].
    pub fn background(&self, budget: u64) -> Result<u64, Error> {
        let mut waiting = 0;
        for number in 0..self.partitions.len() {
            waiting += self.partition(number).write_lock()?.background(budget)?;
        }
        self.background_error()?;
        Ok(waiting)
    }

    /// Returns what the engine has done since it was opened, and what it has put off, all
    /// partitions together.
    ///
    /// # Errors
    /// [`Error::Nested`].
    pub fn stats(&self) -> Result<EngineStats, Error> {
        let mut stats = self.partition(0).read_lock()?.stats();
        for number in 1..self.partitions.len() {
            stats += self.partition(number).read_lock()?.stats();
        }
        Ok(stats)
    }

    /// Returns the structures that are placed one by one ([`crate::Placement`]): the indexes of
    /// `sofort`. Other engines have none.
    ///
    /// # Errors
    /// [`Error::Nested`].
    pub fn structures(&self) -> Result<Vec<StructureStats>, Error> {
        let mut all: Vec<StructureStats> = Vec::new();
        for number in 0..self.partitions.len() {
            let structures = self.partition(number).read_lock()?.structures();
            if number == 0 {
                all = structures;
                continue;
            }
            // Every partition has the same ones, in the same order.
            for (sum, structure) in all.iter_mut().zip(structures) {
                sum.waiting += structure.waiting;
                sum.built += structure.built;
                sum.uses += structure.uses;
            }
        }
        Ok(all)
    }

    /// Bytes of storage by component: on the medium, and in the volatile memory of engines that
    /// have tables, MemTables or caches there (P1 5.6 counts them, since its machine has no other
    /// memory).
    ///
    /// # Errors
    /// Damage, or files that cannot be reached.
    pub fn footprint(&self) -> Result<Footprint, Error> {
        let mut footprint = Footprint::default();
        let mut chunks = 0;
        for chunk in self.heap.chunk_use()? {
            let bytes = self.heap.chunk_bytes();
            chunks += bytes;
            match chunk.purpose {
                Some(Purpose::Table) => footprint.table += bytes,
                Some(Purpose::Index) => footprint.index += bytes,
                Some(Purpose::Log) => footprint.log += bytes,
                _ => footprint.other += bytes,
            }
        }
        footprint.other += self.heap.memory().len() - chunks;
        for number in 0..self.partitions.len() {
            footprint += self.partition(number).read_lock()?.footprint()?;
        }
        Ok(footprint)
    }

    /// Checks the whole database: every index, every tuple, and that the allocator's view is
    /// exactly what the data lead to.
    ///
    /// # Errors
    /// The first damage that is found.
    pub fn check(&self) -> Result<CheckReport, Error> {
        let guards = self.copy_all()?;
        let mut owned = Vec::new();
        let mut report = CheckReport::default();
        let mut reach = |offset| owned.push(offset);
        if let Some((_, at)) = Description::read(&self.heap)? {
            reach(at);
        }
        for engine in &guards {
            report.tuples += engine.check(&mut reach)?;
            declared::check_unique(&***engine, &self.catalog)?;
        }
        let reachable = Reachable::new(owned);
        if let Some(at) = reachable.owned_twice().next() {
            return Err(Error::Damaged(Bad::Damaged { what: "object with two owners", at }));
        }
        let mut persisted = 0;
        self.heap.for_each_persisted(|offset, _| {
            report.objects += 1;
            if reachable.contains(offset) {
                persisted += 1;
            } else {
                report.leaked += 1;
            }
        })?;
        report.dangling = reachable.count() - persisted;
        Ok(report)
    }

    /// Takes all partitions for a long read, with no transaction open in any. Waits for each as
    /// long as it takes, unless this thread has held one before.
    pub(crate) fn copy_all(&self) -> Result<Vec<Copying<'_, E>>, Error> {
        let patience = self.partitions.first().and_then(PartitionLock::patience);
        let copy = |number| self.partition(number).copy_lock(patience);
        (0..self.partitions.len()).map(copy).collect()
    }
}
