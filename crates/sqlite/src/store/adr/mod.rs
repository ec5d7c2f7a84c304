//! The parts of a store that serve only the modes which place cells, and NVWAL.
//!
//! Those are `fash1`, the default mode in the domain `adr`, and the laboratory's modes of P3: `fash`, `fast` and
//! `nvwal`. The modes `lean` and `full`, and SQLite's WAL mode, need nothing of this for commits of their own. Since
//! the modes share the files, a connection in any mode finds what commits in these have left: it returns pages that
//! they have moved, and reads and empties NVWAL's log.
//!
//! | module | what it does |
//! |---|---|
//! | `placing` | lays pages out for their frames ([`crate::store::placement`]) |
//! | `return_pages` | returns pages to their own frames |
//! | `ordered` | commits in the order of P3 3.3 |
//! | `in_place` | commits by one store to a page's header (P3 3.2) |
//! | `nvwal` | commits by frames of NVWAL's log ([`crate::store::nvwal_log`]) |

mod in_place;
mod nvwal;
mod ordered;
mod placing;
mod return_pages;
