//! The engines with row locks and a buffer pool under the workloads, in one program.

mod budgets;
mod row_locks;
