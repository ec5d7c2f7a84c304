//! All tests of the public API in one binary, since each binary compiles every engine anew. A test
//! that needs a process of its own lies beside this folder.

mod support;

mod amplification;
mod background;
mod backup;
mod bad_input;
mod bad_pool;
mod budgets;
mod choice;
mod conformance;
mod continued;
mod cow_damage;
mod cow_trouble;
mod damage_sweep;
mod damaged_files;
mod damaged_while_open;
mod engine_options;
mod face;
mod full_disk;
mod full_pool;
mod fuzz_corpus;
mod huge_pages;
mod large_damage;
mod limits;
mod log;
mod lost_stores;
mod media_errors;
mod nested;
mod null_damage;
mod nv_logging;
mod nvm_cow_budgets;
mod nvm_cow_table2;
mod other_files;
mod paths;
mod queue;
mod racing;
mod salvage;
mod serializable;
mod sessions;
mod shared_syncs;
mod small_integers;
mod sofort_budgets;
mod stats;
mod table2;
mod typed;
