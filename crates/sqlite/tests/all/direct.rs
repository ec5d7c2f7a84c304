//! What a commit has stored directly, and the checksum over it: which of the two slots count, and when.

use pm::{Recording, Replay};

use crate::explored::{DATA, Reader, SIDE, recover};
use crate::killed::{commit, files_of, new, open, trace};

#[test]
fn a_recovery_that_is_cut_off_and_begun_again_loses_nothing_of_the_older_commit() {
    // The last one changes bytes that the one before has stored directly, and not that page's header.
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
