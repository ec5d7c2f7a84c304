//! The way in which a transaction leaves its sync to the group of its partition: see
//! [`crate::group`].

use std::time::Duration;

use engines::EngineError;

use crate::group::{Failed, Member};
use crate::partition_lock::{PartitionLock, WriteGuard};
use crate::sync::Stopwatch;

/// The time that a leader waits for the partition before it checks again whether another thread has
/// synced there.
const LEAD_WAIT: Duration = Duration::from_millis(1);

/// A thing that is taken in turns, as far as sharing a sync needs to know it.
pub(crate) trait Syncs {
    /// Makes all committed transactions durable.
    fn sync(&mut self) -> Result<(), EngineError>;

    /// The last committed transaction that is durable.
    fn durable(&self) -> u64;
}

impl<T: Syncs> WriteGuard<'_, T> {
    /// Gives the partition back, in which the transaction `number` was committed early, and returns
    /// when that is durable.
    pub(crate) fn leave_sync(mut self, number: u64) -> Result<(), Failed<EngineError>> {
        let partition_lock = self.partition_lock();
        let group = &partition_lock.group;
        let member = group.leave_sync(number);
        if !group.is_outside() && !group.expect(|| partition_lock.joining() > 0) {
            // No thread is to come that would sync.
            drop(member);
            return self.sync_all();
        }
        drop(self);
        partition_lock.wait(member)
    }

    /// Syncs, for all who wait for it.
    pub(crate) fn sync_all(&mut self) -> Result<(), Failed<EngineError>> {
        let partition_lock = self.partition_lock();
        let watch = Stopwatch::start();
        match self.sync() {
            Ok(()) => {
                partition_lock.group.made_durable(
                    self.durable(),
                    partition_lock.joining(),
                    watch.elapsed(),
                );
                Ok(())
            }
            Err(error) => {
                partition_lock.group.fail(&error);
                Err(Failed::Here(error))
            }
        }
    }
}

impl<T: Syncs> PartitionLock<T> {
    /// Returns when a transaction whose sync was left to the group, and all before it, are durable.
    /// For a thread that may have seen the transaction. Called without the partition.
    #[inline]
    pub(crate) fn wait_durable(&self, number: u64) -> Result<(), Failed<EngineError>> {
        if self.group.is_durable(number) { Ok(()) } else { self.wait_as_member(number) }
    }

    #[cold]
    fn wait_as_member(&self, number: u64) -> Result<(), Failed<EngineError>> {
        self.wait(self.group.join(number))
    }

    fn wait(&self, member: Member<'_>) -> Result<(), Failed<EngineError>> {
        let number = member.number();
        let done = member.wait(|| match &self.syncer {
            Some(syncer) => syncer.sync().map(Some),
            None => self.lead(number),
        });
        if let (Err(Failed::Here(_)), true) = (&done, self.group.is_outside())
            && let Ok(mut engine) = self.write_for(Duration::ZERO)
        {
            // The engine notices the failure, and stops; if the partition is taken, its holder does
            // that.
            let _ = engine.sync();
        }
        done
    }

    /// Syncs in the partition, if it can be had.
    fn lead(&self, number: u64) -> Result<Option<u64>, EngineError> {
        let Ok(mut engine) = self.write_for(LEAD_WAIT) else { return Ok(None) };
        if engine.durable() < number {
            engine.sync()?;
        }
        Ok(Some(engine.durable()))
    }
}
