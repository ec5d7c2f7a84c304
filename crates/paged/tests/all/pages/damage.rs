//! Bytes that are not what was written.

use std::collections::BTreeMap;

use paged::PagedError;
use paged::ids::{Lsn, PageNo};
use paged::page::PageKind;
use paged::pool::Pool;
use sim::RecordingFiles;

use super::support::{
    Model, Step, Steps, TREE, TestLog, TestPool, assert_same, create, transaction, tree,
};

fn filled(seed: u64) -> (BTreeMap<String, Vec<u8>>, Model) {
    let files = RecordingFiles::new();
    let (_, pool) = create(&files, 512, 8);
    let (mut source, mut model) = (Steps::new(seed, 512), Model::new());
    for number in 0..300 {
        let step = source.next(&model);
        if !matches!(step, Step::Settle(_)) {
            step.run(&tree(&pool), &mut transaction(number + 2)).unwrap();
            step.apply(&mut model);
        }
    }
    pool.clean_all().unwrap();
    (files.image(), model)
}

fn open(image: BTreeMap<String, Vec<u8>>) -> Result<TestPool, PagedError> {
    Pool::open(&RecordingFiles::from_image(image), "", 16, TestLog::of(Vec::new()))
}

#[test]
fn every_damaged_byte_is_noticed() {
    let (image, _) = filled(60);
    let pages = image["pages"].len() / 512;
    let sound = open(image.clone()).unwrap();
    let used: Vec<usize> =
        (0..pages).filter(|page| sound.is_used(PageNo(*page as u64)).unwrap()).collect();
    for (step, page) in used.iter().cycle().take(2 * 512).enumerate() {
        let mut damaged = image.clone();
        // The last batch would put its pages back.
        damaged.insert("staging".into(), Vec::new());
        damaged.get_mut("pages").unwrap()[page * 512 + step % 512] ^= 1 << (step % 8);
        let noticed = match open(damaged) {
            Err(error) => Some(error),
            Ok(pool) => pool.read(PageNo(*page as u64)).err(),
        };
        let is_noticed = match noticed {
            Some(PagedError::DamagedPage { page: named, .. }) => named.0 == *page as u64,
            Some(PagedError::WrongPages { .. }) => *page == 0,
            _ => false,
        };
        assert!(is_noticed, "page {page}, byte {}", step % 512);
    }
}

#[test]
fn a_page_in_the_wrong_place_is_noticed() {
    let (image, _) = filled(61);
    let mut moved = image.clone();
    moved.insert("staging".into(), Vec::new());
    moved.get_mut("pages").unwrap().copy_within(2 * 512..3 * 512, 3 * 512);
    let pool = open(moved).unwrap();
    let error = pool.read(PageNo(3)).unwrap_err();
    assert!(error.to_string().contains("number of another page"), "{error}");
    assert!(pool.read(PageNo(2)).is_ok());
}

#[test]
fn torn_pages_come_back_from_the_staging_file() {
    let (image, model) = filled(62);
    let staged = &image["staging"];
    let count = u32::from_le_bytes(staged[20..24].try_into().unwrap()) as usize;
    assert!(count > 1);
    let mut torn = image.clone();
    for place in 0..count {
        let at = 32 + 8 * place;
        let page = u64::from_le_bytes(staged[at..at + 8].try_into().unwrap()) as usize;
        torn.get_mut("pages").unwrap()[page * 512 + 256..(page + 1) * 512].fill(0xa5);
    }
    let pool = open(torn.clone()).unwrap();
    assert_eq!(pool.stats().restored, count as u64);
    assert_same(&pool, &model, "restored");
    // A staging file that is torn itself puts nothing back.
    let last = torn["staging"].len() - 1;
    torn.get_mut("staging").unwrap()[1024 + 512 * count - 1] ^= 1;
    assert!(last > 1024);
    let pool = open(torn).unwrap();
    assert_eq!(pool.stats().restored, 0);
    assert!(pool.check().is_err());
}

#[test]
fn a_page_full_of_nonsense_with_a_right_checksum_leads_nowhere() {
    let (image, _) = filled(63);
    let mut random = 1_u64;
    let mut refused = 0;
    for round in 0..600 {
        let mut bytes = image["pages"].clone();
        let page = 2 + round % 40;
        let one = &mut bytes[page * 512..(page + 1) * 512];
        for _ in 0..1 + round % 3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = if round % 2 == 0 {
                32 + (random >> 33) as usize % 96
            } else {
                (random >> 33) as usize % 508 + 4
            };
            one[at] = (random >> 50) as u8;
        }
        let sum = crc32c::crc32c(&one[4..]);
        one[..4].copy_from_slice(&sum.to_le_bytes());
        let mut nonsense = image.clone();
        nonsense.insert("pages".into(), bytes);
        nonsense.insert("staging".into(), Vec::new());
        let pool = open(nonsense).unwrap();
        let Ok(read) = pool.read(PageNo(page as u64)) else {
            refused += 1;
            continue;
        };
        if matches!(read.kind(), PageKind::Leaf | PageKind::Inner) {
            assert!(read.entries().all(|entry| entry.row.len() <= entry.room));
        }
        drop(read);
        // Whatever it says: an answer or an error.
        let _ = pool.check();
        let mut chain = transaction(1);
        if let Ok(Some(tree)) = pool.tree(TREE) {
            let _ = tree.insert(&mut chain, b"new", &[1; 50]);
            let _ = tree.get(b"new");
        }
    }
    assert!(refused > 50, "{refused} were refused");
}

#[test]
fn after_a_failed_write_nothing_is_changed() {
    let files = RecordingFiles::new();
    let (_, pool) = create(&files, 512, 16);
    let mut chain = transaction(2);
    for key in 0..50_u32 {
        tree(&pool).insert(&mut chain, &key.to_be_bytes(), &[1; 50]).unwrap();
    }
    files.fail_after(Some(0));
    let failed = pool.clean_all();
    assert!(matches!(failed, Err(PagedError::Io { .. })), "{failed:?}");
    files.fail_after(None);
    let refused = tree(&pool).insert(&mut chain, b"x", b"y");
    assert!(matches!(refused, Err(PagedError::Stopped { .. })), "{refused:?}");
    assert!(matches!(pool.clean_all(), Err(PagedError::Stopped { .. })));
    assert_ne!(pool.oldest_unwritten(), None::<Lsn>);
}

#[test]
fn a_full_medium_refuses_a_page_and_nothing_else() {
    let files = RecordingFiles::new();
    let (_, pool) = create(&files, 512, 64);
    let used: usize = files.image().values().map(Vec::len).sum();
    files.limit(Some(used as u64 + 40 * 512));
    let (mut model, mut chain) = (Model::new(), transaction(2));
    let refused = (0..1000_u32).find_map(|key| {
        let (key, row) = (key.to_be_bytes().to_vec(), vec![1; 100]);
        let inserted = tree(&pool).insert(&mut chain, &key, &row).err();
        if inserted.is_none() {
            model.insert(key, row);
        }
        inserted
    });
    assert!(matches!(refused, Some(PagedError::Io { doing: "growing the file of pages", .. })));
    pool.clean_all().unwrap();
    assert_same(&pool, &model, "full");
    files.limit(None);
    tree(&pool).insert(&mut chain, b"more", b"row").unwrap();
}

#[test]
fn a_map_of_zeros_gives_no_page_away_that_is_in_use() {
    let files = RecordingFiles::new();
    let (_, pool) = create(&files, 512, 16);
    // A row with more pages than the first map covers.
    tree(&pool).insert(&mut transaction(2), b"long", &vec![7; 3600 * 448]).unwrap();
    pool.clean_all().unwrap();
    let second = paged::maps::map_of(PageNo(3590), 512);
    for map in [paged::maps::FIRST_MAP, second] {
        let mut image = files.image();
        image.insert("staging".into(), Vec::new());
        let from = 512 * map.0 as usize;
        image.get_mut("pages").unwrap()[from..from + 512].fill(0);
        let pool = open(image).unwrap();
        let row = vec![8; 3600 * 448];
        let done = tree(&pool).insert(&mut transaction(3), b"other", &row);
        assert!(
            matches!(done, Err(PagedError::DamagedPage { page, .. }) if page == map),
            "{map}: {done:?}"
        );
    }
}
