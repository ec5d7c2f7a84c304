//! Locks of tables and rows, held by transactions until they end.
//!
//! Invariants:
//! - Two transactions hold a name only in [compatible](mode) modes.
//! - Requests of a name are granted in the order in which they came; a transaction that already
//!   holds the name and wants more goes before those that do not.
//! - Shard mutexes are taken one at a time, and nothing waits while it has one.
//! - A circle of waiting transactions ends with a victim: see `wait`. A transaction that is refused
//!   a lock is doomed, and can only let all its locks go.
//! - A lock that was let go early (before its commit is durable) leaves the LSN of that commit, and
//!   the next transaction to get the lock depends on it: see [`Locks::depends`].
//!
//! | question | module |
//! |---|---|
//! | which modes are there, and which go together | [`mode`] |
//! | what has a lock | [`name`] |
//! | how is a lock granted and let go | `table`, `head` |
//! | how are circles found | `wait` |
//! | how does a session keep a table's lock for its next transaction | `inherit` |

mod head;
mod inherit;
pub mod mode;
pub mod name;
mod session;
mod table;
mod wait;

pub(crate) use self::head::Party;
pub use self::mode::{Gap, LockMode, Mode};
pub use self::name::Name;
pub use self::session::Locks;
pub use self::table::{LockCounts, LockOptions, LockTable};
