//! Repeating history.

use super::Target;
use super::analysis::Analysis;
use crate::Result;
use crate::log::{Kind, LogManager};

/// Repeats every change and compensation that a page may lack, in order, also those of transactions
/// that will be undone; returns how many changed a page.
///
/// # Errors
/// The log or a page could not be read, or is damaged.
pub fn redo(log: &dyn LogManager, target: &dyn Target, found: &Analysis) -> Result<u64> {
    let mut redone = 0;
    log.scan(found.redo, &mut |record| {
        if !matches!(record.kind, Kind::Change | Kind::Compensation) {
            return Ok(());
        }
        let mut may_lack = false;
        target.pages(&record, &mut |page| {
            may_lack |= found.dirty.get(&page).is_some_and(|first| *first <= record.lsn);
        });
        if may_lack {
            redone += u64::from(target.redo(&record)?);
        }
        Ok(())
    })?;
    Ok(redone)
}
