//! Truncation of the log while transactions are open: their older records move to the [cold
//! file](super::cold).

use pm::{Files, Memory};

use super::super::{LogManager, OpenRecords};
use super::cold::ColdFile;
use super::{NvLog, Refused, Unfreed, unsound};
use crate::Result;
use crate::ids::Lsn;
use crate::threads::Threads;

impl<M: Memory, T: Threads> NvLog<M, T> {
    /// Lets records that only an open transaction may need move to a file, which is created when there
    /// are some. Called before anything is read.
    ///
    /// # Errors
    /// The file is another one's, or cannot be read.
    pub fn keep_cold_in<F: Files>(&self, files: &F, name: String, stamp: u32) -> Result<()> {
        *self.cold.lock() = Some(Box::new(ColdFile::open(files, name, stamp, self.kept())?));
        Ok(())
    }

    /// Frees the log before `redo`, except for records that open transactions need and that cannot be
    /// moved to the cold file: then `unfreed` says what is left to do.
    pub(super) fn free_with_open(
        &self,
        unfreed: &mut Option<Unfreed>,
        start: Lsn,
        redo: Lsn,
        open: &[OpenRecords],
    ) -> Result<()> {
        self.force(start)?;
        let oldest = open.iter().map(|open| open.first).min().unwrap_or(redo);
        let all = oldest >= redo || self.put_by(redo, open)?;
        *unfreed = (!all).then(|| (start, redo, open.to_vec()));
        self.truncate(start, if all { redo } else { oldest })?;
        if oldest >= self.kept()
            && let Some(cold) = &mut *self.cold.lock()
        {
            cold.forget()?;
        }
        Ok(())
    }

    /// Frees what the last checkpoint could not: there may be space for cold records by now. Returns
    /// whether it has.
    pub(super) fn free_again(&self) -> Result<bool> {
        let mut unfreed = self.unfreed.lock();
        if self.cold.lock().is_none() {
            return Ok(false);
        }
        let Some((start, redo, open)) = unfreed.take() else { return Ok(false) };
        self.free_with_open(&mut unfreed, start, redo, &open)?;
        Ok(unfreed.is_none())
    }

    /// Puts the records of open transactions before `redo` by. Returns whether they are all there: else the
    /// ring keeps them, and the attempt counts as one that failed.
    pub(super) fn put_by(&self, redo: Lsn, open: &[OpenRecords]) -> Result<bool> {
        let old = open.iter().filter(|open| open.first < redo);
        old.clone().try_for_each(|open| self.force(open.last))?;
        let mut cold = self.cold.lock();
        let Some(cold) = &mut *cold else { return Ok(false) };
        let (mut records, mut needed) = (Vec::new(), false);
        for open in old {
            let mut at = open.last;
            // What is there already was moved there, durably, with all that is older: by this
            // program, or before the head moved past it.
            while at != Lsn::NONE && !cold.has(at) {
                let found = self.at(at).ok_or_else(|| unsound(at))?;
                if at < redo {
                    records.push(found.bytes);
                }
                at = found.read.placed.prev;
            }
            needed |= at != Lsn::NONE;
        }
        if records.is_empty() {
            return Ok(true);
        }
        if !needed {
            // The file has records of ended transactions alone. Their ends are durable: they lie
            // before the end of the checkpoint, which is. Under a load that has a transaction open
            // at each checkpoint, this is the only place where the file is cut off.
            cold.forget()?;
        }
        let Some(error) = cold.add(&records)? else { return Ok(true) };
        let mut refused = self.refused.lock();
        *refused = Refused { times: refused.times + 1, why: error.to_string() };
        Ok(false)
    }
}
