//! Direct stores, and the choice between two slots that depends on them.

use sim::{Recording, Replay};

use crate::explore::{DATA, Reader, SIDE, media, recover};
use crate::store_kills::{commit, files_of, new, open, trace};

#[test]
fn repeated_recovery_keeps_the_older_commit() {
    // The last commit changes bytes that the previous one stored directly, and not that page's header.
    let statements = (1..=5).map(|number| format!("INSERT INTO t VALUES({number}, 'text')"));
    let update = "UPDATE t SET b = 'test' WHERE a = 5".to_owned();
    let files = files_of(statements.chain([update]));
    let memory = new();
    let mut one = open(&memory, 1);
    files[..4].iter().for_each(|file| commit(&mut one, file));
    let trace = trace(&memory, || files[4..].iter().for_each(|file| commit(&mut one, file)));
    assert!(one.stats().direct > 0);
    let (mut reader, mut twice) = (Reader::new(), 0);
    let explored = Replay::new(&trace).explore(200, 1, |image, _| {
        let memory = Recording::from_image(image, SIDE + DATA).unwrap();
        memory.start();
        let rows = reader.read(recover(&memory)?)?;
        let again = Replay::new(&memory.stop()).explore(100, 2, |image, _| {
            twice += 1;
            let found =
                reader.read(recover(&Recording::from_image(image, SIDE + DATA).unwrap())?)?;
            if found == rows { Ok(()) } else { Err(format!("{found:?}, not {rows:?}")) }
        });
        again.failed.map_or(Ok(()), Err)
    });
    assert_eq!(explored.failed, None);
    assert!(twice > 100, "{twice}");
}

fn insert(key: usize, text: &str, len: usize) -> String {
    format!("INSERT INTO t VALUES({key}, '{}')", text.repeat(len))
}

/// Files of a table whose only page has 29 rows, one of them deleted. Then two rows are added: one goes into the
/// gap after the cell pointers and leaves three bytes of it, the other replaces the deleted row. Both pointers are
/// in the page's second line, which nothing else changes.
fn files_of_a_full_page() -> Vec<Vec<u8>> {
    let mut statements: Vec<_> = (1..=29).map(|key| insert(key, "a", 9)).collect();
    statements.push("DELETE FROM t WHERE a = 5".into());
    statements.extend([insert(30, "b", 32), insert(31, "c", 9)]);
    files_of(statements.into_iter())
}

/// Commits all files, exploring the crashes of the last two commits: no state lacks an acknowledged one. Returns
/// the bytes that the second last commit stored directly.
fn last_two(files: &[Vec<u8>], erases: bool) -> u64 {
    let (before, last) = files.split_at(files.len() - 2);
    let memory = new();
    let mut one = open(&memory, 1);
    before.iter().for_each(|file| commit(&mut one, file));
    one.set_erases(erases);
    let mut direct = vec![one.stats().direct];
    let trace = trace(&memory, || {
        for (number, file) in (1..).zip(last) {
            commit(&mut one, file);
            memory.note(number);
            direct.push(one.stats().direct);
        }
        // A crash point after the last fence needs another event.
        media(&memory).side.store(SIDE - 8, 1);
    });
    let mut reader = Reader::new();
    let rows: Vec<_> =
        files[files.len() - 3..].iter().map(|file| reader.read(file.clone()).unwrap()).collect();
    let explored = Replay::new(&trace).explore(400, 1, |image, noted| {
        let memory = Recording::from_image(image, SIDE + DATA).unwrap();
        let found = reader.read(recover(&memory)?)?;
        let right = rows[noted as usize..].iter().take(2).any(|rows| *rows == found);
        if right { Ok(()) } else { Err(format!("{found:?}; noted {noted}")) }
    });
    assert_eq!(explored.failed, None);
    assert!(direct[2] > direct[1], "the last one stores directly, too: {direct:?}");
    direct[1] - direct[0]
}

#[test]
fn unused_bytes_between_direct_runs_are_not_stored() {
    // The pointer's lower byte and the cell. The gap between them belongs to the next commit.
    assert_eq!(last_two(&files_of_a_full_page(), false), 1 + 37);
}

#[test]
fn bytes_are_zeroed_after_the_commit() {
    let mut statements: Vec<_> = (1..=4).map(|key| insert(key, "a", 60)).collect();
    // Bytes of deleted rows stay on the page.
    statements.extend([
        "DELETE FROM t WHERE a > 1".into(),
        insert(5, "b", 30),
        insert(6, "c", 120),
    ]);
    // Only the cell.
    assert_eq!(last_two(&files_of(statements.into_iter()), true), 35);
}
