//! The process that tests of `perdura pool backup` and `dump` start: `perdura-cli-children ACCOUNTS PARTITIONS
//! DATABASE`. Built for tests alone: see Cargo.toml.
//!
//! Rounds: in each partition, the first one first, money goes from an account to another, and the round is counted.
//! Prints how many rounds are acknowledged, now and then.

use std::io::Read;
use std::thread;

use perdura::{Database, Options, Row, Value};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [accounts, partitions, path] = &arguments[..] else { panic!("no child {arguments:?}") };
    let accounts: u64 = accounts.parse().expect("a number");
    let partitions: usize = partitions.parse().expect("a number");
    let db = Database::open(path, &Options::new()).expect("a database");
    let (account, counter) = (db.table("account").unwrap(), db.table("counter").unwrap());
    thread::spawn(|| {
        // Ends with its parent.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let mut row = Row::new();
    for round in 1u64.. {
        for partition in 0..partitions {
            let (from, to) = (round * 7 % accounts, (round * 11 + 1) % accounts);
            let moved = db.partition(partition).write(|tx| {
                for (id, change) in [(from, -3), (to, 3)] {
                    let key = [Value::U64(id)];
                    assert!(tx.get_into(&account, &key, &mut row)?);
                    let note = vec![round as u8; (round % 200) as usize];
                    let after = Value::I64(row.i64(1) + change);
                    tx.update(&account, &key, &[(1, after), (2, Value::Bytes(&note))])?;
                }
                tx.update(&counter, &[Value::U64(0)], &[(1, Value::U64(round))])
            });
            moved.expect("committed");
        }
        if round % 50 == 0 {
            println!("\nround {round}");
        }
    }
}
