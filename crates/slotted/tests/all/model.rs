//! The store against a model, in every memory, with every scheme and in pages of several sizes.

use std::ops::ControlFlow;

use heap::Heap;
use pm::{Access, Domain, Memory, Pool, PoolOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sim::Arena;
use slotted::{
    Fash, Fash1, Fast, Fast1, Journal, Line, Nvwal, Options, Scheme, SlottedError, Store, Wal, Word,
};

use crate::work::{Mix, Model, TREES, arena, arena_of, contents, heap_over, key, run, small};

const MIX: Mix = Mix { keys: 300, operations: 12, deletions: 35, long: 3, value_bytes: 90 };

/// Random transactions, of which a third is aborted.
fn follows_the_model<M: Memory, S: Scheme<M>>(memory: M, page_bytes: u32, seed: u64, mix: Mix) {
    let mut store = Store::<M, S>::create(heap_over(memory).lane(0), small(page_bytes)).unwrap();
    let (mut model, mut random) = (Model::new(), SmallRng::seed_from_u64(seed));
    let mut most_levels = 0;
    for step in 0..400 {
        // It grows, shrinks and grows again.
        let deletions = if step / 100 % 2 == 0 { mix.deletions / 3 } else { 80 };
        let mut after = model.clone();
        run(&mut store, &mut after, &mut random, Mix { deletions, ..mix });
        if random.random_range(0..3) == 0 {
            store.abort();
        } else {
            store.commit().unwrap();
            model = after;
        }
        if step % 10 == 0 {
            assert!(contents(&store).unwrap() == model, "seed {seed}, step {step}");
            let census = store.check().unwrap();
            assert_eq!(census.records, model.len() as u64);
            most_levels = most_levels.max(census.levels);
        }
    }
    assert!(most_levels >= if page_bytes == 512 { 3 } else { 2 }, "{most_levels} levels");
    let at = store.at();
    let mut store = Store::<M, S>::open(store.into_lane(), at).unwrap();
    assert!(contents(&store).unwrap() == model);
    // Everything goes; one leaf a tree is left, and every other page is free.
    for (tree, key) in model.keys() {
        assert!(store.delete(*tree, key).unwrap());
    }
    store.commit().unwrap();
    let census = store.check().unwrap();
    assert_eq!((census.records, census.overflow), (0, 0));
    assert!(census.leaves <= 8, "{census:?}");
}

/// In pages of 512 bytes, where trees are high, and in larger ones.
fn follows_the_model_in_pages<S: Scheme<Arena>>() {
    for (page_bytes, seed) in [(512, 1), (512, 2), (1024, 3), (4096, 4)] {
        let mix = Mix { keys: 300 * (page_bytes / 512), ..MIX };
        follows_the_model::<Arena, S>(arena(), page_bytes, seed, mix);
    }
}

macro_rules! follow_the_model {
    ($($name:ident: $scheme:ident),*) => {$(
        #[test]
        fn $name() {
            follows_the_model_in_pages::<$scheme<Arena>>();
        }
    )*};
}

follow_the_model! {
    fash_follows_the_model: Fash,
    fash1_follows_the_model: Fash1,
    fast_follows_the_model: Fast,
    fast1_follows_the_model: Fast1,
    nvwal_follows_the_model: Nvwal,
    journal_follows_the_model: Journal,
    wal_follows_the_model: Wal,
    word_follows_the_model: Word,
    line_follows_the_model: Line
}

/// A pool can be asked for it everywhere; what it says depends on the processor.
#[test]
fn whole_line_headers_are_refused_without_the_instruction() {
    let folder = tempfile::tempdir().unwrap();
    let pool = |name: &str, domain| {
        let options = PoolOptions { domain: Some(domain), model: true, ..PoolOptions::default() };
        Pool::create(&folder.path().join(name), &options).unwrap()
    };
    for (name, domain) in [("adr", Domain::Adr), ("disk", Domain::Disk)] {
        let pool = pool(name, domain);
        let can = pool.has_store_line();
        assert!(!(can && domain == Domain::Disk), "pages of a file are no lines");
        let made = Store::<Pool, Line<Pool>>::create(heap_over(pool).lane(0), Options::default());
        match made {
            Ok(mut store) => {
                assert!(can);
                store.put(0, b"key", b"value").unwrap();
                store.commit().unwrap();
                assert_eq!(store.get(0, b"key").unwrap().unwrap(), b"value");
            }
            Err(refused) => {
                assert!(!can && refused.to_string().contains("MOVDIR64B"), "{refused}");
            }
        }
    }
}

#[test]
fn a_store_in_a_pool_is_there_after_it_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let options = PoolOptions { domain: Some(Domain::Adr), model: true, ..PoolOptions::default() };
    let mut model = Model::new();
    let mut random = SmallRng::seed_from_u64(7);
    let pool = Pool::create(&path, &options).unwrap();
    let heap = heap_over(pool.clone());
    let mut store = Store::<Pool, Fast<Pool>>::create(
        heap.lane(0),
        Options { trees: TREES, ..Options::default() },
    )
    .unwrap();
    heap.set_root("slotted", store.at()).unwrap();
    for _ in 0..60 {
        run(&mut store, &mut model, &mut random, Mix { keys: 2000, operations: 30, ..MIX });
        store.commit().unwrap();
    }
    run(&mut store, &mut model.clone(), &mut random, MIX);
    drop((store, heap));
    pool.close().unwrap();
    drop(pool);
    let heap = Heap::open(Pool::open(&path, &options, Access::ReadWrite).unwrap()).unwrap();
    let at = heap.root("slotted").unwrap().unwrap();
    let mut store = Store::<Pool, Fast<Pool>>::open(heap.lane(0), at).unwrap();
    assert!(contents(&store).unwrap() == model);
    assert_eq!(store.check().unwrap().records, model.len() as u64);
    let other = Store::<Pool, Fash<Pool>>::open(store.into_lane(), at);
    assert!(matches!(other, Err(SlottedError::Heap(_))), "another scheme's store");
}

#[test]
fn a_scan_begins_at_its_key_and_ends_on_request() {
    let mut store =
        Store::<Arena, Fash<Arena>>::create(heap_over(arena()).lane(0), small(512)).unwrap();
    for number in 0u32..500 {
        store.put(0, &(2 * number).to_be_bytes(), &[number as u8; 20]).unwrap();
    }
    let mut met = Vec::new();
    store
        .scan(0, &301u32.to_be_bytes(), |key, _| {
            met.push(u32::from_be_bytes(key.try_into().unwrap()));
            if met.len() == 100 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(met, (151..251).map(|number| 2 * number).collect::<Vec<_>>());
}

#[test]
fn the_largest_is_accepted_and_anything_larger_refused() {
    for page_bytes in [512u32, 1024, 32 << 10] {
        let options = Options { segment_bytes: 1 << 20, ..small(page_bytes) };
        let mut store =
            Store::<Arena, Fash<Arena>>::create(heap_over(arena()).lane(0), options).unwrap();
        let most = slotted::layout::most_inline(page_bytes as usize);
        for last in 0..60u8 {
            let mut key = vec![7; most];
            key[most - 1] = last;
            store.put(0, &key, &vec![last; most]).unwrap();
            store.put(1, &key, &vec![last; most - usize::from(last) % 8]).unwrap();
            store.commit().unwrap();
        }
        assert_eq!(store.check().unwrap().records, 120);
        let refused = store.put(0, &vec![7; most + 1], b"");
        assert!(matches!(refused, Err(SlottedError::TooLarge { what: "key", .. })));
        assert!(store.get(0, &vec![7; most]).unwrap().is_some());
    }
}

#[test]
fn a_full_memory_refuses_and_takes_deletions() {
    let memory = arena_of(512 << 10);
    let mut store =
        Store::<Arena, Fast<Arena>>::create(heap_over(memory).lane(0), small(512)).unwrap();
    let mut there = Vec::new();
    let refused = loop {
        let key = key(there.len() as u32);
        match store.put(0, &key, &[1; 60]) {
            Ok(_) => there.push(key),
            Err(error) => break error,
        }
        store.commit().unwrap();
    };
    assert!(matches!(&refused, SlottedError::Heap(heap::HeapError::Full(_))), "{refused}");
    store.commit().unwrap();
    let census = store.check().unwrap();
    assert_eq!(census.records, there.len() as u64);
    assert!(there.len() > 1000, "{}", there.len());
    for key in &there[..there.len() / 2] {
        assert!(store.delete(0, key).unwrap());
        store.commit().unwrap();
    }
    assert!(store.check().unwrap().free > census.free);
    for key in &there[..100] {
        assert!(!store.put(0, key, &[2; 60]).unwrap());
        store.commit().unwrap();
    }
    store.check().unwrap();
}

/// Fills half of a memory with pages, and then a log that grows with what it has to say.
#[test]
fn nvwal_in_a_full_memory_makes_room_in_its_log_by_a_checkpoint() {
    let memory = arena_of(512 << 10);
    let mut store =
        Store::<Arena, Nvwal<Arena>>::create(heap_over(memory).lane(0), small(512)).unwrap();
    let mut there = 0;
    let refused = loop {
        match store.put(0, &key(there), &[1; 60]).and_then(|_| store.commit()) {
            Ok(()) => there += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&refused, SlottedError::Heap(heap::HeapError::Full(_))), "{refused}");
    store.abort();
    let before = store.commits().checkpoints;
    for number in 0..there {
        assert!(store.delete(0, &key(number)).unwrap());
        store.commit().unwrap();
    }
    assert!(store.commits().checkpoints > before);
    assert_eq!(store.check().unwrap().records, 0);
}

#[test]
fn a_key_that_is_there_is_not_inserted_again() {
    let mut store =
        Store::<Arena, Fast<Arena>>::create(heap_over(arena()).lane(0), small(512)).unwrap();
    for value in [&b"first"[..], &[7; 900]] {
        let key = value.len().to_be_bytes();
        assert!(store.insert(0, &key, value).unwrap());
        assert!(!store.insert(0, &key, b"second").unwrap());
        store.commit().unwrap();
        assert!(!store.insert(0, &key, b"third").unwrap());
        assert_eq!(store.get(0, &key).unwrap().unwrap(), value);
    }
}

#[test]
fn commits_are_counted_and_objects_reported() {
    let mut store =
        Store::<Arena, Fast<Arena>>::create(heap_over(arena()).lane(0), small(512)).unwrap();
    let made = store.commits();
    for number in 0..400 {
        store.put(0, &key(number), &[1; 40]).unwrap();
        store.commit().unwrap();
    }
    let counts = store.commits();
    assert_eq!(counts.in_place + counts.logged, made.logged + 400);
    assert!(counts.in_place > 250 && counts.logged_bytes > made.logged_bytes, "{counts:?}");
    let census = store.check().unwrap();
    let mut objects = Vec::new();
    store.objects(&mut |object| objects.push(object)).unwrap();
    assert_eq!(objects.len() as u64, 1 + census.log_objects + census.segments);
    assert!(objects.contains(&store.at()));
}
