//! The check that a log goes on with an archive of its own history.
//!
//! 1. The note of the log names a segment, up to which the log may be truncated already. The
//!    archive has that very segment, or it is not the log's: segments of another history have other
//!    numbers of their own, whatever LSNs they have.
//! 2. After it, up to where a crash came before the note, the log still has all records: those of
//!    the archive are the same, or the two have diverged.

use std::sync::atomic::Ordering;

use pm::Files;

use super::{Archive, ArchiveReader, Joint, joint_of, name_of, numbers, wrong};
use crate::ids::Lsn;
use crate::log::LogManager;
use crate::{PagedError, Result};

const ADVICE: &str = "name the directory that the database has had; or end its archive, begin another one in an empty directory, and take a base backup";

fn diverged(noted: Joint) -> PagedError {
    wrong(format!(
        "it has another history than the database from {} on, as it is where a copy of the database has gone on by itself; {ADVICE}",
        noted.to
    ))
}

impl<F: Files> Archive<F> {
    /// Goes on with a log whose note this is, which was created or opened, and which nothing was
    /// appended to since; or begins with one that has none.
    ///
    /// # Errors
    /// It has not the history of the log, lacks records after those that are there, or ends before
    /// that.
    pub fn join(&self, log: &dyn LogManager, noted: Option<Joint>) -> Result<()> {
        let (last, kept, end) = (self.last(), log.kept(), log.end());
        let Some(noted) = noted else { return self.join_first(last, kept) };
        if last.number < noted.number {
            let there = match last.number {
                0 => "it has no segment".into(),
                number => format!("it ends with segment {}", name_of(&self.prefix, number)),
            };
            return Err(wrong(format!(
                "{there}, and the database knows of {}; {ADVICE}",
                name_of(&self.prefix, noted.number)
            )));
        }
        if last.number == 0 {
            self.begin_at(noted);
        }
        self.check_noted(noted)?;
        let last = self.last();
        if last.to > end {
            return Err(wrong(format!(
                "it goes on to {}, and the log ends at {end}: the database is of an earlier moment than its archive, as a copy is; {ADVICE}",
                last.to
            )));
        }
        if noted.to < kept {
            return Err(wrong(format!(
                "the database knows of it up to {}, and has its log from {kept} on: the database was used without it; {ADVICE}",
                noted.to
            )));
        }
        self.compare(log, noted, last)
    }

    /// Begins with a log that has had no archive.
    fn join_first(&self, last: Joint, kept: Lsn) -> Result<()> {
        if last.number > 0 {
            return Err(wrong(format!(
                "there is segment {} already, and the database has had no archive, or has ended it; name an empty directory, and take a base backup",
                name_of(&self.prefix, last.number)
            )));
        }
        self.begin_at(Joint { to: kept, ..Joint::default() });
        Ok(())
    }

    fn begin_at(&self, begin: Joint) {
        *self.last.lock() = begin;
        self.reached.store(begin.to.0, Ordering::Release);
    }

    /// Checks that the noted segment is there, and is that one.
    fn check_noted(&self, noted: Joint) -> Result<()> {
        if noted.number == 0 {
            return Ok(());
        }
        let first = numbers(&self.files, &self.prefix)?.first().copied().unwrap_or(0);
        if first > noted.number {
            let name = name_of(&self.prefix, noted.number);
            return Err(wrong(format!("segment {name} is missing; put it back")));
        }
        let found = joint_of(&self.files, (&self.prefix, noted.number), self.stamp)?;
        if found == noted { Ok(()) } else { Err(diverged(noted)) }
    }

    /// Compares what comes after the noted segment with the log.
    fn compare(&self, log: &dyn LogManager, noted: Joint, last: Joint) -> Result<()> {
        if last == noted {
            return Ok(());
        }
        let reader = ArchiveReader::open(self.files.clone(), &self.prefix, self.stamp)?;
        let (mut same, mut in_log, mut archived) = (true, 0_u64, 0_u64);
        log.scan_to(noted.to, last.to, &mut |record| {
            in_log += 1;
            same = same
                && match reader.read(record.lsn) {
                    Ok(found) => found == record,
                    Err(PagedError::DamagedLog { .. }) => false,
                    Err(error) => return Err(error),
                };
            Ok(())
        })?;
        reader.scan(noted.to, last.to, &mut |_| {
            archived += 1;
            Ok(())
        })?;
        if same && in_log == archived { Ok(()) } else { Err(diverged(noted)) }
    }
}
