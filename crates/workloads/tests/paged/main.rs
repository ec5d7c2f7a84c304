//! What the engines with row locks and a buffer pool do under the workloads, in one program.

mod budgets;
mod row_locks;
