//! Which states of a crash point are built, where each of several parts of a medium has options: how
//! much of it has persisted.

use crate::split_mix::next_random;

/// The number of a line's newest contents that are gone through. Older ones were at an earlier
/// crash point.
pub const CHOICES: usize = 16;

/// Counts the states of one crash point that were looked at.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CrashStates {
    /// Distinct states visited.
    pub visited: u64,
    /// True if these were all there are.
    pub exhaustive: bool,
}

/// Calls `show` with an option of each part, of which 0 is "nothing persisted" and the last
/// "everything"; `show` returns whether the state is a new one. All combinations if there are at most
/// `bound`. Else all lost, all persisted, a set in which every two parts are seen in all four
/// combinations of lost and persisted, up to `bound` states in which every part has another of its
/// newest options, each one alone persisted and alone lost, and samples up to `bound` states.
pub(crate) fn for_each_pick(
    options: &[usize],
    bound: u64,
    seed: u64,
    position: usize,
    mut show: impl FnMut(&[usize]) -> bool,
) -> CrashStates {
    let mut show = |picks: &[usize]| u64::from(show(picks));
    let count = options.len();
    let total = options
        .iter()
        .try_fold(1u64, |product, options| product.checked_mul(*options as u64))
        .unwrap_or(u64::MAX);
    let mut visited = 0;
    if total <= bound {
        let mut picks = vec![0; count];
        loop {
            visited += show(&picks);
            let Some(place) = (0..count).find(|i| picks[*i] + 1 < options[*i]) else {
                return CrashStates { visited, exhaustive: true };
            };
            picks[place] += 1;
            picks[..place].fill(0);
        }
    }
    let lost = vec![0; count];
    let last: Vec<usize> = options.iter().map(|options| options - 1).collect();
    visited += show(&lost) + show(&last);
    for row in pairwise(&last) {
        visited += show(&row);
    }
    let most = options.iter().copied().max().unwrap_or(0).min(CHOICES);
    for row in 0..most.min(bound as usize) {
        let pick = |(place, last): (usize, &usize)| {
            last - (row + position + place * 7) % CHOICES.min(last + 1)
        };
        visited += show(&last.iter().enumerate().map(pick).collect::<Vec<_>>());
    }
    for place in 0..count {
        for (most, one) in [(&lost, &last), (&last, &lost)] {
            if visited < bound {
                let mut picks = most.clone();
                picks[place] = one[place];
                visited += show(&picks);
            }
        }
    }
    let mut random = seed ^ (position as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = |limit: usize| (next_random(&mut random) % limit as u64) as usize;
    for _ in 0..bound.saturating_mul(2) {
        if visited >= bound {
            break;
        }
        let mut picks: Vec<usize> = match below(3) {
            0 => lost.clone(),
            1 => last.clone(),
            _ => options.iter().map(|options| below(*options)).collect(),
        };
        let place = below(count);
        picks[place] = below(options[place]);
        visited += show(&picks);
    }
    CrashStates { visited, exhaustive: false }
}

/// Row `bit` takes the binary digits of a part's number; with the complements and "all" and
/// "none" every two parts are seen in all four combinations.
fn pairwise(last: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let bits = usize::BITS - last.len().leading_zeros();
    (0..bits).flat_map(|bit| [0, 1].map(|digit| (bit, digit))).map(|(bit, digit)| {
        let pick = |(place, newest): (usize, &usize)| {
            if (place >> bit) & 1 == digit { *newest } else { 0 }
        };
        last.iter().enumerate().map(pick).collect()
    })
}
