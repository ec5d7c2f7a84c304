//! The differential log (`perdura_wal=diff`, domain `adr`): commits that flush the words they change, and not whole
//! frames.
//!
//! SQLite's log is an *image* then: stored, read and checkpointed as ever, and never flushed. What counts after a crash is a
//! log of changed words in a file of its own. `docs/format/sqlite-differential-log.md` defines both.
//!
//! Invariants:
//! - If there are records, the header of SQLite's log is durable, and names their generation. So stock SQLite, which
//!   refuses that header, never takes the image for the log.
//! - What the index shows as committed is in the records, durably, before a checkpoint stores it in the database. A commit
//!   with `synchronous=FULL` is so before the index shows it.
//! - A record is the difference from the image that the page has after the commit before, or from another page that the
//!   records have whole: the replay of all of a generation's records ends right from the database of its beginning, and
//!   from any mix of that with later lines.
//!
//! 1. *A log begins anew* ([`emitter`]): everything is in the database, durably. Store the generation, flush, fence; store
//!    the log's header, flush, fence.
//! 2. *A commit* ([`emitter`]): store the changed words of its frames and an end, flush, fence. Then SQLite shows it.
//! 3. *A checkpoint* is SQLite's, and flushes the database as without this log.
//! 4. *Recovery* ([`recovery`]): replay the generation into the database, flush, sync, fence; empty SQLite's log.
//!
//! Until SQLite's log first begins anew under a connection with this log, it is one without: commits flush frames.
//!
//! | module | what it has |
//! |---|---|
//! | [`layout`] | the bytes of generations and of SQLite's headers |
//! | [`record`] | those of records |
//! | [`images`] | where a page's image before is |
//! | [`emitter`] | what a connection logs, and when |
//! | [`file`] | SQLite's calls of its log |
//! | [`recovery`] | the replay |

mod emitter;
mod file;
mod images;
mod layout;
mod record;
mod recovery;

pub use file::{Commits, DiffFiles, DiffLog};
pub(super) use recovery::{HasRecords, is_one};
pub use recovery::{create, recover};
