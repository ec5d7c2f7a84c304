//! A toy of a storage manager: a few pages of rows `key → sum` in a file, with steal and no-force.
//!
//! A change adds to a row, and adding the negative takes it back wherever the row is then: a system
//! transaction moves rows between pages with one record for both.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use paged::ids::{Lsn, PageNo};
use paged::log::{Chain, Kind, LogManager, Logged, Record, RoomWait};
use paged::recovery::checkpoint::Pages;
use paged::recovery::{Target, Transaction, Undoing};
use paged::threads::Threads;
use paged::{PagedError, Result};
use pm::{File, Files};
use sim::{RecordedFile, RecordingFiles};

pub(crate) const PAGES: u64 = 4;
pub(crate) const KEYS: u64 = 8;
const PAGE_BYTES: usize = 512;
const NAME: &str = "pages";

/// Sets room aside, and waits for it where there is none.
pub(crate) fn reserve(log: &dyn LogManager, threads: &impl Threads, chain: &mut Chain, bytes: u64) {
    let wait = Arc::new(RoomWait::default());
    while let Err(error) = log.reserve(chain, bytes) {
        assert!(matches!(error, PagedError::LogFull { .. }), "{error}");
        wait.begin();
        log.await_room(&wait);
        if log.reserve(chain, bytes).is_ok() {
            break;
        }
        threads.park(&wait.waiter, None);
    }
    log.forget_wait(&wait);
}

/// A policy that is wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    None,
    /// A page goes to its medium before its log.
    PageBeforeLog,
    /// A page counts as clean before it is durable.
    CleanBeforeSync,
    /// Redo does not look at the page's LSN.
    RedoAlways,
    /// Undo goes by the number of the page.
    UndoByPage,
    /// A checkpoint does not know of dirty pages.
    NoDirtyPages,
}

#[derive(Clone, Debug, Default)]
struct Page {
    lsn: Lsn,
    rows: BTreeMap<u64, u64>,
    /// The LSN with which it is in the table of dirty pages.
    dirty: Option<Lsn>,
}

#[derive(Debug)]
pub(crate) struct Toy {
    file: RecordedFile,
    pages: RefCell<BTreeMap<u64, Page>>,
    fault: Fault,
}

pub(crate) fn change(key: u64, delta: u64) -> Vec<u8> {
    [0, key, delta].iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
}

fn words(payload: &[u8]) -> Vec<u64> {
    payload.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

impl Toy {
    /// Makes the file: every row is zero. Its name is durable when the log has been made.
    pub(crate) fn create(files: &RecordingFiles) {
        let file = files.create(NAME).unwrap();
        for page in 1..=PAGES {
            let rows = (0..KEYS).filter(|key| 1 + key % PAGES == page).map(|key| (key, 0));
            let page_now = Page { rows: rows.collect(), ..Page::default() };
            file.write_at((page - 1) * PAGE_BYTES as u64, &bytes_of(&page_now)).unwrap();
        }
        file.sync().unwrap();
    }

    pub(crate) fn open(files: &RecordingFiles, fault: Fault) -> Self {
        let file = files.open(NAME).unwrap();
        let mut pages = BTreeMap::new();
        for number in 1..=PAGES {
            let mut bytes = [0; PAGE_BYTES];
            file.read_at((number - 1) * PAGE_BYTES as u64, &mut bytes).unwrap();
            let words = words(&bytes);
            let rows = words[2..].chunks(2).take(words[1] as usize).map(|row| (row[0], row[1]));
            pages.insert(number, Page { lsn: Lsn(words[0]), rows: rows.collect(), dirty: None });
        }
        Self { file, pages: RefCell::new(pages), fault }
    }

    /// All rows, each of which is on one page.
    pub(crate) fn rows(&self) -> std::result::Result<BTreeMap<u64, u64>, String> {
        let mut all = BTreeMap::new();
        for page in self.pages.borrow().values() {
            for (key, value) in &page.rows {
                if all.insert(*key, *value).is_some() {
                    return Err(format!("row {key} is on two pages"));
                }
            }
        }
        if all.len() as u64 == KEYS { Ok(all) } else { Err(format!("rows are missing: {all:?}")) }
    }

    fn page_of(&self, key: u64) -> u64 {
        let pages = self.pages.borrow();
        *pages.iter().find(|(_, page)| page.rows.contains_key(&key)).expect("every row is").0
    }

    /// Registers pages as dirty, appends, and changes them.
    fn logged(
        &self,
        log: &dyn LogManager,
        numbers: &[u64],
        append: impl FnOnce(Lsn) -> Result<Lsn>,
        change: impl FnOnce(&mut BTreeMap<u64, Page>),
    ) -> Result<()> {
        let end = log.end();
        for number in numbers {
            self.pages.borrow_mut().get_mut(number).unwrap().dirty.get_or_insert(end);
        }
        let before = self.pages.borrow()[&numbers[0]].lsn;
        let lsn = append(before)?;
        let mut pages = self.pages.borrow_mut();
        change(&mut pages);
        for number in numbers {
            pages.get_mut(number).unwrap().lsn = lsn;
        }
        Ok(())
    }

    /// Adds to a row.
    pub(crate) fn add(
        &self,
        log: &dyn LogManager,
        transaction: &mut Transaction,
        key: u64,
        delta: u64,
    ) -> Result<()> {
        let page = self.page_of(key);
        let payload = change(key, delta);
        let append = |page_before| {
            let record = Record {
                page: PageNo(page),
                page_before,
                payload: &payload,
                ..Record::bare(Kind::Change)
            };
            transaction.append(log, &record)
        };
        self.logged(log, &[page], append, |pages| {
            let value = pages.get_mut(&page).unwrap().rows.get_mut(&key).unwrap();
            *value = value.wrapping_add(delta);
        })
    }

    /// Moves a row to another page, by a system transaction.
    pub(crate) fn relocate(&self, log: &dyn LogManager, key: u64, to: u64) -> Result<()> {
        let from = self.page_of(key);
        if from == to {
            return Ok(());
        }
        let value = self.pages.borrow()[&from].rows[&key];
        let payload: Vec<u8> =
            [1, key, value, to].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        let append = |page_before| {
            let record = Record {
                page: PageNo(from),
                page_before,
                payload: &payload,
                ..Record::bare(Kind::Change)
            };
            log.append(&mut Chain::default(), &record)
        };
        self.logged(log, &[from, to], append, |pages| {
            pages.get_mut(&from).unwrap().rows.remove(&key);
            pages.get_mut(&to).unwrap().rows.insert(key, value);
        })
    }

    /// Writes a page, whichever transaction has changed it.
    pub(crate) fn write(&self, log: &dyn LogManager, number: u64) -> Result<()> {
        let page = self.pages.borrow()[&number].clone();
        if page.dirty.is_none() {
            return Ok(());
        }
        if self.fault != Fault::PageBeforeLog {
            log.force(page.lsn)?;
        }
        self.file.write_at((number - 1) * PAGE_BYTES as u64, &bytes_of(&page)).unwrap();
        if self.fault != Fault::CleanBeforeSync {
            self.file.sync().unwrap();
        }
        self.pages.borrow_mut().get_mut(&number).unwrap().dirty = None;
        Ok(())
    }
}

fn bytes_of(page: &Page) -> Vec<u8> {
    let head = [page.lsn.0, page.rows.len() as u64];
    let words = head.into_iter().chain(page.rows.iter().flat_map(|(key, value)| [*key, *value]));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.resize(PAGE_BYTES, 0);
    bytes
}

/// A toy and the log that is forced before its pages are written.
#[derive(Debug)]
pub(crate) struct WithLog<'a>(pub(crate) &'a Toy, pub(crate) &'a dyn LogManager);

impl Pages for WithLog<'_> {
    fn write_before(&self, lsn: Lsn) -> Result<()> {
        for number in 1..=PAGES {
            if self.0.pages.borrow()[&number].dirty.is_some_and(|dirty| dirty < lsn) {
                self.0.write(self.1, number)?;
            }
        }
        Ok(())
    }

    fn dirty(&self) -> Vec<(PageNo, Lsn)> {
        if self.0.fault == Fault::NoDirtyPages {
            return Vec::new();
        }
        let pages = self.0.pages.borrow();
        pages.iter().filter_map(|(page, now)| Some((PageNo(*page), now.dirty?))).collect()
    }

    fn note(&self, _: Lsn) -> Result<()> {
        Ok(())
    }
}

impl Target for Toy {
    fn pages(&self, record: &Logged, visit: &mut dyn FnMut(PageNo)) -> Result<()> {
        visit(record.page);
        let words = words(&record.payload);
        if words[0] == 1 {
            visit(PageNo(words[3]));
        }
        Ok(())
    }

    fn redo(&self, record: &Logged) -> Result<bool> {
        let words = words(&record.payload);
        let mut pages = self.pages.borrow_mut();
        let mut redone = false;
        let mut on = |number: u64, change: &mut dyn FnMut(&mut Page)| {
            let page = pages.get_mut(&number).expect("the page exists");
            if page.lsn < record.lsn || self.fault == Fault::RedoAlways {
                change(page);
                page.lsn = record.lsn;
                page.dirty.get_or_insert(record.lsn);
                redone = true;
            }
        };
        if words[0] == 0 {
            on(record.page.0, &mut |page| {
                if let Some(value) = page.rows.get_mut(&words[1]) {
                    *value = value.wrapping_add(words[2]);
                }
            });
        } else {
            on(record.page.0, &mut |page| {
                page.rows.remove(&words[1]);
            });
            on(words[3], &mut |page| {
                page.rows.insert(words[1], words[2]);
            });
        }
        Ok(redone)
    }

    fn undo(&self, record: &Logged, undoing: &mut Undoing<'_>) -> Result<()> {
        let words = words(&record.payload);
        let (key, delta) = (words[1], words[2].wrapping_neg());
        let page = match self.fault {
            Fault::UndoByPage => record.page.0,
            _ => self.page_of(key),
        };
        let log = undoing.log;
        let append = |before| undoing.compensate(PageNo(page), before, &change(key, delta));
        self.logged(log, &[page], append, |pages| {
            if let Some(value) = pages.get_mut(&page).unwrap().rows.get_mut(&key) {
                *value = value.wrapping_add(delta);
            }
        })
    }
}
