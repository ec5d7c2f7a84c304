use super::*;

const BYTE: Range = Range::new(1 << 40, 1);

fn open(path: &Path) -> Plain {
    let options = PlainOptions { create: true, reserved_bytes: 1 << 30, ..PlainOptions::default() };
    Plain::open(path, &options).unwrap()
}

#[test]
fn two_that_have_it_open_see_what_is_stored_and_what_grows() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, [7; 100]).unwrap();
    let (one, other) = (open(&path), open(&path));
    assert_eq!((one.file_bytes().unwrap(), one.len()), (100, 100));
    assert_eq!(other.read::<u8>(Off::new(99)).unwrap(), 7);
    // What is after the end in its page is no part of the file: the file has to grow first.
    one.grow(104).unwrap();
    one.store(Off::new(96), 9);
    assert!(other.file_bytes().unwrap() >= 104);
    one.grow(100_000).unwrap();
    assert_eq!(one.read::<u64>(Off::new(96)).unwrap(), 9);
    one.store(Off::new(99_992), 5);
    assert!(other.read::<u64>(Off::new(99_992)).is_err(), "not mapped yet");
    other.see().unwrap();
    assert_eq!(other.read::<u64>(Off::new(99_992)).unwrap(), 5);
    one.cut(101).unwrap();
    assert_eq!(other.file_bytes().unwrap(), 101);
    drop((one, other));
    assert_eq!(std::fs::read(&path).unwrap().len(), 101);
}

#[test]
fn locks_are_seen_without_the_right_to_write() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let one = open(&path);
    let read_only = std::fs::Permissions::from_mode(0o400);
    std::fs::set_permissions(&path, read_only).unwrap();
    assert!(!is_locked(&path, Range::new(0, 1 << 62)).unwrap());
    assert!(one.lock(BYTE, Lock::Shared).unwrap());
    assert!(is_locked(&path, Range::new(0, 1 << 62)).unwrap());
    assert!(!is_locked(&path, Range::new(0, 1 << 30)).unwrap());
    drop(one);
    assert!(!is_locked(&path, Range::new(0, 1 << 62)).unwrap());
}

#[test]
fn released_bytes_stay() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let one = open(&directory.path().join("file"));
    one.grow(100_000).unwrap();
    one.copy(Off::new(0), &[7; 100_000]);
    one.release(Range::new(1, 99_999));
    one.release(Range::new(1 << 40, 9));
    let mut found = vec![0; 100_000];
    one.read_into(Off::new(0), &mut found).unwrap();
    assert!(found.iter().all(|byte| *byte == 7));
}

#[test]
fn written_bytes_are_the_end_and_are_mapped() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let (one, other) = (open(&path), open(&path));
    for number in 0..1_000_u64 {
        one.write_at(number * 4_120, &[number as u8; 4_120]).unwrap();
        assert_eq!((one.len(), one.file_bytes().unwrap()), ((number + 1) * 4_120, one.len()));
    }
    one.write_at(100, &[9; 10]).unwrap();
    assert_eq!(one.len(), 4_120_000);
    one.copy(Off::new(4_119_999), &[8]);
    other.see().unwrap();
    assert_eq!(other.len(), 4_120_000);
    assert_eq!(other.read::<u8>(Off::new(105)).unwrap(), 9);
    assert_eq!(other.read::<u8>(Off::new(4_119_999)).unwrap(), 8);
    assert_eq!((one.exchange(Off::new(800), 5), other.exchange(Off::new(800), 6)), (0, 5));
    assert_eq!(one.exchange_if(Off::new(800), 5, 7), Err(6));
    assert_eq!(
        (one.exchange_if(Off::new(800), 6, 7), other.exchange(Off::new(800), 0)),
        (Ok(6), 7)
    );
    // What is mapped ahead is used when the file is that long.
    other.write_at(4_120_000, &[7; 4_096]).unwrap();
    one.see().unwrap();
    assert_eq!(one.read::<u8>(Off::new(4_124_095)).unwrap(), 7);
    one.cut(5).unwrap();
    assert_eq!((one.len(), std::fs::read(&path).unwrap().len()), (5, 5));
    assert_eq!(one.number(), other.number());
}

#[test]
fn bytes_written_past_the_end_leave_no_hole() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let one = open(&path);
    let space = || std::fs::metadata(&path).unwrap().blocks() * 512;
    one.write_at(0, &[1; 100]).unwrap();
    one.write_at(300_000, &[2; 100]).unwrap();
    assert_eq!(one.len(), 300_100);
    assert!(space() >= 300_100, "{}", space());
    one.copy(Off::new(150_000), &[3; 100]);
    let found = std::fs::read(&path).unwrap();
    assert_eq!((found[99], found[100], found[150_000], found[300_000]), (1, 0, 3, 2));
    // Bytes that another one has written stay.
    let other = open(&path);
    one.write_at(300_100, &[4; 100_000]).unwrap();
    other.write_at(500_000, &[5]).unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[300_100..400_100], [4; 100_000]);
    assert!(space() >= 500_001, "{}", space());
}

#[test]
fn mode_is_set_only_where_it_differs() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let open = |mode| {
        let options = PlainOptions { create: true, mode: Some(mode), ..PlainOptions::default() };
        drop(Plain::open(&path, &options).unwrap());
        let found = std::fs::metadata(&path).unwrap();
        (found.mode() & 0o7777, (found.ctime(), found.ctime_nsec()))
    };
    let (mode, changed) = open(0o640);
    assert_eq!(mode, 0o640);
    // A later change would have another time.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(open(0o640), (0o640, changed));
    assert_eq!(open(0o600).0, 0o600);
}

/// Only a file's owner may change its mode, and others can use it all the same.
#[test]
fn empty_file_of_another_user_is_opened() {
    let _alone = crate::forks::alone();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, []).unwrap();
    for (path, mode) in [(directory.path(), 0o755), (path.as_path(), 0o666)] {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let options = PlainOptions { mode: Some(0o640), ..PlainOptions::default() };
    // SAFETY: the child becomes another user's, opens a file, and ends at once.
    unsafe {
        if libc::geteuid() != 0 {
            println!("left out: only root becomes another user");
            return;
        }
        let child = libc::fork();
        if child == 0 {
            let opened = libc::setresuid(12_345, 12_345, 12_345) == 0
                && Plain::open(&path, &options).is_ok();
            libc::_exit(i32::from(!opened));
        }
        let mut status = 0;
        assert_eq!((libc::waitpid(child, &raw mut status, 0), status), (child, 0));
    }
}

#[test]
fn locks_keep_out_other_openings_of_the_same_process() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let (one, other) = (open(&path), open(&path));
    assert!(one.lock(BYTE, Lock::Shared).unwrap() && other.lock(BYTE, Lock::Shared).unwrap());
    assert!(!one.lock(BYTE, Lock::Exclusive).unwrap());
    assert!(one.is_locked_by_others(BYTE).unwrap());
    // Closing a third descriptor takes nothing away.
    drop(open(&path));
    assert!(one.is_locked_by_others(BYTE).unwrap());
    drop(other);
    assert!(one.lock(BYTE, Lock::Exclusive).unwrap());
    let third = open(&path);
    assert!(!third.lock(BYTE, Lock::Shared).unwrap());
    one.unlock(BYTE).unwrap();
    assert!(third.lock(BYTE, Lock::Shared).unwrap());
}

fn with_foreign_locks() -> PlainOptions {
    PlainOptions {
        create: true,
        reserved_bytes: 1 << 30,
        foreign_locks: Some(BYTE),
        ..PlainOptions::default()
    }
}

/// Asks for a lock of the process on the byte, or gives it up; returns whether no lock was in the way.
fn process_lock(file: &File, kind: libc::c_int) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: a plain struct, filled in, and an open descriptor.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        (lock.l_type, lock.l_start, lock.l_len) = (kind as i16, BYTE.start as i64, 1);
        libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) == 0
    }
}

/// Does something while a forked child lives that has all the files that are open now.
fn during_a_forked_child<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the child only waits, until it is killed.
    let child = unsafe {
        match libc::fork() {
            0 => loop {
                libc::pause();
            },
            child => child,
        }
    };
    assert!(child > 0, "no child");
    let result = work();
    let mut status = 0;
    // SAFETY: the child is ours, and has not been waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
    }
    result
}

#[test]
fn closing_during_a_childs_life_leaves_no_lock() {
    let _alone = crate::forks::alone();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let (plain, watching) = (Plain::open(&path, &with_foreign_locks()).unwrap(), open(&path));
    assert!(plain.lock(BYTE, Lock::Shared).unwrap());
    let is_locked = during_a_forked_child(|| {
        drop(plain);
        watching.is_locked_by_others(BYTE).unwrap()
    });
    assert!(!is_locked);
}

/// A killed process leaves no lock to a child that it has forked.
#[test]
fn child_of_a_killed_process_keeps_no_lock() {
    let _alone = crate::forks::alone();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let other = Range::new(BYTE.start + 1, 1);
    let (watching, mut ready, mut lives) = (open(&path), [0; 2], [0; 2]);
    // SAFETY: places for two descriptors each. The process forks a child of its own and is killed. That child ends when
    // the test closes its end of a pipe.
    unsafe {
        assert_eq!(libc::pipe(ready.as_mut_ptr()), 0);
        assert_eq!(libc::pipe(lives.as_mut_ptr()), 0);
        let process = libc::fork();
        if process == 0 {
            libc::alarm(60);
            let (one, two) = (open(&path), Plain::open(&path, &with_foreign_locks()).unwrap());
            // A mapping counts as a copy, too.
            one.grow(4096).unwrap();
            two.see().unwrap();
            let locked = one.lock(BYTE, Lock::Exclusive).is_ok_and(|locked| locked)
                && two.lock(other, Lock::Exclusive).is_ok_and(|locked| locked);
            if libc::fork() == 0 {
                libc::close(lives[1]);
                libc::read(lives[0], [0_u8; 1].as_mut_ptr().cast(), 1);
                libc::_exit(0);
            }
            libc::write(ready[1], [u8::from(locked)].as_ptr().cast(), 1);
            libc::pause();
            libc::_exit(0);
        }
        assert!(process > 0, "no process");
        let mut locked = [0_u8; 1];
        assert_eq!(libc::read(ready[0], locked.as_mut_ptr().cast(), 1), 1);
        assert_eq!(locked, [1]);
        libc::kill(process, libc::SIGKILL);
        let mut status = 0;
        assert_eq!(libc::waitpid(process, &raw mut status, 0), process);
    }
    // The child may just be about to give them up.
    let started = std::time::Instant::now();
    let is_locked = || [BYTE, other].iter().any(|one| watching.is_locked_by_others(*one).unwrap());
    while is_locked() && started.elapsed().as_secs() < 10 {}
    let keeps = is_locked();
    // SAFETY: our own descriptors.
    ready.into_iter().chain(lives).for_each(|end| unsafe {
        libc::close(end);
    });
    assert!(!keeps, "the child keeps a lock");
}

/// Locks of the process that are taken while others are closing the file are never lost, and no child that is forked
/// meanwhile keeps a lock, or waits for ever for what its parent was doing.
#[test]
fn closing_with_locks_and_forks_loses_and_leaves_none() {
    const FORKS: u32 = 100;
    let _alone = crate::forks::alone();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let (options, watching) = (with_foreign_locks(), open(&path));
    let theirs = File::options().read(true).write(true).open(&path).unwrap();
    let (stops, mut taken) = (std::sync::atomic::AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| {
            while !stops.load(Ordering::Relaxed) {
                drop(Plain::open(&path, &options).unwrap());
            }
        });
        while taken < 2000 && !closing.is_finished() {
            if process_lock(&theirs, libc::F_RDLCK) {
                assert!(watching.is_locked_by_others(BYTE).unwrap(), "lost after {taken}");
                assert!(process_lock(&theirs, libc::F_UNLCK));
                taken += 1;
            }
        }
        let ends: Vec<_> = (0..FORKS)
            .map(|_| {
                // SAFETY: the child opens and closes a file, and ends; if it waits for ever, the alarm ends it.
                unsafe {
                    let child = libc::fork();
                    if child == 0 {
                        libc::alarm(30);
                        drop(Plain::open(&path, &options));
                        libc::_exit(0);
                    }
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                    status
                }
            })
            .take_while(|status| *status == 0)
            .collect();
        // With the thread between two steps of a close, perhaps.
        let leaves_none = || {
            during_a_forked_child(|| {
                let started = std::time::Instant::now();
                while watching.is_locked_by_others(BYTE).unwrap() {
                    if started.elapsed().as_secs() > 10 {
                        return false;
                    }
                }
                true
            })
        };
        let leaves_none = (0..FORKS).all(|_| leaves_none());
        stops.store(true, Ordering::Relaxed);
        closing.join().unwrap();
        assert_eq!(ends.len(), FORKS as usize, "a child waits for ever");
        assert!(leaves_none, "a child keeps a lock");
    });
    assert_eq!(taken, 2000);
    assert!(!watching.is_locked_by_others(BYTE).unwrap());
}

#[test]
fn closing_takes_no_lock_of_the_process_away() {
    let _alone = crate::forks::alone();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let options = with_foreign_locks();
    let (plain, watching) = (Plain::open(&path, &options).unwrap(), open(&path));
    let theirs = File::options().read(true).write(true).open(&path).unwrap();
    assert!(process_lock(&theirs, libc::F_RDLCK));
    drop(plain);
    assert!(watching.is_locked_by_others(BYTE).unwrap());
    assert!(process_lock(&theirs, libc::F_UNLCK));
    assert!(!watching.is_locked_by_others(BYTE).unwrap());
    // What is kept open until then is shared with a child.
    // SAFETY: the child opens and closes a file, and ends at once; nothing of the parent's is dropped in it.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let closed = std::panic::catch_unwind(|| drop(Plain::open(&path, &options).unwrap()));
            libc::_exit(i32::from(closed.is_err()));
        }
        let mut status = 0;
        assert_eq!((libc::waitpid(child, &raw mut status, 0), status), (child, 0));
    }
    assert!(!watching.is_locked_by_others(BYTE).unwrap(), "a child leaves no lock");
}

/// Returns how many descriptors of this process lead to a file.
fn descriptors(path: &Path) -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    all.filter(|one| std::fs::read_link(one.path()).is_ok_and(|to| to == path)).count()
}

/// A file that may not be closed yet serves the next opening, unless a child was forked with it.
#[test]
fn openings_with_a_lock_held_do_not_use_up_descriptors() {
    let _alone = crate::forks::alone();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let options = with_foreign_locks();
    drop(Plain::open(&path, &options).unwrap());
    assert_eq!(descriptors(&path), 0);
    let theirs = File::options().read(true).write(true).open(&path).unwrap();
    assert!(process_lock(&theirs, libc::F_RDLCK));
    let open = || Plain::open(&path, &options);
    for _ in 0..2000 {
        let (one, other) = (open().unwrap(), open().unwrap());
        assert!(one.file_bytes().is_ok() && other.file_bytes().is_ok());
    }
    // Theirs, and two at a time.
    assert_eq!(descriptors(&path), 3);
    // One that is removed and made anew is another file.
    std::fs::rename(&path, directory.path().join("old")).unwrap();
    let anew = Plain::open(&path, &options).unwrap();
    anew.grow(100).unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() >= 100);
    assert_eq!(theirs.metadata().unwrap().len(), 0);
    assert!(process_lock(&theirs, libc::F_UNLCK));
    drop(anew);
    drop(Plain::open(&path, &options).unwrap());
    assert_eq!(descriptors(&path), 0);
    assert_eq!(descriptors(&directory.path().join("old")), 1);
}

/// Where there is no `/proc`, files are closed all the same, but for those that a child may have.
#[test]
fn a_file_not_openable_afresh_is_closed_unless_forked() {
    let _alone = crate::forks::alone();
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let (options, watching) = (with_foreign_locks(), open(&path));
    locks::REFUSES.set(true);
    for _ in 0..100 {
        drop(Plain::open(&path, &options).unwrap());
        assert!(!watching.is_locked_by_others(BYTE).unwrap());
        assert_eq!(descriptors(&path), 1);
    }
    let shared = Plain::open(&path, &options).unwrap();
    during_a_forked_child(|| {
        drop(shared);
        assert!(!watching.is_locked_by_others(BYTE).unwrap(), "it would stay with the child");
    });
    locks::REFUSES.set(false);
    drop(Plain::open(&path, &options).unwrap());
    assert_eq!(descriptors(&path), 1);
}

#[test]
fn only_what_the_medium_gives_is_promised() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    for domain in Domain::ALL {
        let options =
            PlainOptions { create: true, domain: Some(domain), ..PlainOptions::default() };
        assert_eq!(Plain::open(&path, &options).unwrap().domain(), domain);
    }
    assert!(Plain::open(directory.path(), &PlainOptions::default()).is_err());
}

#[test]
fn a_line_is_stored_whole_where_processor_and_domain_let_it() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    for domain in Domain::ALL {
        let options = PlainOptions {
            create: true,
            domain: Some(domain),
            reserved_bytes: 1 << 20,
            ..PlainOptions::default()
        };
        let file = Plain::open(&path, &options).unwrap();
        let has = domain != Domain::Disk && LineStore::detect().is_some();
        assert_eq!(file.has_store_line(), has, "{domain}");
        if has {
            file.grow(4096).unwrap();
            file.store_line(Line::of(128), &[domain.name().len() as u8; 64]);
            file.fence();
            let mut found = [0; 66];
            file.read_into(Off::new(127), &mut found).unwrap();
            assert_eq!(found[1..65], [domain.name().len() as u8; 64]);
            assert_eq!((found[0], found[65]), (0, 0));
        }
    }
}

/// A look at a file that grows maps addresses ahead, and they are used when the file is that long.
#[test]
fn file_that_another_one_makes_longer_is_mapped_ahead() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("file");
    let (writer, reader) = (open(&path), open(&path));
    let mut mapped = Vec::new();
    for number in 0..1_000_u64 {
        writer.write_at(number * 4_096, &[number as u8; 4_096]).unwrap();
        reader.see_growing().unwrap();
        assert_eq!(reader.len(), (number + 1) * 4_096);
        assert_eq!(reader.read::<u8>(Off::new(number * 4_096 + 4_095)).unwrap(), number as u8);
        mapped.push(reader.0.mapping.len());
    }
    mapped.dedup();
    assert!(mapped.len() < 8, "{mapped:?}");
    writer.cut(10_000).unwrap();
    reader.see_growing().unwrap();
    assert_eq!(reader.len(), 10_000);
    writer.write_at(10_000, &[3; 90_000]).unwrap();
    reader.see_growing().unwrap();
    assert_eq!(reader.read::<u8>(Off::new(99_999)).unwrap(), 3);
    // Not past the reserved addresses, and up to their end.
    let options = PlainOptions { reserved_bytes: 1 << 20, ..PlainOptions::default() };
    let small = Plain::open(&path, &options).unwrap();
    let reserved = small.0.mapping.reserved();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(reserved - 5).unwrap();
    small.see_growing().unwrap();
    assert_eq!(small.read::<u8>(Off::new(reserved - 6)).unwrap(), 0);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(reserved + 5).unwrap();
    assert!(small.see_growing().is_err());
}
