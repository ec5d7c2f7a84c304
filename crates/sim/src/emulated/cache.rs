//! A set-associative cache with exact least-recently-used replacement.
//!
//! Each set is a row of 32-bit entries in the order of use, the last used first: `line << 1 | dirty`.
//! A hit moves the entry to the front; a miss puts the line there and pushes the last entry out. The
//! set of a line is its number modulo the number of sets.
//!
//! The first entry is compared first: most accesses go to the line that its set has seen last.

/// An entry that holds no line.
const EMPTY: u32 = u32::MAX;
/// Lines are numbered below this: [`EMPTY`] is the entry of none.
pub(crate) const LINES: u32 = EMPTY >> 1;

/// The outcome of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touched {
    /// The line was in the cache.
    Hit,
    /// The line was fetched; nothing had to be written back for it.
    Missed,
    /// The line was fetched, and this modified line was written back for it.
    Replaced(u32),
}

/// A cache of 64-byte lines that are known by number.
#[derive(Clone, Debug)]
pub struct CacheModel {
    entries: Vec<u32>,
    ways: usize,
    sets: u32,
    /// Gives the remainder by `sets` without a division: `ceil(2^64 / sets)`.
    reciprocal: u64,
}

impl CacheModel {
    /// An empty cache of `bytes` bytes, rounded down to whole sets of `ways` lines.
    ///
    /// # Panics
    /// If that is no set at all, or more than 2^31 lines.
    pub fn new(bytes: u64, ways: u32) -> Self {
        assert!(ways > 0, "a set has a line at least");
        let sets = bytes / 64 / u64::from(ways);
        let lines = sets * u64::from(ways);
        assert!(lines > 0 && lines < u64::from(LINES), "a cache of {bytes} bytes in {ways} ways");
        Self {
            entries: vec![EMPTY; lines as usize],
            ways: ways as usize,
            sets: sets as u32,
            reciprocal: (u64::MAX / sets).wrapping_add(1),
        }
    }

    /// Returns the number of lines that it has room for.
    pub fn lines(&self) -> u64 {
        self.entries.len() as u64
    }

    /// `line % self.sets` (D. Lemire, O. Kaser, N. Kurz: Faster remainder by direct computation).
    #[inline]
    fn set_of(&self, line: u32) -> usize {
        let fraction = self.reciprocal.wrapping_mul(u64::from(line));
        ((u128::from(fraction) * u128::from(self.sets)) >> 64) as usize
    }

    #[inline]
    fn set(&mut self, line: u32) -> &mut [u32] {
        debug_assert!(line < LINES);
        let start = self.set_of(line) * self.ways;
        &mut self.entries[start..start + self.ways]
    }

    /// Reads a line, or, if `write`, modifies it. Line numbers are less than 2^31 - 1.
    #[inline]
    pub fn touch(&mut self, line: u32, write: bool) -> Touched {
        let set = self.set(line);
        if set[0] >> 1 == line {
            set[0] |= u32::from(write);
            return Touched::Hit;
        }
        match <&mut [u32; 16]>::try_from(&mut *set) {
            Ok(set) => touch_sixteen(set, line, u32::from(write)),
            Err(_) => touch(set, line, u32::from(write)),
        }
    }

    /// Marks a line as not modified, as CLWB does; returns whether it had to be written back. What
    /// was used when is not changed.
    #[inline]
    pub fn clean(&mut self, line: u32) -> bool {
        let modified = line << 1 | 1;
        let entry = self.set(line).iter_mut().find(|entry| **entry == modified);
        entry.is_some_and(|entry| {
            *entry = line << 1;
            true
        })
    }

    /// Takes a line out, as CLFLUSH does; returns whether it had to be written back.
    #[inline]
    pub fn evict(&mut self, line: u32) -> bool {
        let set = self.set(line);
        let Some(at) = set.iter().position(|entry| *entry >> 1 == line) else { return false };
        let modified = set[at] & 1 == 1;
        set.copy_within(at + 1.., at);
        set[set.len() - 1] = EMPTY;
        modified
    }

    /// Returns whether a line is in the cache.
    pub fn holds(&self, line: u32) -> bool {
        let start = self.set_of(line) * self.ways;
        self.entries[start..start + self.ways].iter().any(|entry| *entry >> 1 == line)
    }
}

/// [`touch`] of the usual width: without a loop and without branches that depend on the place.
fn touch_sixteen(set: &mut [u32; 16], line: u32, write: u32) -> Touched {
    let old = *set;
    let mut equal = 0_u32;
    for (at, entry) in old.iter().enumerate() {
        equal |= u32::from(*entry >> 1 == line) << at;
    }
    let hit = equal != 0;
    let place = if hit { equal.trailing_zeros() } else { 15 };
    for at in 1..16 {
        set[at] = if at as u32 <= place { old[at - 1] } else { old[at] };
    }
    let moved = old[place as usize & 15];
    set[0] = write | if hit { moved } else { line << 1 };
    outcome(hit, moved)
}

fn touch(set: &mut [u32], line: u32, write: u32) -> Touched {
    let found = set.iter().position(|entry| *entry >> 1 == line);
    let place = found.unwrap_or(set.len() - 1);
    let moved = set[place];
    set.copy_within(..place, 1);
    set[0] = write | if found.is_some() { moved } else { line << 1 };
    outcome(found.is_some(), moved)
}

/// Returns the outcome of an access that moved this entry to the front, or out of the set.
#[inline]
fn outcome(hit: bool, moved: u32) -> Touched {
    match (hit, moved) {
        (true, _) => Touched::Hit,
        (false, EMPTY) => Touched::Missed,
        (false, entry) if entry & 1 == 1 => Touched::Replaced(entry >> 1),
        (false, _) => Touched::Missed,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// The same, in the plainest way: a queue for each set.
    struct Naive {
        sets: Vec<VecDeque<(u32, bool)>>,
        ways: usize,
    }

    impl Naive {
        fn take(&mut self, line: u32) -> Option<(u32, bool)> {
            let sets = self.sets.len();
            let set = &mut self.sets[line as usize % sets];
            let at = set.iter().position(|held| held.0 == line)?;
            set.remove(at)
        }

        fn touch(&mut self, line: u32, write: bool) -> Touched {
            let held = self.take(line);
            let (sets, ways) = (self.sets.len(), self.ways);
            let set = &mut self.sets[line as usize % sets];
            set.push_front((line, write || held.is_some_and(|held| held.1)));
            if held.is_some() {
                return Touched::Hit;
            }
            let out = if set.len() > ways { set.pop_back() } else { None };
            out.filter(|out| out.1).map_or(Touched::Missed, |out| Touched::Replaced(out.0))
        }

        fn clean(&mut self, line: u32) -> bool {
            let sets = self.sets.len();
            let held = self.sets[line as usize % sets].iter_mut().find(|held| held.0 == line);
            held.is_some_and(|held| std::mem::replace(&mut held.1, false))
        }
    }

    proptest! {
        // An interpreter takes seconds for each.
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]
        #[test]
        fn it_does_what_a_queue_for_each_set_does(
            sets in 1_u64..40,
            ways in prop_oneof![Just(16_u32), 1_u32..20],
            steps in prop::collection::vec((0_u32..400, 0_u8..8), 1..2000),
        ) {
            let mut model = CacheModel::new(sets * u64::from(ways) * 64, ways);
            let mut naive =
                Naive { sets: vec![VecDeque::new(); sets as usize], ways: ways as usize };
            for (line, what) in steps {
                // Far apart too: the remainder must be right for every line number.
                let line = if what & 1 == 0 { line } else { LINES - 1 - line };
                match what {
                    0..4 => prop_assert_eq!(model.touch(line, false), naive.touch(line, false)),
                    4..6 => prop_assert_eq!(model.touch(line, true), naive.touch(line, true)),
                    6 => prop_assert_eq!(model.clean(line), naive.clean(line)),
                    _ => {
                        let held = naive.take(line);
                        prop_assert_eq!(model.holds(line), held.is_some());
                        prop_assert_eq!(model.evict(line), held.is_some_and(|held| held.1));
                    }
                }
            }
        }
    }

    #[test]
    fn a_flush_writes_a_modified_line_back_once() {
        for evicts in [false, true] {
            let mut cache = CacheModel::new(1 << 20, 16);
            let flush = |cache: &mut CacheModel| {
                if evicts { cache.evict(7) } else { cache.clean(7) }
            };
            assert!(!flush(&mut cache), "it is not there");
            assert_eq!(cache.touch(7, false), Touched::Missed);
            assert!(!flush(&mut cache), "it was not modified");
            cache.touch(7, true);
            assert!(flush(&mut cache));
            assert!(!flush(&mut cache), "a second flush has nothing to do");
            assert_eq!(cache.holds(7), !evicts);
        }
    }
}
