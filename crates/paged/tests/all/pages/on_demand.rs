//! Redo on demand: pages that are redone when they are asked for are those that a full redo leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use paged::change::Body;
use paged::ids::{Lsn, PageNo};
use paged::log::{Kind, LogManager, Logged};
use paged::pool::Pool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sim::RecordingFiles;

use super::support::{
    AllSettled, Model, Steps, TestLog, TestPool, assert_same, create, transaction, tree,
};

/// The places of the records of each page.
fn places(records: &[Logged], page_bytes: usize) -> BTreeMap<PageNo, Vec<Lsn>> {
    let mut places: BTreeMap<PageNo, Vec<Lsn>> = BTreeMap::new();
    for record in records {
        if matches!(record.kind, Kind::Change | Kind::Compensation) {
            let body = Body::decode(&record.payload).unwrap();
            for (_, page) in body.change.pages(record.page, page_bytes) {
                places.entry(page).or_default().push(record.lsn);
            }
        }
    }
    places
}

/// A pool whose process was killed, with all its log, and what it held.
fn killed(seed: u64, page_bytes: usize) -> (RecordingFiles, Vec<Logged>, Model) {
    let files = RecordingFiles::new();
    let (log, pool) = create(&files, page_bytes, 8);
    pool.set_settled(Arc::new(AllSettled));
    let (mut source, mut model) = (Steps::new(seed, page_bytes), Model::new());
    for number in 0..700 {
        source.deletes = if number < 400 { 10 } else { 40 };
        let step = source.next(&model);
        let mut chain = transaction(number + 2);
        step.run(&tree(&pool), &mut chain).unwrap();
        log.commit(&mut chain).unwrap();
        step.apply(&mut model);
    }
    (files, log.records(), model)
}

fn reopen(image: &BTreeMap<String, Vec<u8>>, records: &[Logged]) -> (RecordingFiles, TestPool) {
    let files = RecordingFiles::from_image(image.clone());
    let pool = Pool::open(&files, "", 8, TestLog::of(records.to_vec())).unwrap();
    (files, pool)
}

#[test]
fn pages_that_are_redone_on_demand_are_those_of_a_full_redo_to_the_byte() {
    for (seed, page_bytes) in [(60, 512), (61, 512), (62, 8192)] {
        let (files, records, model) = killed(seed, page_bytes);
        let image = files.image();
        let (full_files, full) = reopen(&image, &records);
        for record in &records {
            if matches!(record.kind, Kind::Change | Kind::Compensation) {
                full.redo(record).unwrap();
            }
        }
        full.clean_all().unwrap();
        let (files, pool) = reopen(&image, &records);
        pool.redo_later(places(&records, page_bytes));
        let lacking = pool.lacking();
        assert!(lacking > 8, "{lacking} pages");
        // In any order, while frames are needed for others.
        let mut random = StdRng::seed_from_u64(seed);
        let there: Vec<PageNo> = places(&records, page_bytes).into_keys().collect();
        for _ in 0..lacking {
            drop(pool.read(there[random.random_range(0..there.len())]).unwrap());
        }
        assert!(pool.lacking() < lacking && pool.lacking() > 0);
        assert_same(&pool, &model, &format!("seed {seed}"));
        pool.clean_all().unwrap();
        assert_eq!((pool.lacking(), pool.oldest_unwritten()), (0, None));
        let (full, on_demand) = (full_files.image(), files.image());
        for number in there {
            let from = number.0 as usize * page_bytes;
            let [full, on_demand] =
                [&full, &on_demand].map(|image| &image["pages"][from..from + page_bytes]);
            assert!(full == on_demand, "seed {seed}: {number}");
        }
    }
}

/// A checkpoint counts pages that were not asked for as dirty, and keeps their log.
#[test]
fn pages_that_lack_changes_are_dirty_until_they_are_written() {
    let (files, records, _) = killed(63, 512);
    let (_files, pool) = reopen(&files.image(), &records);
    let places = places(&records, 512);
    pool.redo_later(places.clone());
    let dirty: BTreeMap<PageNo, Lsn> = pool.dirty_pages().into_iter().collect();
    let first: BTreeMap<PageNo, Lsn> =
        places.iter().map(|(page, places)| (*page, places[0])).collect();
    assert_eq!(dirty, first);
    assert_eq!(pool.oldest_unwritten(), first.values().min().copied());
    // One that is asked for is dirty from the first record on that it lacked.
    for (page, places) in &places {
        let before = dirty[page];
        drop(pool.read(*page).unwrap());
        if let Some((_, lsn)) = pool.dirty_pages().into_iter().find(|(dirty, _)| dirty == page) {
            assert!(lsn >= before && places.contains(&lsn), "{page}: {lsn}");
        }
    }
    assert_eq!(pool.lacking(), 0);
}

/// A page that is damaged is made anew if its first record does that; else it stays damaged.
#[test]
fn a_damaged_page_is_redone_only_if_its_records_make_it_anew() {
    let (files, records, model) = killed(64, 512);
    let places = places(&records, 512);
    let made_anew = |page: &PageNo, first: Lsn| {
        let record = &records[first.0 as usize - 1];
        let body = Body::decode(&record.payload).unwrap();
        let mut pages = body.change.pages(record.page, 512);
        pages.find(|(_, of)| of == page).is_some_and(|(role, _)| body.change.formats(role))
    };
    let (mut whole, mut refused) = (0, 0);
    for (page, records_of) in &places {
        let mut image = files.image();
        let from = page.0 as usize * 512;
        let pages = image.get_mut("pages").unwrap();
        if pages.len() < from + 512 || pages[from..from + 512].iter().all(|byte| *byte == 0) {
            continue;
        }
        pages[from + 100] ^= 0xff;
        let (_files, pool) = reopen(&image, &records);
        pool.redo_later(places.clone());
        if made_anew(page, records_of[0]) {
            assert_same(&pool, &model, &format!("{page} is made anew"));
            whole += 1;
        } else {
            let read = pool.read(*page).map(drop);
            assert!(matches!(read, Err(paged::PagedError::DamagedPage { .. })), "{read:?}");
            refused += 1;
        }
    }
    assert!(whole > 5 && refused > 0, "{whole} made anew, {refused} refused");
}

#[test]
fn pages_are_written_before_their_frames_are_needed() {
    let files = RecordingFiles::new();
    let (_log, pool) = create(&files, 512, 64);
    let mut chain = transaction(2);
    for key in 0..2000_u32 {
        tree(&pool).insert(&mut chain, &key.to_be_bytes(), &[1; 100]).unwrap();
    }
    let mut cleaned = 0;
    // Pages that were just written with others may be the next to go.
    for key in 2000..2100_u32 {
        while let written @ 1.. = pool.clean_ahead().unwrap() {
            cleaned += written;
        }
        if cleaned > 0 {
            break;
        }
        tree(&pool).insert(&mut chain, &key.to_be_bytes(), &[1; 100]).unwrap();
    }
    assert!(cleaned >= 4, "{cleaned} pages");
    // Frames for other pages need no write now.
    let before = pool.stats();
    for page in 3..8 {
        drop(pool.read(PageNo(page)).unwrap());
    }
    let after = pool.stats();
    assert!(after.evictions >= before.evictions + 4, "{before:?} {after:?}");
    assert_eq!(after.batches, before.batches);
}
