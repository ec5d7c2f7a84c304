//! A log that has lost its end, by damage, while pages have what it has lost: it is no database of
//! any moment, and is refused. Where the pages do not have it either, a crash can have left the
//! same.

use std::collections::BTreeMap;
use std::sync::Arc;

use paged::PagedError;
use paged::log::nv::{NvForm, NvLog, NvOptions, Persist};
use paged::store::Store;
use paged::threads::Host;
use pm::Memory;
use sim::{Recording, RecordingFiles};

use super::support::{Model, TREES, TestStore, contents, create, open, options};

type Image = BTreeMap<String, Vec<u8>>;

const FRAMES: usize = 16;
const PARTITION: u64 = 64 << 10;
const TRANSACTIONS: u8 = 12;
const PAGE_BYTES: usize = 512;
/// The places of the newest LSN in the staging file, after its header and a batch.
const NEWEST: [usize; 2] = [1024 + 64 * PAGE_BYTES, 1024 + 64 * PAGE_BYTES + 512];

/// Does transactions, and writes all pages before the last one; returns what each has left.
fn run(store: &Arc<TestStore>, mut before_last: impl FnMut()) -> Vec<[Model; 2]> {
    let mut moments = vec![[Model::new(), Model::new()]];
    let mut session = store.session();
    for number in 0..TRANSACTIONS {
        if number + 1 == TRANSACTIONS {
            store.pool().clean_all().unwrap();
            before_last();
        }
        let mut models = moments[moments.len() - 1].clone();
        session.begin(u64::from(number), None);
        for key in [number % 3, 10 + number, 40 + number] {
            let tree = usize::from(key % 2);
            let row = vec![number; 60];
            match models[tree].insert(vec![key], row.clone()) {
                Some(_) => session.update(TREES[tree], &[key], &row).unwrap(),
                None => session.insert(TREES[tree], &[key], &row).unwrap(),
            }
        }
        let at = session.commit().unwrap();
        store.wait(at).unwrap();
        moments.push(models);
    }
    moments
}

/// The outcomes of damage at several places.
#[derive(Default, PartialEq, Eq, Debug)]
struct Outcomes {
    /// The error says that the log has lost its end.
    lost_end: usize,
    /// Another error.
    other: usize,
    /// The last transaction is there, or is not.
    whole: usize,
    one_less: usize,
}

impl Outcomes {
    fn count(&mut self, opened: paged::Result<Arc<TestStore>>, moments: &[[Model; 2]], name: &str) {
        match opened {
            Err(PagedError::WrongPages { what, .. }) if what.contains("has lost its end") => {
                self.lost_end += 1;
            }
            Err(PagedError::DamagedLog { .. }) => self.other += 1,
            Err(error) => panic!("{name}: {error}"),
            Ok(store) => {
                let found = contents(&store).unwrap_or_else(|error| panic!("{name}: {error}"));
                store.check().unwrap_or_else(|error| panic!("{name}: {error}"));
                let moment = moments.iter().rev().position(|moment| *moment == found);
                match moment {
                    Some(0) => self.whole += 1,
                    Some(1) => self.one_less += 1,
                    _ => panic!("{name}: the contents of no moment, or of one long ago"),
                }
            }
        }
    }
}

/// Damages what the last transaction has in the central log, byte by byte.
fn damage_central(
    image: &Image,
    bytes: std::ops::Range<usize>,
    moments: &[[Model; 2]],
) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for at in bytes.step_by(3) {
        let mut image = image.clone();
        image.get_mut("log-1").unwrap()[at] ^= 1 << (at % 8);
        let files = RecordingFiles::from_image(image);
        outcomes.count(open(&files, FRAMES, PARTITION), moments, &format!("byte {at}"));
    }
    outcomes
}

#[test]
fn a_central_log_that_ends_before_what_pages_have_is_refused() {
    let files = RecordingFiles::new();
    let store = create(&files, FRAMES, PARTITION);
    let offset = |store: &TestStore| store.log().end().0 as u32 as usize;
    let mut from = 0;
    let moments = run(&store, || from = offset(&store));
    let (bytes, before) = (from..offset(&store), files.image());
    store.pool().clean_all().unwrap();
    let image = files.image();

    // The commit's record, by a byte in three; no page has it, and without it the transaction is
    // undone.
    let of_commit = 64 / 3 + 1;
    // Pages have nothing of the last transaction: it is lost, as after a crash.
    let outcomes = damage_central(&before, bytes.clone(), &moments);
    println!("before pages were written: {outcomes:?}");
    assert!(outcomes.one_less > 50 && outcomes.lost_end == 0, "{outcomes:?}");

    let outcomes = damage_central(&image, bytes.clone(), &moments);
    println!("behind that: {outcomes:?}");
    assert!(outcomes.lost_end > 100 && outcomes.one_less <= of_commit, "{outcomes:?}");

    // A crash has torn the next batch, with the sector whose turn it was.
    let newest = |image: &Image, at: usize| image["staging"][at + 16..at + 24].to_vec();
    let (first, second) = (newest(&image, NEWEST[0]), newest(&image, NEWEST[1]));
    let lesser = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let torn = usize::from(lesser(&second) < lesser(&first));
    let mut image = image;
    let staging = image.get_mut("staging").unwrap();
    staging[..64].fill(0xa5);
    staging[NEWEST[torn]..NEWEST[torn] + 512].fill(0xa5);
    let outcomes = damage_central(&image, bytes, &moments);
    println!("with a torn batch: {outcomes:?}");
    assert!(outcomes.lost_end > 100 && outcomes.one_less <= of_commit, "{outcomes:?}");
}

const AT: u64 = 64;
const LIMIT: u64 = 1 << 20;
const FORM: NvForm = NvForm { entries: 512, segments: 32, segment_bytes: 8192, record_bytes: 2048 };

fn nv_options(persist: Persist) -> NvOptions {
    NvOptions { persist, lanes: 2, checkpoint_records: 300 }
}

fn open_nv(contents: &[u8], image: &Image, persist: Persist) -> paged::Result<Arc<TestStore>> {
    let memory = Recording::from_image(contents, LIMIT).unwrap();
    let log: NvLog<_, Host> = NvLog::open(memory, AT, 7, nv_options(persist), Arc::default())?;
    let files = RecordingFiles::from_image(image.clone());
    Ok(Store::open(&files, "", Arc::new(log), options(FRAMES))?.0)
}

#[test]
fn an_nv_log_that_ends_before_what_pages_have_is_refused() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        let (memory, files) = (Recording::new(LIMIT).unwrap(), RecordingFiles::new());
        memory.grow(AT + FORM.bytes()).unwrap();
        let log: NvLog<_, Host> =
            NvLog::create(memory.clone(), AT, FORM, 7, nv_options(persist), Arc::default());
        let store = Store::create(&files, "", 77, Arc::new(log), options(FRAMES), &TREES).unwrap();
        let mut before_last = Vec::new();
        let moments = run(&store, || before_last = memory.contents());
        let before = files.image();
        store.pool().clean_all().unwrap();
        let (contents, image) = (memory.contents(), files.image());

        // The bytes that the last transaction has added: its objects and their entries.
        let changed = (0..contents.len())
            .filter(|at| contents[*at] != before_last.get(*at).copied().unwrap_or_default());
        let places: Vec<usize> = changed.step_by(3).collect();
        let damage = |image: &Image| {
            let mut outcomes = Outcomes::default();
            for at in &places {
                let mut contents = contents.clone();
                contents[*at] ^= 1 << (at % 8);
                let name = format!("{persist:?}, byte {at}");
                outcomes.count(open_nv(&contents, image, persist), &moments, &name);
            }
            outcomes
        };
        let outcomes = damage(&before);
        println!("{persist:?}, before pages were written: {outcomes:?}");
        assert!(outcomes.one_less > 5 && outcomes.lost_end == 0, "{outcomes:?}");
        let outcomes = damage(&image);
        println!("{persist:?}, behind that: {outcomes:?}");
        // With flush-on-insert a later record names each of them, whether pages have it or not.
        let noticed = match persist {
            Persist::OnInsert => outcomes.other,
            Persist::OnCommit => outcomes.lost_end,
        };
        assert!(noticed > 50, "{outcomes:?}");
    }
}
