//! The free space of a page, derived from its record offsets (P3 4.3): nothing keeps a list, so
//! none can be wrong.

/// A run of bytes that a record takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Used {
    /// The start of the run.
    pub at: usize,
    /// Bytes.
    pub len: usize,
}

/// Returns where `len` bytes fit between the records of a page of `page` bytes: in the smallest
/// hole above the lowest record that is large enough, at its end. The gap below that record is not
/// looked at. The result is a multiple of `align`. `used` is sorted on the way.
pub fn hole(used: &mut [Used], page: usize, len: usize, align: usize) -> Option<usize> {
    used.sort_unstable();
    let ends = used.iter().skip(1).map(|next| next.at).chain([page]);
    let holes = used.iter().zip(ends).map(|(before, end)| (before.at + before.len, end));
    holes
        .filter_map(|(start, end)| {
            let at = end.checked_sub(len)? / align * align;
            // Records that overlap, of a damaged page, have no hole between them.
            (at >= start).then(|| (end - start, at))
        })
        .min()
        .map(|(_, at)| at)
}

/// Returns where `len` bytes fit into the gap between the header, which ends at `low`, and the
/// content, which starts at `high`: at its end, at a multiple of `align`.
pub fn gap(low: usize, high: usize, len: usize, align: usize) -> Option<usize> {
    let at = high.checked_sub(len)? / align * align;
    (at >= low).then_some(at)
}

/// Moves a record that would straddle two lines down so that it does not, if it fits into one.
pub fn within_line(at: usize, len: usize, line: usize) -> usize {
    let end = at + len;
    if len > line || at / line == (end - 1) / line { at } else { end / line * line - len }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: usize = 512;

    /// The page as a map of its bytes: which of them records take.
    fn map(used: &[Used]) -> Vec<bool> {
        let mut map = vec![false; PAGE];
        for one in used {
            map[one.at..one.at + one.len].fill(true);
        }
        map
    }

    proptest! {
        #[test]
        fn a_hole_is_found_where_there_is_one(
            lens in prop::collection::vec((1usize..40, 0usize..30), 1..14),
            len in 1usize..40, shift in 0u32..4,
        ) {
            let (mut used, mut end) = (Vec::new(), PAGE);
            for (len, gap) in lens {
                let Some(at) = end.checked_sub(len + gap) else { break };
                used.push(Used { at, len });
                end = at;
            }
            let align = 1 << shift;
            let (map, lowest) = (map(&used), end);
            let fits = |at: usize| at + len <= PAGE && !map[at..at + len].contains(&true);
            match hole(&mut used, PAGE, len, align) {
                Some(at) => prop_assert!(at > lowest && at.is_multiple_of(align) && fits(at)),
                None => {
                    let missed = (lowest..PAGE).step_by(1).find(|at| at % align == 0 && fits(*at));
                    prop_assert_eq!(missed, None);
                }
            }
        }

        #[test]
        fn a_record_that_fits_one_line_lies_in_one(at in 0usize..400, len in 1usize..100) {
            let moved = within_line(at + 64, len, 64);
            prop_assert!(moved <= at + 64 && at + 64 - moved < 64);
            prop_assert!(len > 64 || moved / 64 == (moved + len - 1) / 64);
        }
    }

    #[test]
    fn the_gap_ends_at_the_content() {
        assert_eq!(gap(100, 200, 60, 1), Some(140));
        assert_eq!(gap(100, 200, 60, 8), Some(136));
        assert_eq!(gap(100, 200, 101, 1), None);
        assert_eq!(gap(100, 50, 60, 1), None);
    }
}
