//! The removal of a super-journal commits: a recovery makes it durable before the prepared part counts. After a power
//! cut the super-journal would otherwise be there again, and another database would roll its part back.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use perdura_sqlite::database::{Failure, Level, MainFile as _, Mapped, OpenOptions};
use rusqlite::Connection;

use crate::attached::{litter, preparing};
use crate::kernel_calls::{refusing, watching_syncs};
use crate::register::open;
use crate::sql::{folder, rows, side_of, stock};

/// A connection that recovers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// The first one that opens the database.
    Opening,
    /// One that had it open when the owner of the part died.
    Live,
}

/// A prepared part, its super-journal in another folder, whose owner has died, and the connection that will recover.
fn left(folder: &Path, by: By) -> (std::path::PathBuf, std::path::PathBuf, Option<Mapped>) {
    let apart = folder.join("apart");
    std::fs::create_dir(&apart).unwrap();
    let super_journal = apart.join("one-mj012345678");
    let (path, owner) = preparing(folder, "one", &super_journal);
    let live = || Mapped::open(&path, &OpenOptions::default()).unwrap().unwrap();
    let live = (by == By::Live).then(live);
    drop(owner);
    (path, super_journal, live)
}

/// Recovers; returns the connection.
fn recover(path: &Path, live: &mut Option<Mapped>) -> Result<(), Failure> {
    if live.is_none() {
        *live = Mapped::open(path, &OpenOptions::default())?;
    }
    live.as_mut().expect("it is opened").lock(Level::Shared)
}

#[test]
fn removal_is_durable_before_its_part_counts() {
    for by in [By::Opening, By::Live] {
        let folder = folder();
        let (path, super_journal, mut live) = left(folder.path(), by);
        std::fs::remove_file(&super_journal).unwrap();
        let before = std::fs::read(&path).unwrap();
        // At each sync: the folder, and whether the database and the number of the last checkpoint are as before.
        let syncs = Rc::new(RefCell::new(Vec::new()));
        let checkpointed = |path: &Path| std::fs::read(side_of(path)).unwrap()[88..96].to_vec();
        let (noted, database, last) = (Rc::clone(&syncs), path.clone(), checkpointed(&path));
        let watch = move |synced: &Path| {
            let unchanged =
                std::fs::read(&database).unwrap() == before && checkpointed(&database) == last;
            noted.borrow_mut().push((synced.to_owned(), unchanged));
        };
        watching_syncs(Box::new(watch), || recover(&path, &mut live)).unwrap();
        let apart = super_journal.parent().unwrap().to_owned();
        assert!(syncs.borrow().contains(&(apart, true)), "{by:?}: {syncs:?}");
        drop(live);
        assert_eq!(rows(&open(&path).unwrap()).len(), 2, "{by:?}");
        assert_eq!(rows(&stock(&path)).len(), 2);
        assert_eq!(litter(folder.path()), Vec::<String>::new());
    }
}

#[test]
fn part_stays_undecided_while_the_removal_is_not_durable() {
    for by in [By::Opening, By::Live] {
        let folder = folder();
        let (path, super_journal, mut live) = left(folder.path(), by);
        let list = std::fs::read(&super_journal).unwrap();
        std::fs::remove_file(&super_journal).unwrap();
        let before = std::fs::read(&path).unwrap();
        let refused = refusing(false, true, || recover(&path, &mut live)).unwrap_err();
        assert!(format!("{refused:?}").contains("one-mj012345678"), "{by:?}: {refused:?}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{by:?}");
        // Power fails, and the removal is lost.
        drop(live);
        std::fs::write(&super_journal, list).unwrap();
        assert_eq!(rows(&open(&path).unwrap()).len(), 1, "{by:?}");
        assert_eq!(rows(&stock(&path)).len(), 1);
        assert!(!super_journal.exists(), "no journal names it any more");
    }
}

/// A VFS above this one writes after the commit, and syncs: the part is prepared again, with all of it.
#[test]
fn part_written_to_again_is_prepared_again() {
    for gone in [false, true] {
        let folder = folder();
        let super_journal = folder.path().join("one-mj012345678");
        let (path, mut owner) = preparing(folder.path(), "one", &super_journal);
        let copy = folder.path().join("copy");
        let mut first = vec![0; owner.size().unwrap() as usize];
        owner.read(0, &mut first).unwrap();
        std::fs::write(&copy, first).unwrap();
        Connection::open(&copy).unwrap().execute_batch("INSERT INTO t VALUES(3, 'z')").unwrap();
        owner.write(0, &std::fs::read(&copy).unwrap()).unwrap();
        owner.sync().unwrap();
        std::fs::remove_file(&copy).unwrap();
        if gone {
            std::fs::remove_file(&super_journal).unwrap();
        }
        // It dies before it ends the transaction.
        drop(owner);
        assert_eq!(rows(&open(&path).unwrap()).len(), if gone { 3 } else { 1 });
        assert_eq!(litter(folder.path()), Vec::<String>::new());
        assert_eq!(rows(&stock(&path)).len(), if gone { 3 } else { 1 });
    }
}

/// As if the folder of the main database were not mounted when the other one is recovered.
#[test]
fn part_stays_undecided_while_the_folder_is_missing() {
    for by in [By::Opening, By::Live] {
        for gone in [false, true] {
            let folder = folder();
            let (path, super_journal, mut live) = left(folder.path(), by);
            let apart = super_journal.parent().unwrap();
            let away = folder.path().join("away");
            let before = std::fs::read(&path).unwrap();
            std::fs::rename(apart, &away).unwrap();
            for is_file in [false, true] {
                if is_file {
                    std::fs::write(apart, "a file has the name of the folder").unwrap();
                }
                let refused = recover(&path, &mut live).unwrap_err();
                let why = format!("{refused:?}");
                assert!(why.contains("no folder in which") && why.contains("one-mj012345678"));
                assert_eq!(std::fs::read(&path).unwrap(), before, "{by:?}");
            }
            std::fs::remove_file(apart).unwrap();
            // It is mounted; or it was removed, with all in it, and the user says so.
            if gone {
                std::fs::create_dir(apart).unwrap();
            } else {
                std::fs::rename(&away, apart).unwrap();
            }
            recover(&path, &mut live).unwrap();
            drop(live);
            let count = if gone { 2 } else { 1 };
            assert_eq!(rows(&open(&path).unwrap()).len(), count, "{by:?}");
            assert_eq!(rows(&stock(&path)).len(), count);
            assert_eq!(litter(folder.path()), Vec::<String>::new());
        }
    }
}

/// The other database's folder is not mounted while the first one rolls back.
#[test]
fn super_journal_stays_for_a_journal_in_a_missing_folder() {
    let folder = folder();
    let (apart, away) = (folder.path().join("apart"), folder.path().join("away"));
    std::fs::create_dir(&apart).unwrap();
    let super_journal = folder.path().join("one-mj012345678");
    let (one, owner) = preparing(folder.path(), "one", &super_journal);
    let (two, other) = preparing(&apart, "two", &super_journal);
    drop((owner, other));
    std::fs::rename(&apart, &away).unwrap();
    assert_eq!(rows(&open(&one).unwrap()).len(), 1);
    assert!(super_journal.exists(), "without it the other one would count");
    std::fs::rename(&away, &apart).unwrap();
    assert_eq!(rows(&open(&two).unwrap()).len(), 1);
    assert!(!super_journal.exists(), "no journal names it any more");
    for path in [one, two] {
        assert_eq!(rows(&stock(&path)).len(), 1);
    }
}
