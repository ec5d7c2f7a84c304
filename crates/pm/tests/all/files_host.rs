//! The host's files: names, lengths, and what a sync costs in each domain.

use std::io::ErrorKind;

use pm::{Counters, Domain, File, Files, FlushInstruction, HostFiles};

fn in_each_domain(mut test: impl FnMut(&HostFiles, Domain, bool)) {
    let mut domains = vec![
        (Domain::Process, false),
        (Domain::Disk, false),
        (Domain::Adr, false),
        (Domain::Eadr, true),
    ];
    if FlushInstruction::detect().is_ok() {
        domains.push((Domain::Adr, true));
    }
    for (domain, modelled) in domains {
        let place = tempfile::tempdir().unwrap();
        let files = HostFiles::create(&place.path().join("files"), domain, modelled).unwrap();
        test(&files, domain, modelled);
    }
}

#[test]
fn what_is_written_is_read_and_the_end_of_the_file_ends_a_read() {
    in_each_domain(|files, domain, _| {
        let file = files.create("a").unwrap();
        assert!(file.is_empty().unwrap());
        file.write_at(100, b"hello").unwrap();
        file.sync().unwrap();
        let mut out = [9; 8];
        assert_eq!(file.read_at(98, &mut out).unwrap(), 7, "{domain}");
        assert_eq!(&out[..7], b"\0\0hello");
        file.set_len(102).unwrap();
        file.reserve(5000).unwrap();
        file.reserve(10).unwrap();
        assert_eq!(file.len().unwrap(), 5000, "reserving never cuts");
        let again = files.open("a").unwrap();
        assert_eq!(again.read_at(100, &mut out).unwrap(), 8);
        assert_eq!(&out, b"he\0\0\0\0\0\0");
        assert!(files.stored_bytes().unwrap() >= 5000);
    });
}

/// Walking over what a file has already would make growing it quadratic.
#[test]
fn reserving_reaches_for_what_is_new_only() {
    in_each_domain(|files, domain, _| {
        let file = files.create("a").unwrap();
        file.set_len(64 << 20).unwrap();
        file.reserve((64 << 20) + 8192).unwrap();
        let stored = files.stored_bytes().unwrap();
        assert!((8192..1 << 20).contains(&stored), "{domain}: {stored} bytes");
    });
}

#[test]
fn files_are_created_once_renamed_over_and_removed() {
    in_each_domain(|files, _, _| {
        files.create("b").unwrap().write_at(0, b"b").unwrap();
        files.create("a").unwrap();
        assert_eq!(files.create("a").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(files.list().unwrap(), ["a", "b"]);
        files.rename("b", "a").unwrap();
        assert_eq!(files.open("a").unwrap().len().unwrap(), 1);
        files.remove("a").unwrap();
        files.sync_directory().unwrap();
        assert_eq!(files.open("a").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(files.list().unwrap(), [""; 0]);
    });
}

#[test]
fn a_name_that_leaves_the_directory_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let files = HostFiles::create(&place.path().join("files"), Domain::Process, false).unwrap();
    for name in ["", ".", "..", "a/b", "/a", "../a", "a\0"] {
        for error in [
            files.create(name).err(),
            files.open(name).err(),
            files.remove(name).err(),
            files.rename("x", name).err(),
        ] {
            assert_eq!(error.unwrap().kind(), ErrorKind::InvalidInput, "{name:?}");
        }
    }
}

#[test]
fn a_directory_with_something_in_it_is_not_taken() {
    let place = tempfile::tempdir().unwrap();
    HostFiles::create(place.path(), Domain::Process, false).unwrap().create("a").unwrap();
    let error = HostFiles::create(place.path(), Domain::Process, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
    let error = HostFiles::open(&place.path().join("a"), Domain::Process, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotADirectory);
    assert!(HostFiles::open(&place.path().join("none"), Domain::Process, false).is_err());
}

fn cost(files: &HostFiles, act: impl FnOnce()) -> Counters {
    let before = files.counters();
    files.count(true);
    act();
    files.count(false);
    files.counters().since(&before)
}

#[test]
fn a_sync_costs_what_its_domain_asks_for() {
    in_each_domain(|files, domain, modelled| {
        let file = files.create("a").unwrap();
        file.reserve(1 << 16).unwrap();
        let spent = cost(files, || {
            // Two neighbours in one line, then half a line and a whole one elsewhere.
            file.write_at(0, &[1; 10]).unwrap();
            file.write_at(10, &[1; 10]).unwrap();
            file.write_at(4096 - 32, &[1; 96]).unwrap();
            file.sync().unwrap();
        });
        let seen = (spent.syncs, spent.flushed_lines, spent.fences, spent.bytes_persisted);
        let expected = match (domain, modelled) {
            (Domain::Process, _) => (0, 0, 0, 0),
            (Domain::Adr, true) => (1, 3, 1, 192),
            (Domain::Eadr, true) => (1, 0, 1, 116),
            _ => (1, 0, 0, 116),
        };
        assert_eq!(seen, expected, "{domain} {modelled}");
        assert_eq!(spent.file_bytes, 116);
        let again = cost(files, || file.sync().unwrap());
        assert_eq!((again.flushed_lines, again.bytes_persisted), (0, 0), "nothing is left to do");
        let directory = cost(files, || files.sync_directory().unwrap());
        assert_eq!(directory.syncs, u64::from(domain != Domain::Process));
    });
}

#[test]
fn nothing_is_counted_unless_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let files = HostFiles::create(&place.path().join("files"), Domain::Disk, false).unwrap();
    let file = files.create("a").unwrap();
    file.write_at(0, b"x").unwrap();
    file.sync().unwrap();
    assert_eq!(files.counters(), Counters::default());
}

#[test]
fn modelled_adr_touches_nothing_past_a_truncated_file() {
    if FlushInstruction::detect().is_err() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let files = HostFiles::create(&place.path().join("files"), Domain::Adr, true).unwrap();
    let file = files.create("a").unwrap();
    let lines = |act: &dyn Fn()| cost(&files, act).flushed_lines;
    file.write_at(0, &[1; 3 * 4096]).unwrap();
    file.set_len(100).unwrap();
    assert_eq!(lines(&|| file.sync().unwrap()), 2, "cut through this handle");
    file.write_at(0, &[1; 3 * 4096]).unwrap();
    files.open("a").unwrap().set_len(64).unwrap();
    assert_eq!(lines(&|| file.sync().unwrap()), 1, "cut through another handle");
    file.set_len(0).unwrap();
    file.write_at(3 << 20, &[1; 64]).unwrap();
    assert_eq!(lines(&|| file.sync().unwrap()), 1, "grown beyond what was mapped");
}
