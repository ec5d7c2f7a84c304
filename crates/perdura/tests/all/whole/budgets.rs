//! Budgets in a database of many tuples, and in large chunks.

use crate::budgets::inserts_in_chunks_of;
use crate::nvm_cow_budgets::updates_are_two_fences_a_batch;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn an_update_of_one_column_of_nvm_cow_is_two_fences_a_batch() {
    updates_are_two_fences_a_batch(200_000);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn an_insert_in_large_chunks_is_three_fences_and_at_most_36_lines() {
    inserts_in_chunks_of(256 << 10, 36.0);
}
