//! Restart on demand: what is found is what a full restart finds, whatever of its work is left, and
//! at every crash on the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use paged::ids::{Lsn, PageNo};
use paged::log::{Chain, Kind, LogManager, Record};
use paged::store::{Restart, StoreOptions};
use paged::{PagedError, Result};
use sim::{DiskReplay, RecordingFiles};

use super::crash::{FRAMES, PARTITION, run};
use super::support::{
    Model, TREES, TestSession, TestStore, check, contents, create, open, open_log, open_with,
    options,
};

type Image = BTreeMap<String, Vec<u8>>;

fn on_demand(background: bool) -> StoreOptions {
    StoreOptions { restart: Restart::OnDemand, background, ..options(FRAMES) }
}

fn open_on_demand(files: &RecordingFiles) -> Result<Arc<TestStore>> {
    open_with(files, PARTITION, on_demand(false))
}

/// The contents, if they are what one of these transactions has left.
fn found(
    store: &Arc<TestStore>,
    possible: &[[Model; 2]],
) -> std::result::Result<[Model; 2], String> {
    let found = contents(store).map_err(|error| error.to_string())?;
    if !possible.contains(&found) {
        return Err("what is found is what none of the possible transactions left".into());
    }
    check(store, &found)?;
    Ok(found)
}

/// The row that is written while work is left.
const MARK: (&[u8], &[u8]) = (&[0xff, 0xff], b"behind the crash");

fn mark(session: &mut TestSession) -> Result<()> {
    session.begin(1, None);
    let there = session.get(TREES[0], MARK.0)?.is_some();
    if there {
        session.update(TREES[0], MARK.0, MARK.1)
    } else {
        session.insert(TREES[0], MARK.0, MARK.1)
    }
}

/// Restarts on demand, does `parts` of what is left, and a transaction. Returns the contents before
/// it.
fn restart_and_write(
    files: &RecordingFiles,
    parts: u64,
    possible: &[[Model; 2]],
) -> std::result::Result<[Model; 2], String> {
    let text = |error: paged::PagedError| error.to_string();
    let store = open_on_demand(files).map_err(text)?;
    for _ in 0..parts {
        if !store.work().map_err(text)? {
            break;
        }
    }
    let mut session = store.session();
    mark(&mut session).map_err(text)?;
    let at = session.commit().map_err(text)?;
    store.wait(at).map_err(text)?;
    let mut held = contents(&store).map_err(text)?;
    check(&store, &held)?;
    held[0].remove(MARK.0);
    if possible.contains(&held) {
        Ok(held)
    } else {
        Err("the transactions before it are lost".into())
    }
}

fn with_mark(model: &[Model; 2]) -> [Model; 2] {
    let mut model = model.clone();
    model[0].insert(MARK.0.to_vec(), MARK.1.to_vec());
    model
}

/// Crashes at every point of a restart on demand, and of the transaction that comes with it.
fn crash_in_restart(
    image: &Image,
    parts: u64,
    possible: &[[Model; 2]],
) -> std::result::Result<u64, String> {
    let files = RecordingFiles::from_image(image.clone());
    files.start();
    let before = restart_and_write(&files, parts, possible)?;
    let trace = files.stop();
    let either = [before.clone(), with_mark(&before)];
    let (mut states, mut failed) = (0, None);
    let mut replay = DiskReplay::new(&trace);
    while let Some(point) = replay.next_point() {
        let position = point.position;
        point.for_each_state(5, 3, |image| {
            states += 1;
            let files = RecordingFiles::from_image(image.clone());
            let opened = if states % 2 == 0 {
                open_on_demand(&files)
            } else {
                open(&files, FRAMES, PARTITION)
            };
            let looked = opened.map_err(|error| error.to_string());
            if let Err(why) = looked.and_then(|store| found(&store, &either)) {
                failed
                    .get_or_insert(format!("crash before event {position} of the restart: {why}"));
            }
        });
    }
    failed.map_or(Ok(states), Err)
}

#[test]
fn on_demand_every_crash_leaves_what_was_acknowledged() {
    let (trace, models) = run();
    let (mut states, mut nested, mut left) = (0_u64, 0, 0);
    let mut replay = DiskReplay::new(&trace);
    while let Some(point) = replay.next_point() {
        let (noted, position) = (point.last_note, point.position);
        // Until it is created whole, nothing has to be there.
        let Some(first) = noted else { continue };
        let first = first as usize;
        let possible = &models[first..models.len().min(first + 2)];
        point.for_each_state(9, 5, |image| {
            states += 1;
            let looked = (|| {
                let files = RecordingFiles::from_image(image.clone());
                let held = restart_and_write(&files, states % 5, possible)?;
                // Killed again, with work left.
                let files = RecordingFiles::from_image(files.image());
                let store = open_on_demand(&files).map_err(|error| error.to_string())?;
                left += u64::from(store.unfinished().0 > 0);
                found(&store, &[with_mark(&held)])?;
                store.close().map_err(|error| error.to_string())?;
                assert_eq!(store.unfinished(), (0, 0));
                if states.is_multiple_of(25) {
                    nested += crash_in_restart(image, states / 25 % 4, possible)?;
                }
                Ok::<_, String>(())
            })();
            looked.unwrap_or_else(|why| panic!("before event {position}: {why}"));
        });
    }
    println!("{states} states, {nested} crashes in restart, {left} restarts left work");
    assert!(states > 400 && nested > 400 && left > 300, "{states}, {nested}, {left}");
}

/// A store that died with many changes in unfinished transactions, which reached the medium.
fn with_losers(losers: u8) -> (Image, Model) {
    let files = RecordingFiles::new();
    let store = create(&files, FRAMES, 256 << 10);
    let mut model = Model::new();
    let mut session = store.session();
    session.begin(1, None);
    for key in 0..200_u16 {
        session.insert(TREES[0], &key.to_be_bytes(), &[7; 40]).expect("inserted");
        model.insert(key.to_be_bytes().to_vec(), vec![7; 40]);
    }
    session.commit().expect("committed");
    for loser in 0..losers {
        let mut session = store.session();
        session.begin(2 + u64::from(loser), None);
        for key in (u16::from(loser)..200).step_by(usize::from(losers)) {
            match key % 3 {
                0 => session.delete(TREES[0], &key.to_be_bytes()).expect("deleted"),
                _ => session.update(TREES[0], &key.to_be_bytes(), &[loser; 30]).expect("updated"),
            }
            let new = [&key.to_be_bytes()[..], b"new"].concat();
            session.insert(TREES[0], &new, &[loser; 20]).expect("inserted");
        }
        std::mem::forget(session);
    }
    store.sync().expect("durable");
    (files.image(), model)
}

#[test]
fn without_a_thread_unfinished_transactions_are_undone_before_anybody_comes() {
    let (image, model) = with_losers(5);
    let files = RecordingFiles::from_image(image);
    let store = open_with(&files, 256 << 10, on_demand(false)).expect("opened");
    assert_eq!(store.unfinished().1, 0);
    assert_eq!(store.lock_counts().held, 0);
    check(&store, &[model, Model::new()]).unwrap();
}

#[test]
fn what_unfinished_transactions_have_changed_is_seen_by_nobody() {
    let (image, model) = with_losers(5);
    for round in 0..20_u64 {
        let files = RecordingFiles::from_image(image.clone());
        let store = open_with(&files, 256 << 10, on_demand(true)).expect("opened");
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (store, model) = (&store, &model);
                scope.spawn(move || {
                    let mut session = store.session();
                    session.begin(thread, None);
                    for at in 0..50_u64 {
                        let key = (at * 37 + thread * 11 + round * 5) % 200;
                        let key = (key as u16).to_be_bytes();
                        let read = session.get(TREES[0], &key).expect("read");
                        assert_eq!(read.as_ref(), model.get(&key[..]), "round {round}");
                        let new = [&key[..], b"new"].concat();
                        assert_eq!(session.get(TREES[0], &new).expect("read"), None);
                    }
                    session.commit().expect("committed");
                });
            }
        });
        check(&store, &[model.clone(), Model::new()]).unwrap();
        store.close().expect("closed");
        assert_eq!((store.unfinished(), store.lock_counts().held), ((0, 0), 0));
    }
}

/// Killed again and again before it has come to the end of its restart.
#[test]
fn a_restart_that_never_ends_changes_nothing() {
    let (image, model) = with_losers(3);
    let mut files = RecordingFiles::from_image(image);
    let mut model = [model, Model::new()];
    for round in 0..12_u16 {
        let store = open_with(&files, 256 << 10, on_demand(round % 2 == 1)).expect("opened");
        let mut session = store.session();
        session.begin(1, None);
        let key = (round * 13).to_be_bytes();
        session.update(TREES[0], &key, &[round as u8; 50]).expect("updated");
        let at = session.commit().expect("committed");
        store.wait(at).expect("durable");
        model[0].insert(key.to_vec(), vec![round as u8; 50]);
        let image = files.image();
        drop((session, store));
        files = RecordingFiles::from_image(image);
    }
    let store = open(&files, FRAMES, 256 << 10).expect("opened");
    check(&store, &model).unwrap();
}

/// A record with a right checksum that no change has: wherever it comes from, it is not passed
/// over.
#[test]
fn a_record_that_is_no_change_is_damage() {
    for payload in [&b"no change"[..], &[], &[1, 1, 0, 0, 0, 9, 0]] {
        let files = RecordingFiles::new();
        drop(create(&files, FRAMES, PARTITION));
        let log = open_log(&files, PARTITION);
        let record = Record { page: PageNo(5), payload, ..Record::bare(Kind::Change) };
        let at = log.append(&mut Chain::default(), &record).unwrap();
        log.force(Lsn(u64::MAX)).unwrap();
        drop(log);
        let opened = [open(&files, FRAMES, PARTITION), open_on_demand(&files)];
        for error in opened.map(Result::err) {
            let named =
                matches!(error, Some(PagedError::DamagedLog { at: named, .. }) if named == at);
            assert!(named, "{error:?}");
        }
    }
}
