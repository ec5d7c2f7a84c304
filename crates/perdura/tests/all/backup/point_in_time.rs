//! Restoring to a point in time: a base backup, and the archive of the log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use perdura::{
    Backup, BackupError, ColumnType, Database, Domain, EngineKind, Error, Options, Row, Scan,
    Schema, TableSchema, Until, Value,
};

use crate::support::{in_memory, small_logs};

type Rows = Vec<BTreeMap<u64, String>>;

fn schema() -> Schema {
    let table = TableSchema::new("note")
        .column("id", ColumnType::U64)
        .column("round", ColumnType::U64)
        .column("text", ColumnType::Text { max: 4000 })
        .key(&["id"])
        .index("by_round", &["round"]);
    Schema::new().table(table)
}

/// Directories for databases and archives, and the options of a paged engine.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(in_memory());
        std::fs::create_dir(place.at("archive")).expect("a directory");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self, partitions: u32) -> Options {
        plain().partitions(partitions).archive(self.at("archive"))
    }

    fn create(&self, partitions: u32) -> Database {
        let made = Database::create(self.at("db"), &schema(), &self.options(partitions));
        made.expect("created")
    }

    fn restore(&self, name: &str, until: Until) -> Result<Rows, Error> {
        let (base, archive, to) = (self.at("base"), self.at("archive"), self.at(name));
        Backup::open(base)?.restore_until(&to, archive, until, &small_logs(), &mut |_| {})?;
        let db = Database::open(&to, &small_logs())?;
        let rows = rows(&db);
        db.close()?;
        Ok(rows)
    }
}

fn plain() -> Options {
    small_logs()
        .engine(EngineKind::NvDisk)
        .domain(Domain::Process)
        .set("page_bytes", 1024)
        .set("buffer_bytes", 64 << 10)
        .set("log_bytes", 1 << 20)
        .set("checkpoint_bytes", 32 << 10)
}

/// The tuples of each partition.
fn rows(db: &Database) -> Rows {
    let note = db.table("note").expect("a table");
    let of = |partition: usize| {
        let mut rows = BTreeMap::new();
        let read = db.partition(partition).read(|tx| {
            rows.clear();
            tx.scan(&note, &Scan::all(), |row| {
                rows.insert(row.u64(0), row.text(2).to_owned());
                std::ops::ControlFlow::Continue(())
            })
        });
        read.expect("read");
        rows
    };
    (0..db.partition_count()).map(of).collect()
}

/// Changes a tuple in each partition; long texts lie in chains of pages.
fn change(db: &Database, round: u64) -> Vec<u64> {
    let note = db.table("note").expect("a table");
    let one = |partition: usize| {
        let mut tx = db.partition(partition).begin().expect("begun");
        let id = round * 7 % 13;
        let text = format!("{round} ").repeat(if round.is_multiple_of(5) { 400 } else { 3 });
        let key = [Value::U64(id)];
        let there = tx.get_into(&note, &key, &mut Row::new()).expect("read");
        match (there, round % 3) {
            (true, 0) => tx.delete(&note, &key).expect("deleted"),
            (true, _) => {
                let changes = [("round", Value::U64(round)), ("text", Value::Text(&text))];
                tx.update(&note, &key, &changes).expect("updated");
            }
            (false, _) => {
                tx.insert(&note, &[key[0], Value::U64(round), Value::Text(&text)])
                    .expect("inserted");
            }
        }
        tx.commit().expect("committed").number()
    };
    (0..db.partition_count()).map(one).collect()
}

#[test]
fn a_database_is_restored_to_each_commit_and_to_the_end_of_its_archive() {
    let place = Place::new();
    let db = place.create(1);
    (0..20).for_each(|round| drop(change(&db, round)));
    db.base_backup(place.at("base")).expect("a base backup");
    let mut states = Vec::new();
    for round in 20..60 {
        let number = change(&db, round)[0];
        states.push((number, rows(&db)));
    }
    // The process dies; the next one recovers, and brings the archive up to date.
    db.abandon();
    let db = Database::open(place.at("db"), &place.options(1)).expect("opened");
    db.checkpoint().expect("archived");
    for (number, wanted) in states.iter().step_by(13) {
        let name = format!("at-{number}");
        let found = place.restore(&name, Until::Commit(*number)).expect("restored");
        assert_eq!(found, *wanted, "commit {number}");
    }
    let found = place.restore("end", Until::End).expect("restored");
    assert_eq!(found, states[states.len() - 1].1);
    db.close().expect("closed");
}

#[test]
fn partitions_are_restored_together_to_a_time() {
    let place = Place::new();
    let db = place.create(2);
    db.base_backup(place.at("base")).expect("a base backup");
    (0..30).for_each(|round| drop(change(&db, round)));
    let (wanted, then) = (rows(&db), SystemTime::now());
    // Commits that are more than the resolution later are not there.
    while SystemTime::now() < then + Duration::from_millis(20) {
        std::thread::yield_now();
    }
    (30..60).for_each(|round| drop(change(&db, round)));
    let last = rows(&db);
    db.close().expect("closed");
    assert_eq!(place.restore("then", Until::Time(then)).expect("restored"), wanted);
    assert_eq!(place.restore("end", Until::End).expect("restored"), last);
    let early = place.restore("early", Until::Time(UNIX_EPOCH + Duration::from_secs(9)));
    assert!(early.expect_err("refused").to_string().contains("take an older backup"));
    let late = SystemTime::now() + Duration::from_secs(3600);
    let late = place.restore("late", Until::Time(late)).expect_err("refused").to_string();
    assert!(late.contains("it goes up to 20") && late.contains("or for the end"), "{late}");
    assert!(!place.at("late").exists());
    let number = place.restore("number", Until::Commit(1 << 33)).expect_err("refused");
    assert!(number.to_string().contains("ask for a time"), "{number}");
    assert!(!place.at("number").exists());
}

#[test]
fn what_does_not_fit_together_is_refused_before_anything_is_made() {
    let place = Place::new();
    let db = place.create(1);
    (0..20).for_each(|round| drop(change(&db, round)));
    db.base_backup(place.at("base")).expect("a base backup");
    db.backup(place.at("copy")).expect("a backup");
    (20..40).for_each(|round| drop(change(&db, round)));
    db.close().expect("closed");

    let open = |name| Backup::open(place.at(name)).expect("a backup");
    assert!(open("base").is_base() && !open("copy").is_base());
    open("base").verify(&mut |_| {}).expect("whole");
    let alone = open("base").restore(place.at("x"), &small_logs(), &mut |_| {});
    assert!(matches!(alone, Err(Error::Backup(BackupError::NeedsArchive { .. }))), "{alone:?}");
    let until = |backup: Backup, archive: &Path, options: &Options| {
        let made = backup.restore_until(place.at("x"), archive, Until::End, options, &mut |_| {});
        assert!(!place.at("x").exists());
        made.expect_err("refused").to_string()
    };
    let (archive, options) = (place.at("archive"), small_logs());
    assert!(until(open("copy"), &archive, &options).contains("no base backup"));
    let other = options.clone().engine(EngineKind::NvmInp);
    assert!(until(open("base"), &archive, &other).contains("restored as it was"));
    let missing = until(open("base"), &place.at("nowhere"), &options);
    assert!(missing.contains("nowhere") && missing.contains("make the directory"), "{missing}");
    std::fs::create_dir(place.at("empty")).expect("a directory");
    let empty = until(open("base"), &place.at("empty"), &options);
    assert!(empty.contains("is it the directory"), "{empty}");

    // The archive of another database.
    let elsewhere = Place::new();
    elsewhere.create(1).close().expect("closed");
    let foreign = until(open("base"), &elsewhere.at("archive"), &options);
    assert!(foreign.contains("another database"), "{foreign}");
    let refused = Database::open(place.at("db"), &plain().archive(elsewhere.at("archive")));
    assert!(refused.expect_err("refused").to_string().contains("another database"));

    // A moment that the archive does not reach.
    let beyond = place.restore("x", Until::Commit(1 << 62)).expect_err("refused").to_string();
    assert!(beyond.contains("it has the log from") && !place.at("x").exists(), "{beyond}");

    // A segment that is gone, or damaged; a base backup that is damaged.
    let segment = place.at("archive").join("log-0-000000000002");
    let bytes = std::fs::read(&segment).expect("a segment");
    std::fs::remove_file(&segment).expect("removed");
    let gap = until(open("base"), &archive, &options);
    assert!(gap.contains("log-0-000000000002") && gap.contains("missing"), "{gap}");
    std::fs::write(&segment, &bytes).expect("written");
    let last = std::fs::read_dir(&archive).expect("read").map(|entry| entry.expect("read").path());
    let last = last.max().expect("a segment");
    let mut damaged = std::fs::read(&last).expect("a segment");
    damaged[100] ^= 1;
    std::fs::write(&last, &damaged).expect("written");
    assert!(until(open("base"), &archive, &options).contains("damaged"));
    damaged[100] ^= 1;
    std::fs::write(&last, &damaged).expect("written");
    let whole = std::fs::read(place.at("base")).expect("read");
    for at in (600..whole.len()).step_by(whole.len() / 4) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(place.at("flipped"), damaged).expect("written");
        let why = until(open("flipped"), &archive, &options);
        assert!(why.contains("damaged at byte"), "byte {at}: {why}");
    }
    place.restore("good", Until::End).expect("restored");
}

#[test]
fn a_database_knows_its_archive() {
    let place = Place::new();
    let db = place.create(1);
    db.base_backup(place.at("base")).expect("a base backup");
    (0..20).for_each(|round| drop(change(&db, round)));
    db.close().expect("closed");
    // Without it nothing of the log goes, and the archive has all of it afterwards.
    let db = Database::open(place.at("db"), &small_logs()).expect("opened");
    (20..40).for_each(|round| drop(change(&db, round)));
    db.checkpoint().expect("a checkpoint");
    db.close().expect("closed");
    // A directory that has nothing of it is refused.
    std::fs::create_dir(place.at("empty")).expect("a directory");
    let refused = Database::open(place.at("db"), &plain().archive(place.at("empty")));
    let refused = refused.expect_err("refused").to_string();
    assert!(refused.contains("empty: it has no segment"), "{refused}");
    let db = Database::open(place.at("db"), &place.options(1)).expect("opened");
    let wanted = rows(&db);
    db.close().expect("closed");
    assert_eq!(place.restore("end", Until::End).expect("restored"), wanted);
    // It is ended, and another one begun.
    let db = Database::open(place.at("db"), &small_logs()).expect("opened");
    db.end_archive().expect("ended");
    db.close().expect("closed");
    let db = Database::open(place.at("db"), &plain().archive(place.at("empty")));
    db.expect("opened").close().expect("closed");
    let old = Database::open(place.at("db"), &place.options(1)).expect_err("refused").to_string();
    assert!(old.contains("ends with segment") || old.contains("another history"), "{old}");
}

#[test]
fn an_archive_that_takes_nothing_is_reported_and_loses_nothing() {
    let place = Place::new();
    let db = place.create(2);
    db.base_backup(place.at("base")).expect("a base backup");
    (0..20).for_each(|round| drop(change(&db, round)));
    // Something is in the way of its next segment, and stays.
    let names = std::fs::read_dir(place.at("archive")).expect("read");
    let names = names.map(|entry| entry.expect("read").file_name().into_string().expect("text"));
    let last = names.filter_map(|name| name.strip_prefix("log-0-")?.parse().ok()).max();
    let next = 1 + last.unwrap_or(0_u64);
    let in_the_way = place.at("archive").join(format!("log-0-{next:012}.perdura-new"));
    std::fs::write(&in_the_way, "notes of somebody, of some length").expect("written");
    let reported = |result: Result<(), Error>| {
        let error = result.expect_err("it is reported").to_string();
        assert!(error.contains("takes nothing") && error.contains("Nothing is lost"), "{error}");
    };
    reported(db.checkpoint());
    reported(db.base_backup(place.at("other")).map(drop));
    assert!(!place.at("other").exists());
    (20..40).for_each(|round| drop(change(&db, round)));
    let wanted = rows(&db);
    reported(db.close());
    // It is closed all the same, and goes on when there is room.
    let refused = Database::open(place.at("db"), &place.options(2)).expect_err("refused");
    assert!(refused.to_string().contains("in the way"), "{refused}");
    std::fs::remove_file(&in_the_way).expect("it is still there");
    let db = Database::open(place.at("db"), &place.options(2)).expect("opened");
    assert_eq!(rows(&db), wanted);
    db.close().expect("closed");
    assert_eq!(place.restore("end", Until::End).expect("restored"), wanted);
}

#[test]
fn a_copy_that_goes_on_by_itself_is_refused_with_the_archive() {
    let place = Place::new();
    let db = place.create(1);
    (0..10).for_each(|round| drop(change(&db, round)));
    db.close().expect("closed");
    let copy = |from: &str, to: &str| {
        std::fs::copy(place.at(from), place.at(to)).expect("copied");
        let (from, to) = (place.at(&format!("{from}.files")), place.at(&format!("{to}.files")));
        std::fs::create_dir(&to).expect("a directory");
        for entry in std::fs::read_dir(from).expect("read") {
            let entry = entry.expect("read");
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
        }
    };
    copy("db", "copy");
    let db = Database::open(place.at("db"), &place.options(1)).expect("opened");
    (10..20).for_each(|round| drop(change(&db, round)));
    db.close().expect("closed");
    let db = Database::open(place.at("copy"), &small_logs()).expect("opened");
    (10..60).for_each(|round| drop(change(&db, round + 1)));
    db.close().expect("closed");
    let refused = Database::open(place.at("copy"), &place.options(1)).expect_err("refused");
    assert!(refused.to_string().contains("another history"), "{refused}");
    Database::open(place.at("db"), &place.options(1)).expect("opened").close().expect("closed");
}

#[test]
fn engines_without_an_archive_refuse_one() {
    let place = Place::new();
    let options = small_logs().engine(EngineKind::Inp).archive(place.at("archive"));
    let refused = Database::create(place.at("inp"), &schema(), &options);
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    let db = Database::create(place.at("db"), &schema(), &plain()).expect("created");
    let refused = db.base_backup(place.at("base"));
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    assert!(!place.at("base").exists());
}
