//! SQL through SQLite's own library, on the VFS.

mod attached;
mod bad_input;
mod budgets;
mod concurrent;
mod damage;
mod direct_stores;
mod emulated;
mod explore;
mod failing;
mod fetched;
mod kernel_calls;
mod kill_two_databases;
mod locking;
mod missing_instructions;
mod mixed_modes;
mod process_kills;
mod ptrace;
mod random;
mod readmission;
mod register;
mod shared;
mod sql;
mod stacked;
mod stock_crashes;
mod store_kills;
mod two_databases;
