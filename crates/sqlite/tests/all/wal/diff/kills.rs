//! Processes that are killed with a differential log.

use super::*;
use crate::process_kills::Writers;

/// Kills `writers` processes in each round. After each second one the image is lost but for its header.
pub(crate) fn kill_in_rounds(writers: i64, rounds: usize, seed: u64) {
    let directory = folder();
    let path = directory.path().join("db");
    let connection = open_diff(&path);
    connection.execute_batch(CREATE).unwrap();
    connection.close().unwrap();
    let mut writers = Writers::new(writers, seed);
    for round in 0..rounds {
        writers.kill(|_| with_records(&path), round);
        assert!(records_of(&path).exists(), "round {round}");
        assert_eq!(stocks_error(&path), Some(ErrorCode::CannotOpen));
        if round % 2 == 0 {
            // As after a power cut that left nothing of the image.
            let mut image = std::fs::read(log_of(&path)).unwrap();
            image[32..].fill(0);
            std::fs::write(log_of(&path), image).unwrap();
        }
        let uri = if round % 3 == 1 { without_records(&path) } else { with_records(&path) };
        let connection = open(&uri).unwrap();
        check(&connection);
        writers.check(&connection, round);
        connection.close().unwrap();
        if round % 3 == 0 {
            closed_diff(&path);
        }
    }
}

#[test]
fn kills_lose_no_acknowledged_row() {
    kill_in_rounds(1, 4, 1);
    kill_in_rounds(2, 6, 2);
    kill_in_rounds(4, 4, 3);
}
