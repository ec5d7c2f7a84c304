//! All tests of the public API in one binary, since each binary compiles every engine anew. A test
//! that needs a process of its own lies beside this folder.

mod support;

mod bad_input;
mod bad_pool;
mod budgets;
mod cow_crash;
mod cow_damage;
mod cow_trouble;
mod crash;
mod full_pool;
mod inp_crash;
mod killed;
mod log;
mod log_crash;
mod model;
mod nvm_cow_budgets;
mod nvm_cow_crash;
mod nvm_cow_table2;
mod snapshots;
mod table2;
