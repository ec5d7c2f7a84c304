//! Crash tests of the engines. An engine runs on media that record what is done to them. From the
//! record come the states that a crash can leave; each is recovered and compared with what had been
//! acknowledged. The test itself is tested, too: faults are put into the record, and it has to
//! notice each.
//!
//! Fault model (`docs/format/crash-model.md`). In a pool: of every line a prefix of its stores has
//! persisted, lines are independent until flushed and fenced, bulk copies tear; or the process is
//! killed between any two stores. In files, in the `disk` mode: of what was written since the last
//! sync each sector may or may not have persisted, lengths are lost unless synced, and of the
//! operations on the directory the first few have persisted; or the process is killed between any
//! two calls to the kernel.
//!
//! | module | what |
//! |---|---|
//! | [`items`], [`driver`] | what scenarios are about, the model, random transactions |
//! | [`work`] | what scenarios do, and what has to be there afterwards |
//! | [`plot`] | which scenario: the workload, the engine, the sizes |
//! | [`scenario`] | what an engine does before it crashes |
//! | [`script`] | YCSB and TPC-C as scenarios |
//! | [`medium`], [`pool`], [`files`], [`combined`] | what survives a crash |
//! | [`explorer`] | the walk over all states, and the verdict |
//! | [`scheduler`], [`interleaved`] | several partitions whose transactions interleave |
//! | [`history`] | the oracle for transactions that interleave in one partition |
//! | [`sharing`], [`shared`] | threads in one partition, whose transactions interleave |
//! | [`racing`] | threads in one partition that run when the machine lets them |
//! | [`paged`] | threads, files and memory in one record: the paged store under crashes |
//! | [`promise`] | transactions that go on after a crash, and the oracle that continues them |
//! | [`examine`] | as many scenarios as are asked for, the shortest that fails |
//! | [`mutation`], [`catalogue`] | faults, and where they are put |
//! | [`points`] | whether all points are looked at, or some |
//! | [`sweep`] | each place in the source left out in turn |
//! | [`failing`] | a run in which something fails, and what is left of it |
//! | [`soak`] | processes that are killed over and over |
//! | [`lint`] | flushes and fences that are missing or do nothing |

#![forbid(unsafe_code)]

pub mod catalogue;
pub mod combined;
pub mod driver;
pub mod examine;
pub mod explorer;
pub mod failing;
pub mod files;
pub mod full;
pub mod history;
pub mod interleaved;
pub mod items;
pub mod large;
pub mod lint;
pub mod medium;
pub mod mutation;
pub mod paged;
pub mod plot;
pub mod points;
pub mod pool;
pub mod promise;
mod quiet;
pub mod racing;
mod recorded;
pub mod scenario;
pub mod scheduler;
pub mod script;
pub mod shared;
pub mod sharing;
pub mod short_scenarios;
pub mod soak;
pub mod sweep;
pub mod work;
mod workers;

pub use recorded::recorded;
