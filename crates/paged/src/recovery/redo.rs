//! Redo: repeats history.

use super::Target;
use super::analysis::Analysis;
use crate::Result;
use crate::log::{Kind, LogManager, Logged};

/// Repeats every change and compensation that a page may lack, in order, also those of transactions
/// that will be undone; returns how many changed a page.
///
/// # Errors
/// The log or a page could not be read, or is damaged.
pub fn redo(log: &dyn LogManager, target: &dyn Target, found: &Analysis) -> Result<u64> {
    let mut redone = 0;
    log.scan(found.redo, &mut |record| {
        if is_lacked(target, found, &record)? {
            redone += u64::from(target.redo(&record)?);
        }
        Ok(())
    })?;
    Ok(redone)
}

/// Works as [`redo`], past all that is damaged.
pub fn redo_past_damage(log: &dyn LogManager, target: &dyn Target, found: &Analysis) -> u64 {
    let mut redone = 0;
    // The log may end earlier than it should.
    let _ = log.scan(found.redo, &mut |record| {
        if is_lacked(target, found, &record).unwrap_or(false) {
            redone += u64::from(target.redo(&record).unwrap_or(false));
        }
        Ok(())
    });
    redone
}

/// Returns whether a record is of a change that a page may lack.
fn is_lacked(target: &dyn Target, found: &Analysis, record: &Logged) -> Result<bool> {
    if !matches!(record.kind, Kind::Change | Kind::Compensation) {
        return Ok(false);
    }
    let mut may_lack = false;
    target.pages(record, &mut |page| {
        may_lack |= found.dirty.get(&page).is_some_and(|first| *first <= record.lsn);
    })?;
    Ok(may_lack)
}
