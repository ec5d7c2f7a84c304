//! The generator that workloads draw from.
//!
//! A workload is part of a published figure, so its sequence may never change: the generator is
//! spelled out here (SplitMix64) because the general-purpose generators of `rand` promise quality,
//! not the same sequence in the next version.

/// A small deterministic generator (SplitMix64): the same seed gives the same sequence for ever.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator for stream `stream` of `seed`; streams of one seed are unrelated.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { state: mix(seed ^ mix(stream.wrapping_add(0x5851_f42d_4c95_7f2d))) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number in `0..bound`; the bias is below `bound / 2^64`.
    ///
    /// # Panics
    /// If `bound` is zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a number below zero was asked for");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// A generator for one row or one stream of inputs of a workload, named by four numbers. `domain` keeps
/// the streams of workloads apart.
pub(crate) fn stream(domain: u64, seed: u64, name: [u64; 4]) -> Random {
    let name = name.into_iter().fold(domain, |hash, part| mix(hash.rotate_left(9) ^ part));
    Random::new(seed, name)
}

/// A number of `low..=high`.
#[inline]
pub(crate) fn between(random: &mut Random, low: u64, high: u64) -> u64 {
    low + random.below(high - low + 1)
}

/// True with a probability of so many percent.
#[inline]
pub(crate) fn percent(random: &mut Random, percent: u64) -> bool {
    random.below(100) < percent
}

/// A number of `low..=high`, those with many bits set more often: TPC-C's distribution (clause
/// 2.1.6), and with `low = 1` and `c = 0` that of TATP.
pub(crate) fn nurand(random: &mut Random, a: u64, c: u64, low: u64, high: u64) -> u64 {
    ((between(random, 0, a) | between(random, low, high)) + c) % (high - low + 1) + low
}

/// Spreads every bit of `x` over all bits of the result; a bijection.
#[inline]
pub(crate) const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_it() {
        let mut random = Random::new(1, 0);
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[random.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    }

    #[test]
    fn streams_of_one_seed_differ() {
        let draw = |stream| Random::new(9, stream).next_u64();
        assert_ne!(draw(0), draw(1));
        assert_eq!(draw(5), draw(5));
    }
}
