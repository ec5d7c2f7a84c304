//! A change of pages: logged, then applied; and the same from the log.

use pm::Files;

use super::{Pool, WritePage};
use crate::change::{Body, Payload, Place, Role};
use crate::flaw::Flaw;
use crate::ids::{Lsn, PageNo};
use crate::latch::Latching;
use crate::log::{Chain, Kind, LogManager, Logged, Record};
use crate::{PagedError, Result};

/// A [`Chain`], or what wraps one: it appends records, and knows which it appended last.
pub trait Appender {
    /// Appends a record.
    ///
    /// # Errors
    /// As [`LogManager::append`].
    fn append(&mut self, log: &dyn LogManager, record: &Record<'_>) -> Result<Lsn>;

    /// The record that it appended last.
    fn last(&self) -> Lsn;
}

impl Appender for Chain {
    fn append(&mut self, log: &dyn LogManager, record: &Record<'_>) -> Result<Lsn> {
        log.append(self, record)
    }

    fn last(&self) -> Lsn {
        self.last
    }
}

/// The kind of record that a change has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// It is done, and undone with its transaction if it is of one.
    Do,
    /// It undoes a record; `next` is undone then.
    Undo {
        /// The record that is undone next.
        next: Lsn,
    },
}

impl<F: Files, T: Latching> Pool<F, T> {
    /// Logs a change of latched pages and applies it. The caller has checked that it fits.
    ///
    /// # Errors
    /// The log has refused it: the pages are as they were. Or it could not be applied: the pool has
    /// stopped.
    pub(crate) fn perform<'p>(
        &self,
        chain: &mut dyn Appender,
        how: How,
        body: &Body<'_>,
        main: &mut WritePage<'p, T>,
        second: Option<&mut WritePage<'p, T>>,
        map: Option<&mut WritePage<'p, T>>,
    ) -> Result<Lsn> {
        self.check_running()?;
        let (number, page_before) = (main.place(), main.lsn());
        let mut pages = [
            Some((Role::Main, main)),
            second.map(|page| (Role::Second, page)),
            map.map(|page| (Role::Map, page)),
        ];
        debug_assert!(
            pages
                .iter()
                .flatten()
                .map(|(role, page)| (*role, page.place()))
                .eq(body.change.pages(number, self.page_bytes())),
            "the latched pages are those of the change"
        );
        let end = self.log.end();
        for (_, page) in pages.iter().flatten() {
            page.prepare(end);
        }
        let mut payload = Payload::new();
        body.encode(&mut payload);
        let (kind, undo_next) = match how {
            How::Do => (Kind::Change, Lsn::NONE),
            How::Undo { next } => (Kind::Compensation, next),
        };
        let record = Record { kind, page: number, page_before, undo_next, payload: &payload };
        let appended = chain.append(&*self.log, &record).inspect_err(|_| {
            for (_, page) in pages.iter().flatten() {
                page.unprepare(end);
            }
        });
        let lsn = appended?;
        for (role, page) in pages.iter_mut().flatten() {
            let place = self.place(page.place(), *role, number, body);
            let applied = page.change(|page| {
                body.change.apply(page, &place)?;
                page.set_lsn(lsn);
                Ok(())
            });
            applied.map_err(|error| self.stop(error))?;
        }
        Ok(lsn)
    }

    pub(super) fn place(&self, number: PageNo, role: Role, main: PageNo, body: &Body<'_>) -> Place {
        Place { number, role, main, tree: body.tree, stamp: self.stamp }
    }

    /// Redoes a record on all its pages that do not have it. Returns on how many.
    ///
    /// # Errors
    /// The record is no change, a page is damaged, or log and page do not belong together.
    pub fn redo(&self, logged: &Logged) -> Result<usize> {
        let body = body_of(logged)?;
        let mut redone = 0;
        for (role, page) in body.change.pages(logged.page, self.page_bytes()) {
            redone += usize::from(self.redo_part(logged, &body, role, page)?);
        }
        Ok(redone)
    }

    /// Applies a record to one of its pages, unless the page's LSN shows that it has it. Returns
    /// whether it was applied.
    ///
    /// # Errors
    /// As [`Self::redo`].
    pub fn redo_page(&self, logged: &Logged, page: PageNo) -> Result<bool> {
        let body = body_of(logged)?;
        let mut pages = body.change.pages(logged.page, self.page_bytes());
        match pages.find(|(_, of)| *of == page) {
            Some((role, _)) => self.redo_part(logged, &body, role, page),
            None => Ok(false),
        }
    }

    fn redo_part(
        &self,
        logged: &Logged,
        body: &Body<'_>,
        role: Role,
        page: PageNo,
    ) -> Result<bool> {
        let mut latched = match self.write(page) {
            // All that came after the page was made anew is in the log.
            Err(PagedError::DamagedPage { .. }) if body.change.formats(role) => {
                self.write_new(page)?
            }
            other => other?,
        };
        if latched.lsn() >= logged.lsn && !T::has(Flaw::RedoneTwice) {
            return Ok(false);
        }
        latched.prepare(logged.lsn);
        let place = self.place(page, role, logged.page, body);
        let applied = latched.change(|page| {
            body.change.apply(page, &place)?;
            page.set_lsn(logged.lsn);
            Ok(())
        });
        applied.map_err(|error| self.stop(error))?;
        Ok(true)
    }
}

/// Reads the change that a record is of.
///
/// # Errors
/// It is of none.
pub fn body_of(logged: &Logged) -> Result<Body<'_>> {
    Body::decode(&logged.payload).map_err(|_| PagedError::DamagedLog {
        at: logged.lsn,
        what: "the record of a change is malformed".into(),
    })
}
