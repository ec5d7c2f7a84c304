//! Differential logging: the runs of a page's bytes that a transaction has changed.

/// Bytes between two runs that are logged with them: a frame of their own would take more.
pub const LEAST_GAP: usize = 16;

/// A run of bytes of a page: where it starts, and how many there are.
pub type Run = (usize, usize);

/// Returns the runs in order; those that overlap, or have less than [`LEAST_GAP`] bytes between
/// them, are one.
pub fn merge(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_unstable();
    let mut merged: Vec<Run> = Vec::with_capacity(runs.len());
    for (at, len) in runs {
        match merged.last_mut() {
            Some((start, bytes)) if at < *start + *bytes + LEAST_GAP => {
                *bytes = (*bytes).max(at + len - *start);
            }
            _ => merged.push((at, len)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merged_runs_have_every_byte_once(
            runs in prop::collection::vec((0usize..400, 1usize..60), 0..20),
        ) {
            let merged = merge(runs.clone());
            for byte in 0..460 {
                let within = |(at, len): &(usize, usize)| (*at..at + len).contains(&byte);
                let (there, times) =
                    (runs.iter().any(within), merged.iter().filter(|run| within(run)).count());
                prop_assert!(times <= 1 && times >= usize::from(there));
            }
            let gaps = merged.windows(2).map(|two| two[1].0 - two[0].0 - two[0].1);
            prop_assert!(gaps.min().is_none_or(|least| least >= LEAST_GAP));
        }
    }
}
