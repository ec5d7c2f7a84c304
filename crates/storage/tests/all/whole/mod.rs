//! Tests that each build of `.ci/run` adds to the ordinary ones: more states of each crash point of the log.

use crate::wal_crash::every_acknowledged_record_survives;

#[test]
#[ignore = "a build of .ci/run runs it"]
fn every_acknowledged_record_survives_and_nothing_is_invented() {
    every_acknowledged_record_survives(300, 2_000);
}
