//! Dictionaries whose indexes are hash tables in persistent memory: power cuts while a table is made, and while it
//! grows, and each flush and fence left out in turn.

use std::collections::BTreeMap;

use column::{Form, Options, Part, Store, Value, Waiting};
use sim::{Recording, Replay, Trace};

use crate::work::{
    contents, create, durable, explore, from_image, hashed, leaks, noticed_sites, open, text,
};

const LIMIT: u64 = 4 << 20;

fn insert(store: &Store<Recording>, number: u64) -> Result<(), String> {
    let name = format!("name {number}");
    let mut session = store.session();
    session.begin().map_err(text)?;
    let row = [Value::Word(number), Value::Word(number * 3), Value::Bytes(name.as_bytes())];
    session.insert(0, &row).map_err(text)?;
    session.commit().map(drop).map_err(text)
}

/// Rows of new values, noted one by one, after so many others.
fn story(options: Options, before: u64, many: u64) -> Trace {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), options);
    (1..=before).try_for_each(|number| insert(&store, number)).unwrap();
    memory.start();
    for number in 1..=many {
        insert(&store, before + number).unwrap();
        memory.note(number);
    }
    memory.stop()
}

fn verdict(image: &[u8], before: u64, noted: u64) -> Result<(), String> {
    let (store, heap) = open(from_image(image, LIMIT)?, &Waiting::default())?;
    for found in store.in_flight() {
        store.resume(found.id).map_err(text)?.abort().map_err(text)?;
    }
    leaks(&store, &heap)?;
    store.check().map_err(text)?;
    let rows = contents(&store.session())?.len() as u64;
    if (before + noted..=before + noted + 1).contains(&rows) {
        // It goes on.
        insert(&store, 1000)?;
        insert(&store, 1001)?;
        return store.check().map(drop).map_err(text);
    }
    Err(format!("{rows} rows after {noted} and {before}"))
}

/// The first values, and those around the first bucket that is parted: segments are made of 64 buckets and of 128.
const STORIES: [(u64, u64); 2] = [(0, 2), (63, 3)];

#[test]
fn a_power_cut_while_a_hash_table_grows_loses_no_value() {
    growing_tables_lose_no_value(4);
}

/// Looks at the states of each power cut up to a bound, or at one in so many of these.
pub(crate) fn growing_tables_lose_no_value(one_in: u64) {
    for (before, many) in STORIES {
        let trace = story(hashed(), before, many);
        let (_, states, failed) =
            explore(Replay::new(&trace), 24 / one_in, |image, noted| verdict(image, before, noted));
        assert_eq!(failed, None, "after {before}");
        assert!(states * one_in > 500, "{states}");
    }
}

/// A fence after a mini-transaction is for a thread that changes one of its words next in another way.
const FOR_OTHERS: &str = "lane.fence_flushed();";
/// The next fence is that of the record that adds a segment. A crash would have to keep the record, and to lose a line
/// of the zeros: no test comes to that.
const BEHIND_A_RECORD: &str = "self.memory.fence();";

/// Returns of each flush, fence and store of these files whether it was noticed that it was left out.
fn noticed(options: Options, files: &[&str]) -> BTreeMap<(String, String), bool> {
    let mut noticed: BTreeMap<(String, String), bool> = BTreeMap::new();
    for (before, many) in STORIES {
        let trace = story(options, before, many);
        let known = noticed.clone();
        let is_done = |place: &str, line: &str| {
            !files.iter().any(|file| place.contains(&format!(" {file}.rs")))
                || line == FOR_OTHERS
                || line == BEHIND_A_RECORD
                || known.get(&(place.into(), line.into())) == Some(&true)
        };
        let check = |image: &[u8], noted| verdict(image, before, noted);
        noticed.extend(noticed_sites(&trace, 32, is_done, check));
    }
    for file in files {
        assert!(noticed.keys().any(|(place, _)| place.contains(&format!(" {file}.rs"))), "{file}");
    }
    noticed
}

pub(crate) fn each_flush_and_fence_is_needed() {
    let noticed = noticed(hashed(), &["hash_table", "dictionary_index"]);
    let unseen: Vec<_> = noticed.iter().filter(|(_, seen)| !**seen).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
    println!("{noticed:?}");
}

#[test]
fn and_so_it_is_of_a_list_of_values() {
    let noticed = noticed(durable(), &["dictionary_index"]);
    let unseen: Vec<_> = noticed.iter().filter(|(_, seen)| !**seen).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}

/// Keys are needed in their order: their indexes are lists.
#[test]
fn indexes_of_keys_are_ordered_in_any_placement() {
    let memory = Recording::pool(16 << 10, LIMIT).unwrap();
    let store = create(memory.clone(), hashed());
    (1..=100).try_for_each(|number| insert(&store, number)).unwrap();
    for state in store.structures() {
        let expected = match state.structure.part {
            Part::Keys(_) => Form::SkipList,
            Part::Dictionary(_) => Form::HashTable,
        };
        assert_eq!(state.form, expected);
    }
    let image = memory.contents();
    let (next, _) = open(from_image(&image, LIMIT).unwrap(), &Waiting::default()).unwrap();
    assert!(next.structures().iter().all(|state| state.waiting == 0));
    assert_eq!(contents(&next.session()).unwrap(), contents(&store.session()).unwrap());
}
