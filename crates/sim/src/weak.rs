//! The contents that a line can have after a power cut on a processor that does not order the stores
//! to one line.
//!
//! Each of the line's eight words holds any of the values that it had since the line was durable, whatever
//! the others hold. Where these are too many, all of them alone, all but each, and a sample are taken.

use crate::split_mix::next_random;

const WORD: usize = 8;
const WORDS: usize = 8;
const LINE: usize = WORD * WORDS;
/// Contents of a line that are built at most.
const MOST: usize = 256;

/// The values of each word, the durable one first.
fn values(durable: [u8; LINE], atoms: &[&(usize, Vec<u8>)]) -> [Vec<[u8; WORD]>; WORDS] {
    let (words, _) = durable.as_chunks::<WORD>();
    let mut values: [Vec<[u8; WORD]>; WORDS] = std::array::from_fn(|word| vec![words[word]]);
    for (at, bytes) in atoms {
        for (word, values) in values.iter_mut().enumerate() {
            let (start, end) = ((*at).max(word * WORD), (at + bytes.len()).min((word + 1) * WORD));
            if start < end {
                let mut value = values[values.len() - 1];
                value[start - word * WORD..end - word * WORD]
                    .copy_from_slice(&bytes[start - at..end - at]);
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
    }
    values
}

/// Calls `add` with the contents that a line can hold, with which it was durable and to which these atoms
/// were stored since.
pub(crate) fn contents(
    durable: [u8; LINE],
    atoms: &[&(usize, Vec<u8>)],
    seed: u64,
    add: &mut impl FnMut([u8; LINE]),
) {
    let values = values(durable, atoms);
    let mut show = |picks: [usize; WORDS]| {
        let mut bytes = [0; LINE];
        for ((word, values), pick) in bytes.chunks_mut(WORD).zip(&values).zip(picks) {
            word.copy_from_slice(&values[pick]);
        }
        add(bytes);
    };
    let all = values.iter().try_fold(1usize, |all, values| all.checked_mul(values.len()));
    if let Some(all) = all.filter(|all| *all <= MOST) {
        for mut number in 0..all {
            show(std::array::from_fn(|word| {
                let pick = number % values[word].len();
                number /= values[word].len();
                pick
            }));
        }
        return;
    }
    let newest: [usize; WORDS] = std::array::from_fn(|word| values[word].len() - 1);
    for word in 0..WORDS {
        show(std::array::from_fn(|other| if other == word { newest[word] } else { 0 }));
        show(std::array::from_fn(|other| if other == word { 0 } else { newest[other] }));
    }
    let mut random = seed;
    for _ in 2 * WORDS..MOST {
        show(std::array::from_fn(|word| {
            (next_random(&mut random) % values[word].len() as u64) as usize
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use pm::{Line, Memory, Off};

    use crate::{Recording, Replay};

    /// The first bytes of two words of a line at the last crash point.
    fn states(act: impl FnOnce(&Recording)) -> HashSet<(u8, u8)> {
        let memory = Recording::new(4096).unwrap();
        memory.grow(256).unwrap();
        memory.start();
        act(&memory);
        let trace = memory.stop();
        let (mut replay, mut found) = (Replay::new(&trace).weakly_ordered(), HashSet::new());
        while let Some(point) = replay.next_point() {
            found.clear();
            point.for_each_state(1000, 1, |image| {
                found.insert((image[0], image[8]));
            });
        }
        found
    }

    #[test]
    fn between_fences_the_stores_to_a_line_persist_in_any_order() {
        let found = states(|memory| {
            memory.store(Off::new(0), 1);
            memory.store(Off::new(8), 1);
        });
        assert_eq!(found, HashSet::from([(0, 0), (1, 0), (0, 1), (1, 1)]));
    }

    #[test]
    fn a_fence_orders_them() {
        let found = states(|memory| {
            memory.store(Off::new(0), 1);
            memory.flush_line(Line(0));
            memory.fence();
            memory.store(Off::new(8), 1);
        });
        assert_eq!(found, HashSet::from([(1, 0), (1, 1)]));
    }

    #[test]
    fn of_many_stores_each_word_is_seen_new_without_any_other() {
        let memory = Recording::new(4096).unwrap();
        memory.grow(256).unwrap();
        memory.start();
        for round in 1..5 {
            (0..8).for_each(|word| memory.store(Off::new(word * 8), round));
        }
        let trace = memory.stop();
        let mut replay = Replay::new(&trace).weakly_ordered();
        let point = replay.next_point().unwrap();
        let mut lines = HashSet::new();
        point.for_each_state(10_000, 1, |image| {
            lines.insert(
                <[u8; 8]>::try_from(image[..64].iter().copied().step_by(8).collect::<Vec<_>>())
                    .unwrap(),
            );
        });
        for word in 0..8 {
            let alone = |other| if other == word { 4 } else { 0 };
            assert!(lines.contains(&std::array::from_fn(alone)), "word {word}: {lines:?}");
        }
    }
}
