//! Two writers in one partition: all crash points that a build looks at.

use crate::shared::{
    writers_of_the_optimistic_engine, writers_on_snapshots, writers_that_take_turns,
};

#[test]
#[ignore = "a build of .ci/run runs it"]
fn two_writers_of_the_optimistic_engine_survive_crashes() {
    writers_of_the_optimistic_engine(1, 1);
    writers_of_the_optimistic_engine(2, 1);
    writers_on_snapshots(1);
}

#[test]
#[ignore = "a build of .ci/run runs it"]
fn two_writers_that_take_turns_survive_crashes() {
    writers_that_take_turns(1);
}
