//! Flushes, fences and stores left out in turn, with `perdura_share=stock`, and lines of NVWAL's log: each absence
//! is noticed, or there is a reason why the instruction is not needed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use perdura_sqlite::store::connection::Store;
use perdura_sqlite::store::error::StoreError;
use perdura_sqlite::store::mode::Mode;
use perdura_sqlite::store::page1::is_marked;
use pm::Memory;
use sim::{Recording, Replay, Trace};

use crate::explore::{DATA, SIDE, SLOT, line_after, lines_of, media};
use crate::stock_crashes::{Actor, Shared, explore, recorded};
use crate::store_kills;

/// The transactions of a fixed scenario, in a mode.
fn statements(mode: Mode) -> Vec<(Actor, String)> {
    let mut all = vec![(Actor::One, "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)".to_owned())];
    let mut add = |by, sql: &str| all.push((by, sql.to_owned()));
    let insert = |key: i64, len: i64| format!("INSERT INTO t VALUES({key}, hex(zeroblob({len})))");
    for key in 1..5 {
        add(Actor::One, &insert(key, 40));
        add([Actor::Two, Actor::Stock][key as usize % 2], &insert(10 + key, 60));
    }
    add(Actor::One, &insert(20, 900));
    add(Actor::Stock, &insert(22, 1500));
    add(Actor::One, &insert(23, 10));
    add(Actor::Stock, "DELETE FROM t WHERE a > 19; VACUUM");
    add(Actor::Two, &insert(21, 700));
    add(Actor::One, "UPDATE t SET b = '1' || substr(b, 2) WHERE a < 3");
    add(Actor::One, "DELETE FROM t WHERE a > 12; VACUUM");
    add(Actor::Two, &insert(30, 20));
    for one in all.iter_mut().filter(|one| one.0 != Actor::Stock) {
        one.1 = format!("PRAGMA perdura_mode = {}; {}", mode.name(), one.1);
    }
    all
}

/// The instructions of a mode whose absence goes unnoticed, of those that `has` selects.
fn unnoticed(mode: Mode, has: impl Fn(&str) -> bool) -> Vec<String> {
    let name = format!("shared-without-{}", mode.name());
    let (trace, models) = recorded(&name, "PRAGMA page_size = 1024", &statements(mode));
    assert_eq!(explore(&trace, &models, 16, u64::MAX).0.failed, None, "with all of them");
    let mut unnoticed = Vec::new();
    for one in trace.instructions() {
        let (name, without) = (one.to_string(), trace.without(one));
        if name.contains("/tests/") || !has(&name) {
            continue;
        }
        let noticed = |bound| explore(&without, &models, bound, u64::MAX).0.failed.is_some();
        if !noticed(4) && !noticed(150) {
            unnoticed.push(name);
        }
    }
    unnoticed
}

/// Instructions that a mode does not need while it shares with stock SQLite. The marker is cleared after each
/// commit. Before it is set again the side file's header becomes durable, and the whole commit in place.
fn not_needed(mode: Mode) -> Vec<String> {
    let side = include_str!("../../src/store/side.rs");
    let connection = include_str!("../../src/store/connection.rs");
    let home = include_str!("../../src/store/restore_layout.rs");
    let blocks = include_str!("../../src/store/nvwal_log/blocks.rs");
    let nvwal = include_str!("../../src/store/adr/nvwal.rs");
    let ordered = include_str!("../../src/store/adr/ordered.rs");
    let in_place = include_str!("../../src/store/adr/in_place.rs");
    let mut all: Vec<String> = [
        // For live connections only: never flushed, or set again before it matters.
        ("side.rs", side, "put(BEGUN_AT, 0)"),
        ("side.rs", side, "put(TABLE_AT, 0)"),
        ("connection.rs", connection, "self.side.set_begun("),
        ("commit.rs", include_str!("../../src/store/commit.rs"), "self.side.set_begun("),
        ("connection.rs", connection, "self.side.set_applied("),
        ("restore_layout.rs", home, "self.side.set_begun("),
        ("log.rs", include_str!("../../src/store/log.rs"), "self.side.set_begun("),
        ("lean.rs", include_str!("../../src/store/lean.rs"), "self.side.set_begun("),
        ("ordered.rs", ordered, "self.side.set_begun("),
        ("ordered.rs", ordered, "self.side.set_applied("),
        ("in_place.rs", in_place, "self.side.set_begun("),
        ("nvwal.rs", nvwal, "self.side.set_begun("),
        ("blocks.rs", blocks, "self.put_block(block, PENDING"),
        // Covered by the test below.
        ("restore_layout.rs", home, "self.side.set_cleared("),
        // The same table as before, unless the page size has changed.
        ("restore_layout.rs", home, "set_table(Table { entries: 0"),
    ]
    .into_iter()
    .flat_map(lines_of)
    .collect();
    // The last checkpoint, the log's length and the page size: slots and the log do not count until the marker is
    // set again.
    let mut after = |file: &str, source: &str, text: &str| {
        all.push(format!("{file}{}", line_after(source, text)));
    };
    after("connection.rs", connection, "self.side.set_checkpointed(self.last");
    after("restore_layout.rs", home, "set_table(Table { entries: 0");
    after("nvwal.rs", nvwal, "self.side.set_log_bytes(0");
    let settled = "self.side.set_checkpointed(";
    if [Mode::Fash, Mode::Fast, Mode::Nvwal].contains(&mode) {
        // All their stores are durable before. These modes store their own checkpoint, as restoring the layout
        // does.
        let at = |text| connection.lines().position(|line| line.contains(text)).unwrap();
        let before = at("self.side.set_checkpointed(self.last") - 1;
        assert!(connection.lines().nth(before - 1).unwrap().contains("self.fence("));
        all.push(format!("connection.rs:{before}"));
        all.extend(lines_of(("connection.rs", connection, settled)));
        all.extend(lines_of(("ordered.rs", ordered, settled)));
    }
    if mode == Mode::Fast {
        // Restoring the layout makes it durable before stock SQLite, or the program, sees it.
        let fences = lines_of(("in_place.rs", in_place, "self.fence(&mut lines);"));
        all.extend(fences.last().cloned());
    }
    if mode == Mode::Nvwal {
        // Its log frames hold places in the file, so the page size does not matter.
        all.extend(lines_of(("connection.rs", connection, "self.side.set_table(")));
    }
    if [Mode::Lean, Mode::Nvwal, Mode::Full].contains(&mode) {
        // These modes make no store to the database before a fence that also covers the marker.
        let set = "page1::set_marker(&self.data";
        all.push(format!("connection.rs{}", line_after(connection, set)));
    }
    all
}

#[test]
fn missing_marker_instruction_is_noticed() {
    for mode in Mode::ALL {
        let not_needed = not_needed(mode);
        let is_needed = |name: &str| !not_needed.iter().any(|place| name.ends_with(place));
        assert_eq!(unnoticed(mode, is_needed), Vec::<String>::new(), "{mode:?}");
    }
}

/// The images of all kills in a trace.
fn kills(trace: &Trace) -> Vec<Vec<u8>> {
    let mut images = Vec::new();
    trace.process_states(|_, image| images.push(image.to_vec()));
    images.dedup();
    images
}

/// Refreshes without a lock at one state, as SQLite does when it opens a database, then with a lock at a later
/// state. Returns an error, or `None`.
fn look_twice(first: &[u8], then: &[u8]) -> Option<String> {
    let memory = Recording::from_image(first, SIDE + DATA).unwrap();
    let bytes = || Ok::<_, StoreError>(store_kills::PAGE as u64);
    let mut store = Store::attach(media(&memory), store_kills::PAGE as u64).unwrap();
    store.refresh_unlocked(bytes).unwrap();
    memory.copy(pm::Off::new(0), then);
    let whole = store.refresh(bytes).unwrap();
    let data = &then[SIDE as usize..][..store_kills::PAGE];
    if store.is_marked() != is_marked(data) {
        return Some(format!("the marker is taken for {}", store.is_marked()));
    }
    if whole {
        store.catch_up().unwrap();
        let (mut found, mut now) = (vec![0; store_kills::PAGE], data.to_vec());
        store.read(0, &mut found).unwrap();
        // While the marker is set, SQLite sees neither the marker nor the tag.
        now[19] = found[19];
        now[72..80].copy_from_slice(&found[72..80]);
        if found != now {
            return Some(format!("{} is read, {} is there", found[200], now[200]));
        }
    }
    None
}

#[test]
fn clearing_the_marker_is_announced_first() {
    let memory = store_kills::new();
    let mut one = store_kills::open(&memory, 1);
    one.set_keeps_layout(true);
    store_kills::commit(&mut one, &store_kills::page(1, 7));
    let shared =
        Shared { memory, bytes: Arc::default(), acknowledged: Arc::default(), alone: false };
    let trace = store_kills::trace(&shared.memory, || {
        one.restore_layout().unwrap();
        one.make_plain().unwrap();
        shared.put(&store_kills::page(5, 8));
    });
    let wrong = |trace: &Trace| {
        let images = kills(trace);
        assert!(images.len() > 20);
        (0..images.len())
            .flat_map(|then| (0..=then).map(move |first| (first, then)))
            .find_map(|(first, then)| look_twice(&images[first], &images[then]))
    };
    assert_eq!(wrong(&trace), None);
    let home = include_str!("../../src/store/restore_layout.rs");
    let place = lines_of(("restore_layout.rs", home, "self.side.set_cleared(")).remove(0);
    let says = |recorded: &sim::RecordedEvent| {
        let site = format!("{}:{}", recorded.site.file(), recorded.site.line());
        site.ends_with(&place)
    };
    let at = trace.events.iter().position(says).unwrap();
    let mut without = trace.clone();
    let said = without.events.remove(at);
    assert!(wrong(&without).is_some(), "it is not said at all");
    // After the marker.
    let marker = |recorded: &sim::RecordedEvent| matches!(recorded.event, sim::Event::Store { .. });
    let next = at + without.events[at..].iter().position(marker).unwrap();
    without.events.insert(next + 1, said);
    assert!(wrong(&without).is_some(), "it is said too late");
}

/// The same trace with a separate flush for each line.
fn by_lines(trace: &Trace) -> Trace {
    let mut events = Vec::new();
    for recorded in &trace.events {
        let (first, end) = match recorded.event {
            sim::Event::Flush { first, end } => (first, end),
            _ => {
                events.push(recorded.clone());
                continue;
            }
        };
        events.extend((first..end).map(|line| sim::RecordedEvent {
            event: sim::Event::Flush { first: line, end: line + 1 },
            ..recorded.clone()
        }));
    }
    Trace { image: trace.image.clone(), events }
}

/// Leaves one line of NVWAL's log unflushed: it contains checksums and bytes that they cover.
#[test]
fn checksum_detects_an_unflushed_nvwal_line() {
    let memory = store_kills::new();
    let mut one = store_kills::open(&memory, 1);
    one.set_mode(Mode::Nvwal);
    store_kills::commit(&mut one, &store_kills::page(1, 1));
    let shared =
        Shared { memory, bytes: Arc::default(), acknowledged: Arc::default(), alone: false };
    let trace = by_lines(&store_kills::trace(&shared.memory, || {
        for number in 2..5 {
            store_kills::commit(&mut one, &store_kills::page(number.into(), number));
            shared.memory.note(number.into());
        }
        shared.acknowledged.store(3, Ordering::Relaxed);
        shared.acknowledge();
    }));
    let explored = |trace: &Trace| {
        let mut checksums = 0;
        let failed = Replay::new(trace).explore(40, 1, |image, noted| {
            let memory = Recording::from_image(image, SIDE + DATA).unwrap();
            let acknowledged = noted & 0xffff;
            match crate::explore::recover(&memory) {
                Err(why) if why.contains("a frame of its log does not match its checksum") => {
                    checksums += 1;
                    Ok(())
                }
                Err(why) => Err(why),
                Ok(plain) => {
                    let found = u64::from(plain[500]);
                    let whole = plain[100..].iter().all(|byte| u64::from(*byte) == found);
                    let right =
                        whole && (found == acknowledged.max(1) || found == acknowledged.max(1) + 1);
                    if right {
                        Ok(())
                    } else {
                        Err(format!("{found}; noted {acknowledged}, {whole}"))
                    }
                }
            }
        });
        (failed.failed, checksums)
    };
    assert_eq!(explored(&trace), (None, 0));
    let log = 8192 + 2 * SLOT;
    let lines = log / 64 + 1..SIDE / 64 - 1;
    let mut left_out = 0;
    for (at, recorded) in trace.events.iter().enumerate() {
        let sim::Event::Flush { first, .. } = recorded.event else { continue };
        if lines.contains(&first) {
            let mut without = trace.clone();
            without.events.remove(at);
            let (failed, checksums) = explored(&without);
            assert!(failed.is_none() && checksums > 0, "line {first}: {failed:?}, {checksums}");
            left_out += 1;
        }
    }
    assert!(left_out > 40, "{left_out}");
}
