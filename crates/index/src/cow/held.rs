//! Pages, or objects of a heap, that a transaction has superseded and only snapshots keep.
//!
//! A snapshot of transaction `n` sees what was made in or before `n` and superseded after it. What
//! several snapshots see waits for the newest of them: when that goes, and only then, it is looked
//! at again.

use std::collections::BTreeMap;

/// Something that a transaction has superseded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Old {
    /// The page or the object.
    pub what: u64,
    /// The transaction that made it; an earlier one where that is not known.
    pub birth: u64,
    /// The transaction that superseded it.
    pub at: u64,
}

impl Old {
    /// The newest snapshot that sees it. `pins` are the transactions whose state snapshots see.
    fn newest_pin(&self, pins: &[u64]) -> Option<u64> {
        pins.iter().copied().filter(|pin| (self.birth..self.at).contains(pin)).max()
    }
}

/// The things that snapshots keep, by the newest one that does.
#[derive(Default, Debug)]
pub struct Held(BTreeMap<u64, Vec<Old>>);

impl Held {
    /// Keeps something as long as a snapshot sees it; returns whether one does.
    pub fn keep(&mut self, old: Old, pins: &[u64]) -> bool {
        let pin = old.newest_pin(pins);
        if let Some(pin) = pin {
            self.0.entry(pin).or_default().push(old);
        }
        pin.is_some()
    }

    /// Snapshots have gone: calls `free` with what none of the others sees.
    pub fn unpin(&mut self, pins: &[u64], mut free: impl FnMut(Old)) {
        let gone: Vec<u64> = self.0.keys().copied().filter(|pin| !pins.contains(pin)).collect();
        for pin in gone {
            for old in self.0.remove(&pin).unwrap_or_default() {
                if !self.keep(old, pins) {
                    free(old);
                }
            }
        }
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Old> {
        self.0.values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_snapshots_see_stays_until_the_last_of_them_goes() {
        let mut held = Held::default();
        let old = |what, birth, at| Old { what, birth, at };
        assert!(!held.keep(old(1, 5, 9), &[4, 9, 20]), "made after, superseded before or in");
        assert!(held.keep(old(2, 5, 9), &[5, 8]));
        assert!(held.keep(old(3, 0, 7), &[5, 8]));
        let mut freed = Vec::new();
        held.unpin(&[5], |old| freed.push(old.what));
        assert_eq!((&freed[..], held.len()), (&[][..], 2), "both wait for the older one");
        held.unpin(&[], |old| freed.push(old.what));
        freed.sort_unstable();
        assert_eq!((&freed[..], held.is_empty()), (&[2, 3][..], true));
    }
}
