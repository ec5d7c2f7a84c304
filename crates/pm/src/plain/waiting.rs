//! Waiting for another process to change a word of a [`Plain`], and the clock that processes share.

use std::thread;
use std::time::Duration;

use rustix::fs::Timespec;
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};

use super::Plain;
use crate::offset::Off;

impl Plain {
    /// Waits until another thread, of any process that has the file mapped, has called [`Self::wake`] for the word, or for
    /// so long. Does not wait if the low 32 bits of the word are not those of `seen`. May end early. Returns false if the
    /// time has passed.
    ///
    /// # Panics
    /// The word does not lie within the file, or is not aligned.
    pub fn wait_for(&self, at: Off<u64>, seen: u64, timeout: Duration) -> bool {
        let limit = Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // Not private: the word is found by its place in the file.
        let flags = futex::Flags::empty();
        match futex::wait(self.0.mapping.low_half(at), flags, seen as u32, Some(&limit)) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => true,
            Err(Errno::TIMEDOUT) => false,
            // The file may have been cut off under its mapping.
            Err(_) => {
                thread::sleep(timeout);
                false
            }
        }
    }

    /// Wakes one thread that waits for the word. The caller has changed it before.
    ///
    /// # Panics
    /// The word does not lie within the file, or is not aligned.
    pub fn wake(&self, at: Off<u64>) {
        // A word that cannot be waited for has no thread to wake.
        let _ = futex::wake(self.0.mapping.low_half(at), futex::Flags::empty(), 1);
    }
}

/// Microseconds of a clock that never goes back, the same in all processes of the machine.
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1_000
}

/// A moment of a coarse clock, which costs no system call. It changes every few milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tick(i64, i64);

impl Tick {
    /// The present one.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::MonotonicCoarse);
        Self(now.tv_sec, now.tv_nsec)
    }

    /// Waits until the clock shows another one.
    pub fn wait_for_next(self) {
        while Self::now() == self {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::Ordering;

    use crate::memory::Memory as _;
    use crate::plain::PlainOptions;

    use super::*;

    fn open(path: &Path) -> Plain {
        let options =
            PlainOptions { create: true, reserved_bytes: 1 << 30, ..PlainOptions::default() };
        Plain::open(path, &options).unwrap()
    }

    /// Two mappings of a file have different addresses, as in two processes.
    #[test]
    fn word_is_waited_for_by_its_place_in_the_file() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("file");
        let (one, other) = (open(&path), open(&path));
        one.grow(4096).unwrap();
        other.see().unwrap();
        let word = Off::new(64);
        let long = Duration::from_secs(3600);
        assert!(one.wait_for(word, 1, long), "another value is not waited for");
        assert!(!one.wait_for(word, 0, Duration::ZERO));
        // The upper half does not count.
        one.store(word, 7 << 32);
        assert!(!one.wait_for(word, 0, Duration::ZERO));
        let waits = thread::spawn(move || {
            while one.load(word, Ordering::Acquire).unwrap() == 7 << 32 {
                assert!(one.wait_for(word, 7 << 32, long), "woken");
            }
        });
        other.store(word, 1);
        // It may not wait yet, and then finds another value.
        other.wake(word);
        waits.join().unwrap();
    }

    #[test]
    fn ticks_pass() {
        let before = Tick::now();
        before.wait_for_next();
        assert_ne!(Tick::now(), before);
    }

    #[test]
    fn clock_goes_forward() {
        let before = monotonic_us();
        assert!(before > 0 && monotonic_us() >= before);
    }
}
