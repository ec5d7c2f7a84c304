//! A store of which pages are damaged: a reader that saves what can be read gets every row of every
//! other leaf.

use std::collections::BTreeSet;
use std::sync::Arc;

use paged::PagedError;
use paged::store::{Store, StoreOptions};
use sim::RecordingFiles;

use super::support::{Model, TREES, TestStore, create, open_log, options, rows};
use paged::tree::Direction;

const PAGE_BYTES: usize = 512;
const FRAMES: usize = 24;
const PARTITION: u64 = 128 << 10;
const STAMP: u64 = 77;

/// Keys are text, so that the next one cannot be guessed.
fn key(number: u64) -> Vec<u8> {
    format!("{:04}-{}", number * 7919 % 1009, "k".repeat(number as usize % 20)).into_bytes()
}

/// A closed store; one row in sixteen is long.
fn closed() -> (std::collections::BTreeMap<String, Vec<u8>>, Model) {
    let files = RecordingFiles::new();
    let store = create(&files, FRAMES, PARTITION);
    let (mut model, mut session) = (Model::new(), store.session());
    for number in 0..300 {
        session.begin(number, None);
        let row = vec![number as u8; if number % 16 == 0 { 1300 } else { 30 }];
        session.insert(TREES[0], &key(number), &row).unwrap();
        session.insert(TREES[1], &key(number), b"").unwrap();
        model.insert(key(number), row);
        let at = session.commit().unwrap();
        store.wait(at).unwrap();
    }
    drop(session);
    store.close().unwrap();
    (files.image(), model)
}

/// The rows of the first tree that can be read past all damage.
fn rest(store: &Arc<TestStore>) -> Model {
    let (mut found, mut session) = (Model::new(), store.session());
    loop {
        let last = found.last_key_value().map(|(key, _)| key.clone());
        let Some((key, row)) = store.next_readable(TREES[0], last.as_deref()) else { break };
        // A read by its key finds it, too.
        session.begin(0, None);
        assert_eq!(session.get(TREES[0], &key).unwrap().as_ref(), Some(&row));
        session.commit().unwrap();
        found.insert(key, row);
    }
    found
}

fn kind_of(image: &[u8], page: usize) -> u8 {
    image[page * PAGE_BYTES + 4]
}

fn tree_of(image: &[u8], page: usize) -> u8 {
    image[page * PAGE_BYTES + 32]
}

#[test]
fn a_damaged_page_costs_its_own_rows_and_no_others() {
    let (image, model) = closed();
    let pages = image["pages"].len() / PAGE_BYTES;
    let (mut leaves, mut inner, mut chains) = (0, 0, 0);
    // One page, and two at a time: what lies between them is not lost.
    let pairs = (1..pages).map(|page| [page, page]);
    let pairs = pairs.chain((1..pages - 9).step_by(3).map(|page| [page, page + 9]));
    for pair in pairs {
        let mut damaged = image.clone();
        for page in BTreeSet::from(pair) {
            damaged.get_mut("pages").unwrap()[page * PAGE_BYTES + 100] ^= 1;
        }
        let files = RecordingFiles::from_image(damaged.clone());
        let log = Arc::new(open_log(&files, PARTITION));
        let store = Store::open_past_damage(&files, "", STAMP, log, options(FRAMES)).unwrap();
        let told = store.find_leaves();
        let used =
            |page: usize| image["pages"][page * PAGE_BYTES..][..PAGE_BYTES] != [0; PAGE_BYTES];
        for page in
            pair.into_iter().filter(|page| used(*page) && kind_of(&image["pages"], *page) != 5)
        {
            let named = told.iter().any(|error| {
                matches!(error, PagedError::DamagedPage { page: at, .. } if at.0 == page as u64)
            });
            assert!(named, "{pair:?}: {told:?}");
        }
        let found = rest(&store);
        assert!(found.iter().all(|(key, row)| model.get(key) == Some(row)), "{pair:?}: wrong");
        let lost = model.len() - found.len();
        let first = |page: usize| tree_of(&image["pages"], page) == 1;
        let count = |kind: u8| {
            let of = |page: &usize| first(*page) && kind_of(&image["pages"], *page) == kind;
            BTreeSet::from(pair).iter().filter(|page| of(page)).count()
        };
        let (of_leaves, of_chains) = (count(1), count(3));
        // A leaf of these pages has at most sixteen rows, a page of a chain a part of one.
        assert!(lost <= 16 * of_leaves + of_chains, "{pair:?}: {lost} lost");
        assert!(lost > 0 || of_leaves + of_chains == 0, "{pair:?}: nothing of it is lost");
        leaves += of_leaves;
        chains += of_chains;
        inner += count(2);
    }
    println!("{leaves} leaves, {inner} inner pages, {chains} of chains in {pages} pages");
    assert!(leaves > 30 && inner > 3 && chains > 30, "{leaves}, {inner}, {chains}");
}

#[test]
fn without_a_header_or_a_staging_file_all_rows_are_there() {
    let (image, model) = closed();
    for which in 0..3 {
        let mut damaged = image.clone();
        match which {
            0 => drop(damaged.remove("staging")),
            1 => damaged.get_mut("pages").unwrap()[..PAGE_BYTES].fill(0x5a),
            // The catalog: where the trees are.
            _ => damaged.get_mut("pages").unwrap()[2 * PAGE_BYTES..][..PAGE_BYTES].fill(0x5a),
        }
        let files = RecordingFiles::from_image(damaged);
        let log = Arc::new(open_log(&files, PARTITION));
        // The size that was asked for is not known any more.
        let options = StoreOptions { page_bytes: 8192, ..options(FRAMES) };
        let store = Store::open_past_damage(&files, "", STAMP, log, options).unwrap();
        assert_eq!(store.find_leaves().len(), usize::from(which == 2), "{which}");
        assert_eq!(rest(&store), model, "{which}");
        let found = rows(&store, TREES[0], Direction::Forward).unwrap();
        assert!(found.into_iter().eq(model.clone()), "{which}");
    }
}

/// Another version's pages are laid out otherwise: none of them could be read. A version that is only
/// damaged is no reason to give up.
#[test]
fn a_file_of_another_version_is_refused() {
    const VERSION: usize = 64 + 7;
    let (mut image, model) = closed();
    let pages = image.get_mut("pages").unwrap();
    pages[VERSION] = 1;
    let damaged = image.clone();
    let header = &mut image.get_mut("pages").unwrap()[..PAGE_BYTES];
    let sum = crc32c::crc32c(&header[4..]);
    header[..4].copy_from_slice(&sum.to_le_bytes());
    let salvaged = |image: &std::collections::BTreeMap<String, Vec<u8>>| {
        let files = RecordingFiles::from_image(image.clone());
        let log = Arc::new(open_log(&files, PARTITION));
        let store = Store::open_past_damage(&files, "", STAMP, log, options(FRAMES));
        (store, files.image()["pages"] == image["pages"])
    };
    let (refused, is_same) = salvaged(&image);
    let Err(why) = refused else { panic!("it was opened") };
    let why = why.to_string();
    assert!(why.contains("format version 1; this build reads version 2"), "{why}");
    assert!(is_same, "nothing was written");
    let (store, _) = salvaged(&damaged);
    let store = store.expect("opened past the damage");
    store.find_leaves();
    assert_eq!(rest(&store), model);
}
