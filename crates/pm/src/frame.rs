//! The memory of the pages of a buffer pool, which other threads look at while their owners change
//! them.
//!
//! It is words that are loaded and stored one at a time, so that no such look is a data race:
//!
//! - [`FrameBytes`] is the owner's handle of one page, of which there is one. Through it the page is
//!   bytes. It alone stores.
//! - [`FrameArena`] has the memory of many. Any thread has a look at a page there ([`Peek`]): it
//!   loads words, and finds out afterwards whether all of them were of one moment.
//!
//! The version stands in the word before the page, and both begin in the same line. It is odd while
//! the page is not whole: from [`FrameBytes::open`] to [`FrameBytes::close`], and before the first
//! of these. A look whose words were loaded while the version was one even number has what the page
//! had at a moment in between.
//!
//! All accesses are of whole words: no processor and no tool has to order accesses of different
//! sizes.

use std::cmp::Ordering as Order;
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::bulk;
use crate::mapping::{HUGE_PAGE_BYTES, Mapping};
use crate::offset::LINE_BYTES;

const WORD: usize = size_of::<u64>();
/// A processor that fetches a line fetches the other one of its pair.
const PAIR_BYTES: usize = 128;
/// The version of a page of an arena that was not claimed.
const UNCLAIMED: u64 = 0;
/// The version of a page that was never whole.
const NEW: u64 = 1;

/// The owner of words, which keeps them as long as there is a handle.
#[derive(Clone)]
enum Keep {
    Own { _words: Arc<[AtomicU64]> },
    Arena { _memory: Arc<Mapping> },
}

/// The words of a page, and before them its version, at which a pair of lines begins.
struct Words {
    /// The first word of the page.
    first: NonNull<AtomicU64>,
    /// Bytes of the page.
    len: usize,
    _keep: Keep,
}

// SAFETY: it is a shared reference to atomics, which it keeps alive.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    fn zeros(len: usize) -> Self {
        let words = PAIR_BYTES / WORD + len.div_ceil(WORD);
        let all: Arc<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let within = all.as_ptr().addr() % PAIR_BYTES / WORD;
        let before = (PAIR_BYTES / WORD - within) % (PAIR_BYTES / WORD);
        // SAFETY: a pair's worth of words comes in addition to the page's, and at most one less is
        // before the version. So the place after that is one of `all`, and so are the page's.
        let first = unsafe { NonNull::from(&*all).cast::<AtomicU64>().add(before + 1) };
        let words = Self { first, len, _keep: Keep::Own { _words: all } };
        words.version().store(NEW, Ordering::Relaxed);
        words
    }

    #[inline]
    fn version(&self) -> &AtomicU64 {
        // SAFETY: there is a word before the first one of the page, and the words stay as long as
        // this does.
        unsafe { self.first.sub(1).as_ref() }
    }

    #[inline]
    fn page(&self) -> &[AtomicU64] {
        // SAFETY: so many words come from the first one on, and they stay as long as this does.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len.div_ceil(WORD)) }
    }
}

/// Bytes of addresses that are reserved at a time, at least one page's.
const SEGMENT_BYTES: usize = 16 << 20;

/// The memory of a number of pages of the same size. Addresses and memory are taken from the kernel
/// when pages are claimed, in huge pages where there are many.
#[derive(Debug)]
pub struct FrameArena {
    segments: Box<[OnceLock<Arc<Mapping>>]>,
    /// Held while more memory is made usable.
    growing: Mutex<()>,
    count: usize,
    /// Bytes of a page, and of what it takes.
    len: usize,
    stride: usize,
    /// The number of pages of a segment is that power of two.
    bits: u32,
}

impl FrameArena {
    /// Memory for so many pages of so many bytes, of which none is claimed.
    ///
    /// # Errors
    /// There is no memory for the list of its parts.
    pub fn new(count: usize, len: usize) -> io::Result<Self> {
        let stride = (WORD + len).next_multiple_of(PAIR_BYTES);
        let bits = (SEGMENT_BYTES / stride).max(1).ilog2();
        let mut segments = Vec::new();
        let many = count.div_ceil(1 << bits);
        segments.try_reserve_exact(many).map_err(|_| io::ErrorKind::OutOfMemory)?;
        segments.resize_with(many, OnceLock::new);
        let (segments, growing) = (segments.into_boxed_slice(), Mutex::default());
        Ok(Self { segments, growing, count, len, stride, bits })
    }

    /// The place of a page in its segment.
    #[inline]
    fn within(&self, number: usize) -> usize {
        (number & ((1 << self.bits) - 1)) * self.stride
    }

    /// The version and the words of a page, if its memory is usable.
    #[inline]
    fn at(&self, number: usize) -> Option<(&AtomicU64, &[AtomicU64])> {
        let memory = self.segments.get(number >> self.bits)?.get()?;
        let at = self.within(number);
        if number >= self.count || (at + self.stride) as u64 > memory.len() {
            return None;
        }
        let version = memory.base().wrapping_add(at).cast::<AtomicU64>();
        let words = self.len.div_ceil(WORD);
        // SAFETY: the place and the words after it are within the usable part of the mapping, which
        // stays as long as this does, at a multiple of 128, and zero or stored to as atomics.
        Some(unsafe { (&*version, std::slice::from_raw_parts(version.add(1), words)) })
    }

    /// The handle of a page, which is all zero and not whole. There is one for each.
    ///
    /// # Errors
    /// The kernel has no memory for it.
    ///
    /// # Panics
    /// If it was claimed before, or there is no such page.
    pub fn claim(&self, number: usize) -> io::Result<FrameBytes> {
        assert!(number < self.count, "one of the pages");
        let at = self.within(number);
        let memory = {
            let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
            let memory = self.segment(number >> self.bits)?;
            let (end, most) = ((at + self.stride) as u64, memory.reserved());
            if end > memory.len() {
                memory.extend(end.next_multiple_of(HUGE_PAGE_BYTES).min(most))?;
            }
            memory
        };
        let (version, _) = self.at(number).expect("it is usable");
        let claimed = version.compare_exchange(UNCLAIMED, NEW, Ordering::AcqRel, Ordering::Acquire);
        assert!(claimed.is_ok(), "a page is claimed once");
        let place = memory.base().wrapping_add(at + WORD);
        let first = NonNull::new(place.cast()).expect("mapped");
        let keep = Keep::Arena { _memory: Arc::clone(memory) };
        Ok(FrameBytes { words: Words { first, len: self.len, _keep: keep } })
    }

    /// A segment, whose addresses are reserved if they were not.
    fn segment(&self, number: usize) -> io::Result<&Arc<Mapping>> {
        let segment = &self.segments[number];
        if segment.get().is_none() {
            let pages = (self.count - (number << self.bits)).min(1 << self.bits);
            let memory = Mapping::reserve((pages * self.stride) as u64)?;
            // A pool of which little is used does not wait until the kernel has cleared a huge page.
            memory.prefer_huge_pages(if number == 0 { HUGE_PAGE_BYTES } else { 0 });
            let _ = segment.set(Arc::new(memory));
        }
        Ok(segment.get().expect("it was set"))
    }

    /// Begins a look at a page; `None` while it is not whole.
    #[inline]
    pub fn peek(&self, number: usize) -> Option<Peek<'_>> {
        let (version, page) = self.at(number)?;
        let seen = version.load(Ordering::Acquire);
        (seen & 1 == 0 && seen != UNCLAIMED).then_some(Peek { page, version, seen })
    }
}

/// The memory of a page, as its owner has it; see the module's comment.
pub struct FrameBytes {
    words: Words,
}

impl fmt::Debug for FrameBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameBytes").field("len", &self.words.len).finish_non_exhaustive()
    }
}

impl FrameBytes {
    /// A page of so many bytes, all zero, that is not whole.
    pub fn zeros(len: usize) -> Self {
        Self { words: Words::zeros(len) }
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let Words { first, len, .. } = self.words;
        // SAFETY: the words are initialised, lie in sequence, and have `len` bytes at least. Only
        // methods that take this handle by `&mut` store to them, so nothing is stored for as long
        // as the slice lives: this handle is the only one of its kind, and a `Peek` only loads.
        unsafe { std::slice::from_raw_parts(first.cast().as_ptr(), len) }
    }

    /// Says that the page is not whole from now on. It may have been so before.
    #[inline]
    pub fn open(&mut self) {
        let version = self.words.version();
        version.store(version.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
        // A look that loads what is stored from now on finds another version afterwards.
        fence(Ordering::Release);
    }

    /// Says that the page is whole again.
    #[inline]
    pub fn close(&mut self) {
        let version = self.words.version();
        let odd = version.load(Ordering::Relaxed);
        debug_assert!(odd & 1 == 1, "a page is opened before it is closed");
        version.store(odd + 1, Ordering::Release);
    }

    /// The words to store to: the page is not whole.
    #[inline]
    fn opened(&mut self) -> &[AtomicU64] {
        debug_assert!(
            self.words.version().load(Ordering::Relaxed) & 1 == 1,
            "a page is changed while it is open"
        );
        self.words.page()
    }

    /// Stores bytes from a place on.
    ///
    /// # Panics
    /// If they go beyond the page's end.
    #[inline]
    pub fn set(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.words.len, "within the page");
        let words = &self.opened()[at / WORD..];
        let within = at % WORD;
        let (first, rest) = match within {
            0 => (&[][..], bytes),
            _ => bytes.split_at(bytes.len().min(WORD - within)),
        };
        if !first.is_empty() {
            merge(&words[0], within, first);
        }
        let words = &words[usize::from(within > 0)..];
        let (whole, last) = rest.as_chunks::<WORD>();
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !last.is_empty() {
            merge(&words[whole.len()], 0, last);
        }
    }

    /// Stores zeros from one place to another.
    ///
    /// # Panics
    /// If they go beyond the page's end.
    pub fn clear(&mut self, from: usize, to: usize) {
        const ZEROS: [u8; 256] = [0; 256];
        let mut at = from;
        while at < to {
            let bytes = (to - at).min(ZEROS.len());
            self.set(at, &ZEROS[..bytes]);
            at += bytes;
        }
    }

    /// Copies `count` words of the page to another place in it; both places begin at a word, and may
    /// overlap.
    ///
    /// # Panics
    /// If they do not, or go beyond the page's end.
    pub fn move_words(&mut self, from: usize, to: usize, count: usize) {
        assert!(from.is_multiple_of(WORD) && to.is_multiple_of(WORD), "places of words");
        let words = self.opened();
        let (from, to) = (&words[from / WORD..][..count], &words[to / WORD..][..count]);
        let copy = |(from, to): (&AtomicU64, &AtomicU64)| {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        if from.as_ptr() < to.as_ptr() {
            from.iter().zip(to).rev().for_each(copy);
        } else {
            from.iter().zip(to).for_each(copy);
        }
    }

    /// Fills the page by `read`, which gets its address and its length and returns how many bytes
    /// it has stored; zeros follow.
    ///
    /// # Safety
    /// `read` stores within the page, and the kernel does so, not the program.
    ///
    /// # Errors
    /// The error of `read`.
    pub(crate) unsafe fn read_with(
        &mut self,
        read: impl FnOnce(*mut u8, usize) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let len = self.words.len;
        // Memory of atomics may be stored to through a shared reference.
        let at = self.opened().as_ptr().cast::<u8>().cast_mut();
        let done = read(at, len)?;
        self.clear(done, len);
        Ok(done)
    }
}

impl Clone for FrameBytes {
    /// A copy, which is not whole.
    fn clone(&self) -> Self {
        let mut copy = Self::zeros(self.words.len);
        copy.set(0, self.bytes());
        copy
    }
}

impl PartialEq for FrameBytes {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for FrameBytes {}

/// Stores some bytes of a word.
#[inline]
fn merge(word: &AtomicU64, at: usize, bytes: &[u8]) {
    let mut all = word.load(Ordering::Relaxed).to_ne_bytes();
    for (to, from) in all[at..].iter_mut().zip(bytes) {
        *to = *from;
    }
    word.store(u64::from_ne_bytes(all), Ordering::Relaxed);
}

/// A look at a page. What it returns may be of several moments, and is to be used for nothing but
/// further loads until [`Self::holds`] has said that it is of one. There are zeros beyond the
/// page's end.
#[derive(Clone, Copy)]
pub struct Peek<'a> {
    page: &'a [AtomicU64],
    version: &'a AtomicU64,
    seen: u64,
}

impl fmt::Debug for Peek<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peek").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Peek<'_> {
    /// Returns whether all that was loaded so far was in the page at one moment.
    #[inline]
    #[must_use]
    pub fn holds(&self) -> bool {
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == self.seen
    }

    /// A word of the page as its bytes lie there, in little-endian order.
    #[inline]
    fn word(&self, word: usize) -> u64 {
        self.page.get(word).map_or(0, |word| u64::from_le(word.load(Ordering::Relaxed)))
    }

    /// Eight bytes from a place on, as a little-endian number.
    #[inline]
    #[must_use]
    pub fn u64_at(&self, at: usize) -> u64 {
        let (word, bits) = (at / WORD, at % WORD * 8);
        match bits {
            0 => self.word(word),
            _ => self.word(word) >> bits | self.word(word + 1) << (u64::BITS as usize - bits),
        }
    }

    /// Two bytes from a place on, as a little-endian number.
    #[inline]
    #[must_use]
    pub fn u16_at(&self, at: usize) -> u16 {
        if at % WORD == WORD - 1 {
            return self.u64_at(at) as u16;
        }
        (self.word(at / WORD) >> (at % WORD * 8)) as u16
    }

    /// Compares bytes of the page with others, as slices are.
    #[inline]
    #[must_use]
    pub fn compare(&self, at: usize, len: usize, other: &[u8]) -> Order {
        let (whole, rest) = other[..len.min(other.len())].as_chunks::<WORD>();
        for (place, bytes) in (at..).step_by(WORD).zip(whole) {
            let own = self.u64_at(place).swap_bytes();
            let order = own.cmp(&u64::from_be_bytes(*bytes));
            if order.is_ne() {
                return order;
            }
        }
        let own = self.u64_at(at + whole.len() * WORD).to_le_bytes();
        own[..rest.len()].cmp(rest).then(len.cmp(&other.len()))
    }

    /// Copies bytes of the page to the end of `out`.
    #[inline]
    pub fn copy_to(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        let count = len.div_ceil(WORD);
        let words = self.page.get(at / WORD..).unwrap_or_default();
        let words = &words[..words.len().min(count + 1)];
        // All lines come at the same time.
        for word in words.iter().step_by(LINE_BYTES as usize / WORD) {
            bulk::prefetch(word.as_ptr().cast_const().cast());
        }
        out.reserve(count.checked_mul(WORD).expect("the length of something in a page"));
        let before = out.len();
        let room = out.spare_capacity_mut().as_mut_ptr().cast::<[u8; WORD]>();
        // SAFETY: there is room for so many words.
        let put = |word: usize, bytes: u64| unsafe { room.add(word).write(bytes.to_le_bytes()) };
        let mut copied = 0;
        let bits = at % WORD * 8;
        if let (Some((first, rest)), 1..) = (words.split_first(), bits) {
            // Each word is loaded once.
            let load = |word: &AtomicU64| u64::from_le(word.load(Ordering::Relaxed));
            let mut low = load(first);
            for next in rest {
                let high = load(next);
                put(copied, low >> bits | high << (u64::BITS as usize - bits));
                (low, copied) = (high, copied + 1);
            }
        }
        for word in copied..count {
            put(word, self.u64_at(at + word * WORD));
        }
        // SAFETY: there was room for `len` bytes, and all have been written.
        unsafe { out.set_len(before + len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 200;

    /// An arena, and one of its pages.
    fn arena(len: usize) -> (FrameArena, FrameBytes) {
        let arena = FrameArena::new(3, len).expect("addresses");
        let frame = arena.claim(1).expect("memory");
        (arena, frame)
    }

    fn numbered() -> FrameBytes {
        number(FrameBytes::zeros(BYTES))
    }

    fn number(mut frame: FrameBytes) -> FrameBytes {
        let bytes: Vec<u8> = (0..BYTES as u8).collect();
        frame.set(0, &bytes);
        frame
    }

    #[test]
    fn bytes_are_stored_at_any_place() {
        const MOST: usize = if cfg!(miri) { 12 } else { 40 };
        for at in 0..MOST {
            for len in 0..MOST {
                let (mut frame, mut wanted) = (numbered(), numbered().bytes().to_vec());
                let bytes: Vec<u8> = (0..len).map(|byte| 200 + byte as u8).collect();
                frame.set(at, &bytes);
                wanted[at..at + len].copy_from_slice(&bytes);
                assert_eq!(frame.bytes(), wanted, "{len} at {at}");
                frame.clear(at, at + len);
                wanted[at..at + len].fill(0);
                assert_eq!(frame.bytes(), wanted, "{len} at {at}");
            }
        }
    }

    #[test]
    fn a_page_begins_after_its_version() {
        for _ in 0..20 {
            let frame = FrameBytes::zeros(8192);
            assert_eq!(frame.bytes().as_ptr().addr() % 128, 8);
            assert_eq!(frame.bytes(), [0; 8192]);
        }
    }

    #[test]
    #[should_panic(expected = "a page is claimed once")]
    fn there_is_one_handle_of_a_page() {
        let (arena, _frame) = arena(BYTES);
        let _ = arena.claim(1);
    }

    #[test]
    fn pages_of_an_arena_are_apart() {
        const COUNT: usize = if cfg!(miri) { 5 } else { 5000 };
        let arena = FrameArena::new(COUNT, 8192).expect("addresses");
        let mut frames: Vec<_> =
            (0..COUNT).rev().map(|at| (at, arena.claim(at).unwrap())).collect();
        for (at, frame) in &mut frames {
            assert_eq!(frame.bytes(), [0; 8192]);
            frame.set(0, &[*at as u8; 8192]);
            frame.close();
        }
        for (at, frame) in &frames {
            assert_eq!(frame.bytes(), [*at as u8; 8192]);
            assert_eq!(
                arena.peek(*at).expect("whole").u64_at(8184),
                u64::from_le_bytes([*at as u8; 8])
            );
        }
        // Only what is claimed takes addresses and memory.
        let many = if cfg!(miri) { 1 << 12 } else { 1 << 30 };
        let far = FrameArena::new(many, 8192).expect("a list");
        let last = far.claim(many - 1).expect("memory for one page");
        assert_eq!((last.bytes(), far.peek(0).is_none()), (&[0; 8192][..], true));
        assert!(cfg!(miri) || FrameArena::new(usize::MAX / 2, 8192).is_err());
    }

    #[test]
    fn words_move_to_places_that_overlap() {
        for (from, to) in [(8, 16), (16, 8), (8, 8), (0, 64)] {
            let (mut frame, mut wanted) = (numbered(), numbered().bytes().to_vec());
            frame.move_words(from, to, 5);
            wanted.copy_within(from..from + 40, to);
            assert_eq!(frame.bytes(), wanted, "{from} to {to}");
        }
    }

    #[test]
    #[should_panic(expected = "within the page")]
    fn nothing_is_stored_beyond_the_end() {
        numbered().set(BYTES - 1, &[1, 2]);
    }

    #[test]
    fn a_look_sees_what_the_bytes_are() {
        let (arena, frame) = arena(BYTES);
        let mut frame = number(frame);
        frame.close();
        let (bytes, peek) = (frame.bytes(), arena.peek(1).expect("whole"));
        for at in 0..BYTES + 20 {
            let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
            let eight: [u8; 8] = std::array::from_fn(|place| byte(at + place));
            assert_eq!(peek.u64_at(at), u64::from_le_bytes(eight), "{at}");
            assert_eq!(peek.u16_at(at), u16::from_le_bytes([eight[0], eight[1]]), "{at}");
        }
        for (at, len) in [(0, 0), (3, 1), (5, 8), (7, 9), (16, 64), (101, 99)] {
            let mut out = vec![7];
            peek.copy_to(at, len, &mut out);
            assert_eq!((out[0], &out[1..]), (7, &bytes[at..at + len]), "{len} at {at}");
            let own = &bytes[at..at + len];
            let mut others = vec![own.to_vec(), [own, &[0]].concat(), Vec::new()];
            for place in 0..len {
                for byte in [own[place].wrapping_add(1), own[place].wrapping_sub(1)] {
                    let mut other = own.to_vec();
                    other[place] = byte;
                    others.push(other.clone());
                    other.truncate(place + 1);
                    others.push(other);
                }
                others.push(own[..place].to_vec());
            }
            for other in others {
                assert_eq!(peek.compare(at, len, &other), own.cmp(&other[..]), "{own:?} {other:?}");
            }
        }
        assert!(peek.holds());
    }

    #[test]
    fn a_look_notices_a_change() {
        let (arena, mut frame) = arena(BYTES);
        assert!(arena.peek(1).is_none(), "it was never whole");
        frame.close();
        let peek = arena.peek(1).expect("whole");
        frame.open();
        assert!(!peek.holds() && arena.peek(1).is_none());
        frame.set(3, &[1]);
        frame.close();
        assert!(!peek.holds());
        assert!(arena.peek(1).expect("whole").holds());
        frame.open();
        frame.open();
        frame.close();
        assert!(arena.peek(1).is_some());
        assert!([0, 2, 3, usize::MAX >> 20].iter().all(|other| arena.peek(*other).is_none()));
    }

    /// All words of a page are the same whenever it is whole.
    #[test]
    fn a_look_that_holds_is_of_one_moment() {
        const ROUNDS: u64 = if cfg!(miri) { 100 } else { 20_000 };
        let (arena, mut frame) = arena(64);
        frame.close();
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let (mut held, mut last) = (0, 0);
                while last < ROUNDS {
                    let Some(peek) = arena.peek(1) else { continue };
                    let words: Vec<u64> = (0..64).step_by(8).map(|at| peek.u64_at(at)).collect();
                    if peek.holds() {
                        assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
                        assert!(words[0] >= last, "a page does not go back");
                        (held, last) = (held + 1, words[0]);
                    }
                }
                held
            });
            for round in 1..=ROUNDS {
                frame.open();
                for at in (0..64).step_by(8) {
                    frame.set(at, &round.to_le_bytes());
                }
                frame.close();
            }
            assert!(looks.join().expect("no look is torn") > 0);
        });
    }
}
