//! Real SQL, by SQLite's own library, over the VFS.

mod attached;
mod bad;
mod beside;
mod budgets;
mod calls;
mod crowded;
mod cut_off;
mod damage;
mod direct;
mod emulated;
mod explored;
mod failing;
mod killed;
mod kills;
mod left_out;
mod lent;
mod locking;
mod mixed;
mod paying;
mod random;
mod registered;
mod shared;
mod sql;
mod stacked;
mod together;
mod traced;
