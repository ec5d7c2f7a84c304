//! Decides when runs are merged, and which (P1 3.3: a leveled tree, each level `k` times as large
//! as the one above it).
//!
//! Level 0 takes MemTables as they come, the newest last; each level below holds one run at most.
//! A level that has outgrown its limit is merged into the next one, the deepest such level first:
//! what comes down from above then finds room.

/// The shape of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LevelPolicy {
    /// Bytes of a MemTable.
    pub memtable_bytes: u64,
    /// The factor by which a level is larger than the one above it; at least 2.
    pub growth: u32,
    /// Runs in level 0 that call for a merge; at least 1.
    pub level0_runs: u32,
}

/// A merge that is due: all runs of level `from` and the run of level `into`, if there is one, go
/// together into one run of level `into`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Merge {
    /// The level that is too large.
    pub from: usize,
    /// The level below it.
    pub into: usize,
    /// True if no run lies below: then tombstones have nothing left to hide and are dropped, and
    /// every partial entry meets its whole one.
    pub to_bottom: bool,
}

impl LevelPolicy {
    /// Bytes that a level may have; for level 0, its limit of runs times that of a MemTable.
    pub fn limit(&self, level: usize) -> u64 {
        let growth = u64::from(self.growth.max(2));
        if level == 0 {
            return self.memtable_bytes.saturating_mul(u64::from(self.level0_runs.max(1)));
        }
        let power = u32::try_from(level).ok().and_then(|level| growth.checked_pow(level));
        power.map_or(u64::MAX, |power| self.memtable_bytes.saturating_mul(power))
    }

    /// The merge that is due next, if one is. `levels` has the bytes of each level's runs; level 0
    /// comes first.
    pub fn next_merge(&self, levels: &[&[u64]]) -> Option<Merge> {
        let bytes = |level: &[u64]| level.iter().fold(0u64, |sum, run| sum.saturating_add(*run));
        let outgrown = |level: usize| match level {
            0 => levels[0].len() >= self.level0_runs.max(1) as usize,
            _ => bytes(levels[level]) > self.limit(level),
        };
        let from = (0..levels.len()).rev().find(|level| outgrown(*level))?;
        Some(Self::merge_of(levels, from))
    }

    /// The merge of level `from` into the one below it, due or not.
    pub fn merge_of(levels: &[&[u64]], from: usize) -> Merge {
        let to_bottom = levels.iter().skip(from + 2).all(|level| level.is_empty());
        Merge { from, into: from + 1, to_bottom }
    }

    /// Returns about how many bytes still wait to be merged: what the levels have beyond their
    /// limits, and all of a full level 0. Each of these bytes is merged into a level about `growth`
    /// times as large, which is counted with it.
    pub fn backlog(&self, levels: &[&[u64]]) -> u64 {
        let mut waiting = 0u64;
        for (level, runs) in levels.iter().enumerate() {
            let bytes = runs.iter().fold(0u64, |sum, run| sum.saturating_add(*run));
            let due = if level == 0 {
                runs.len() >= self.level0_runs.max(1) as usize
            } else {
                bytes > self.limit(level)
            };
            if due {
                let below = levels.get(level + 1).map_or(0, |runs| runs.iter().sum());
                waiting = waiting.saturating_add(bytes).saturating_add(below);
            }
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: LevelPolicy = LevelPolicy { memtable_bytes: 100, growth: 10, level0_runs: 4 };

    #[test]
    fn limits_grow_by_the_factor() {
        assert_eq!([0, 1, 2, 3].map(|level| POLICY.limit(level)), [400, 1000, 10_000, 100_000]);
        assert_eq!(POLICY.limit(100), u64::MAX);
    }

    #[test]
    fn nothing_is_due_while_every_level_has_room() {
        assert_eq!(POLICY.next_merge(&[]), None);
        assert_eq!(POLICY.next_merge(&[&[100; 3], &[1000], &[10_000]]), None);
        assert_eq!(POLICY.backlog(&[&[100; 3], &[1000], &[10_000]]), 0);
    }

    #[test]
    fn a_full_level_0_goes_into_level_1() {
        let due = Merge { from: 0, into: 1, to_bottom: true };
        assert_eq!(POLICY.next_merge(&[&[100; 4]]), Some(due));
        assert_eq!(POLICY.next_merge(&[&[100; 5], &[900]]), Some(due));
        assert_eq!(POLICY.backlog(&[&[100; 5], &[900]]), 1400);
        let with_more_below = Merge { to_bottom: false, ..due };
        assert_eq!(POLICY.next_merge(&[&[100; 4], &[900], &[5000]]), Some(with_more_below));
        // An empty level in between hides nothing.
        assert_eq!(POLICY.next_merge(&[&[100; 4], &[], &[5000]]), Some(with_more_below));
    }

    #[test]
    fn the_deepest_level_makes_room_first() {
        let due = |levels: &[&[u64]]| POLICY.next_merge(levels).map(|merge| merge.from);
        assert_eq!(due(&[&[100; 4], &[1001]]), Some(1));
        assert_eq!(due(&[&[100; 4], &[1001], &[10_001]]), Some(2));
        assert_eq!(due(&[&[100; 4], &[1001], &[10_000]]), Some(1));
    }

    /// Merging ends whatever comes in, and then all levels are within their limits.
    #[test]
    fn merging_ends_with_every_level_within_its_limit() {
        let mut levels: Vec<Vec<u64>> = vec![Vec::new()];
        let (mut merges, mut merged_bytes) = (0u64, 0u64);
        for _ in 0..2000 {
            levels[0].push(100);
            loop {
                let view: Vec<&[u64]> = levels.iter().map(Vec::as_slice).collect();
                let Some(merge) = POLICY.next_merge(&view) else { break };
                merges += 1;
                if levels.len() == merge.into {
                    levels.push(Vec::new());
                }
                let from: u64 = levels[merge.from].drain(..).sum();
                let into: u64 = levels[merge.into].drain(..).sum();
                merged_bytes += from + into;
                levels[merge.into].push(from + into);
            }
            for (level, runs) in levels.iter().enumerate().skip(1) {
                assert!(runs.len() <= 1 && runs.iter().sum::<u64>() <= POLICY.limit(level));
            }
        }
        assert!(levels.len() >= 4 && merges > 500, "{levels:?}");
        // Each level costs about half the growth factor for a byte that comes in.
        let amplification = merged_bytes as f64 / (2000.0 * 100.0);
        assert!(amplification < 3.0 * 10.0, "{amplification}");
    }
}
