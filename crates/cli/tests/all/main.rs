//! The tests of the command in one program: each program that links all engines takes long to link.

mod bench;
mod common;
mod copies;
mod cut_off;
mod environments;
mod escaped;
mod files;
mod hand_written;
mod laboratory;
mod messages;
mod old_versions;
mod page_run;
mod pool;
mod report;
mod slotted;
mod sqlite;
mod sqlite_files;
mod sqlite_shell;
mod still;
mod tpcb_tatp;
mod tpcc;
mod usage;
mod whole;
