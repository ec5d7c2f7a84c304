//! Analysis of what a crash has left: unfinished transactions, and pages that may lack a change.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Target;
use super::checkpoint::Tables;
use crate::ids::{Lsn, PageNo, TxNo};
use crate::log::record::record_bytes;
use crate::log::{Chain, Kind, LogManager};
use crate::{PagedError, Result};

/// The findings of [`analyse`].
#[derive(Debug)]
pub struct Analysis {
    /// The unfinished transactions. Room for undoing them is set aside.
    pub losers: Vec<Chain>,
    /// The pages that may lack a change, with the place of the first that they may lack.
    pub dirty: BTreeMap<PageNo, Lsn>,
    /// The place where redo begins.
    pub redo: Lsn,
    /// The greatest number of a transaction that was met.
    pub greatest: TxNo,
    /// Records that were read.
    pub records: u64,
}

/// The places of the records that each page may lack, in the order of the log.
pub type Places = BTreeMap<PageNo, Vec<Lsn>>;

/// The records of a transaction.
#[derive(Default)]
struct Logged {
    first: Lsn,
    last: Lsn,
    /// Its records with their bytes, until the checkpoint says up to which it has counted them.
    records: Vec<(Lsn, u64)>,
    /// The bytes of those after the checkpoint.
    later: u64,
}

/// A page that was changed since the log's start.
struct Changed {
    first: Lsn,
    /// The places of its records, for redo on demand.
    places: Vec<Lsn>,
}

impl Changed {
    fn at(first: Lsn) -> Self {
        Self { first, places: Vec::new() }
    }
}

/// Reads the log from its start to its end. For redo on demand it notes in `places` where the
/// records are that pages may lack.
///
/// # Errors
/// The log could not be read, or is damaged.
pub fn analyse(
    log: &dyn LogManager,
    target: &dyn Target,
    mut places: Option<&mut Places>,
) -> Result<Analysis> {
    let start = log.start();
    let mut open: FxHashMap<TxNo, Logged> = FxHashMap::default();
    let mut over: FxHashSet<TxNo> = FxHashSet::default();
    let mut changed: FxHashMap<PageNo, Changed> = FxHashMap::default();
    let mut tables = Tables::default();
    let (mut greatest, mut records) = (TxNo(0), 0);
    log.scan(start, &mut |record| {
        records += 1;
        greatest = greatest.max(record.tx);
        match record.kind {
            Kind::Change | Kind::Compensation => {
                target.pages(&record, &mut |page| {
                    if page != PageNo(0) {
                        let first = record.lsn;
                        let page = changed.entry(page).or_insert_with(|| Changed::at(first));
                        if places.is_some() {
                            page.places.push(record.lsn);
                        }
                    }
                })?;
            }
            Kind::CheckpointEnd if !tables.add(&record.payload, start) => {
                let what = "the end of a checkpoint is none".into();
                return Err(PagedError::DamagedLog { at: record.lsn, what });
            }
            _ => {}
        }
        if record.tx == TxNo(0) {
            return Ok(());
        }
        if matches!(record.kind, Kind::Commit | Kind::End) {
            over.insert(record.tx);
            open.remove(&record.tx);
            return Ok(());
        }
        let seen = open.entry(record.tx).or_default();
        if seen.first == Lsn::NONE {
            seen.first = record.lsn;
        }
        seen.last = record.lsn;
        let bytes = record_bytes(record.payload.len()) as u64;
        if tables.is_complete() {
            seen.later += bytes;
        } else {
            seen.records.push((record.lsn, bytes));
        }
        Ok(())
    })?;
    let mut dirty: BTreeMap<PageNo, Lsn> =
        changed.iter().map(|(page, changed)| (*page, changed.first)).collect();
    if let Some(places) = &mut places {
        places.extend(changed.into_iter().map(|(page, changed)| (page, changed.places)));
    }
    tables.drop_unfinished();
    for (page, lsn) in tables.dirty {
        let known = dirty.entry(page).or_insert(lsn);
        *known = lsn.min(*known);
    }
    let mut used_before: FxHashMap<TxNo, (Lsn, u64)> = FxHashMap::default();
    for seen in tables.open {
        greatest = greatest.max(seen.tx);
        if over.contains(&seen.tx) {
            continue;
        }
        let known = open.entry(seen.tx).or_default();
        known.first = seen.first;
        known.last = known.last.max(seen.last);
        used_before.insert(seen.tx, (seen.last, seen.used));
    }
    let mut losers = Vec::new();
    for (tx, known) in open {
        let (counted, before) = used_before.get(&tx).copied().unwrap_or_default();
        let later = known.records.iter().filter(|(lsn, _)| *lsn > counted);
        let used = before + later.map(|(_, bytes)| bytes).sum::<u64>() + known.later;
        let mut chain = Chain { first: known.first, last: known.last, used, ..Chain::new(tx) };
        log.adopt(&mut chain);
        losers.push(chain);
    }
    losers.sort_by_key(|chain| chain.tx);
    let redo = dirty.values().min().copied().unwrap_or_else(|| log.end());
    if let Some(places) = places
        && redo < start
    {
        records += note_before(log, target, &dirty, (redo, start), places)?;
    }
    Ok(Analysis { losers, dirty, redo, greatest, records })
}

/// Notes the records before the checkpoint that a page may lack. Returns how many it read.
fn note_before(
    log: &dyn LogManager,
    target: &dyn Target,
    dirty: &BTreeMap<PageNo, Lsn>,
    (redo, start): (Lsn, Lsn),
    places: &mut Places,
) -> Result<u64> {
    let (mut before, mut records) = (Places::new(), 0);
    log.scan_to(redo, start, &mut |record| {
        records += 1;
        if matches!(record.kind, Kind::Change | Kind::Compensation) {
            target.pages(&record, &mut |page| {
                if dirty.get(&page).is_some_and(|first| *first <= record.lsn) {
                    before.entry(page).or_default().push(record.lsn);
                }
            })?;
        }
        Ok(())
    })?;
    for (page, mut first) in before {
        let later = places.entry(page).or_default();
        first.append(later);
        *later = first;
    }
    Ok(records)
}
