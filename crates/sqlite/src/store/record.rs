//! The record of a commit in the log. It is short: most commits of one insert fit into one or two lines.
//!
//! ```text
//! record  part ...
//! part    frame u32 | moved u8 | direct u8 | logged u8 | erased u8   a page, or 255 runs of it
//!         page u32, if moved                                         the page that is in the frame now
//!         run ...                                                    direct ones, logged ones, erased ones
//!         bytes                                                      of the logged runs
//! run     at u16 | bytes - 1 u8
//! ```
//!
//! All numbers are little-endian. The log stores a record with its length and a checksum, which also covers the
//! [direct](Part::direct) bytes in the frames. The record does not contain those, and one fence is enough.

use crate::store::span::Span;

/// Bytes of a run in a record, besides its own.
pub const RUN_BYTES: usize = 3;
/// Bytes of a part without runs.
pub const PART_BYTES: usize = 8;
/// Additional bytes of a part whose page moves.
pub const MOVE_BYTES: usize = 4;
/// The longest run in a record; longer ones are split.
pub(crate) const RUN_MAX: usize = 256;
/// The most runs of one kind in a part.
pub(crate) const RUNS_MAX: usize = 255;

/// The changes of a commit to one frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The frame's number.
    pub frame: u32,
    /// The page that moves into the frame, if any.
    pub moved: Option<u32>,
    /// Runs stored before the commit.
    pub direct: Vec<Span>,
    /// Runs stored after it.
    pub logged: Vec<Span>,
    /// Runs zeroed after it.
    pub erased: Vec<Span>,
    /// The bytes of the logged runs, in sequence.
    pub bytes: Vec<u8>,
}

impl Part {
    /// Returns the most bytes of this in a record; there are fewer if split runs fit together.
    pub fn record_bytes(&self) -> usize {
        let mut record = Vec::new();
        self.encode(&mut record);
        record.len()
    }

    /// Appends this to a record.
    pub fn encode(&self, record: &mut Vec<u8>) {
        let [direct, logged, erased] =
            [&self.direct, &self.logged, &self.erased].map(|runs| split(runs));
        let (mut moved, mut bytes) = (self.moved, &self.bytes[..]);
        let most = direct.len().max(logged.len()).max(erased.len()).div_ceil(RUNS_MAX).max(1);
        for part in 0..most {
            let take = |runs: &[Span]| {
                let (start, end) = (part * RUNS_MAX, (part + 1) * RUNS_MAX);
                runs[start.min(runs.len())..end.min(runs.len())].to_vec()
            };
            let kinds = [take(&direct), take(&logged), take(&erased)];
            record.extend(self.frame.to_le_bytes());
            record.push(moved.is_some().into());
            record.extend(kinds.iter().map(|runs| runs.len() as u8));
            record.extend(moved.take().into_iter().flat_map(u32::to_le_bytes));
            for run in kinds.iter().flatten() {
                record.extend((run.at as u16).to_le_bytes());
                record.push((run.bytes - 1) as u8);
            }
            let (these, rest) = bytes.split_at(length(&kinds[1]));
            record.extend(these);
            bytes = rest;
        }
        debug_assert!(bytes.is_empty(), "bytes of no run");
    }
}

/// Appends a part whose runs are all logged: at most [`RUNS_MAX`] runs of at most [`RUN_MAX`] bytes. `image` has the
/// frame's bytes from `within` on, and the runs' offsets count from there.
pub(crate) fn encode_logged(
    record: &mut Vec<u8>,
    frame: u32,
    within: usize,
    runs: &[Span],
    image: &[u8],
) {
    record.extend(frame.to_le_bytes());
    record.extend([0, 0, runs.len() as u8, 0]);
    for run in runs {
        record.extend(((within + run.at) as u16).to_le_bytes());
        record.push((run.bytes - 1) as u8);
    }
    for run in runs {
        record.extend_from_slice(run.of(image));
    }
}

/// Calls `take` with the frame, the run and its bytes for each run of a record that [`encode_logged`] made. Returns
/// false if it is another record.
pub(crate) fn each_logged(record: &[u8], mut take: impl FnMut(u32, Span, &[u8])) -> bool {
    let mut rest = record;
    while let Some((head, after)) = rest.split_first_chunk::<PART_BYTES>() {
        let [frame @ .., moved, direct, count, erased] = *head;
        let Some((runs, mut bytes)) = after.split_at_checked(usize::from(count) * RUN_BYTES) else {
            return false;
        };
        if [moved, direct, erased] != [0; 3] {
            return false;
        }
        for run in runs.chunks_exact(RUN_BYTES) {
            let at = usize::from(u16::from_le_bytes([run[0], run[1]]));
            let run = Span::new(at, usize::from(run[2]) + 1);
            let Some((these, others)) = bytes.split_at_checked(run.bytes) else { return false };
            take(u32::from_le_bytes(frame), run, these);
            bytes = others;
        }
        rest = bytes;
    }
    rest.is_empty()
}

/// The parts of a record for frames of so many bytes; `None` if it is malformed.
pub fn decode(record: &[u8], frame_bytes: usize) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = record;
    while !rest.is_empty() {
        parts.push(decode_part(&mut rest, frame_bytes)?);
    }
    Some(parts)
}

/// Takes the first part of the rest of a record; `None` if it is malformed or incomplete.
pub(crate) fn decode_part(rest: &mut &[u8], frame_bytes: usize) -> Option<Part> {
    let head = take(rest, PART_BYTES)?;
    let frame = u32::from_le_bytes(head[..4].try_into().ok()?);
    let moved = match head[4] {
        0 => None,
        1 => Some(u32::from_le_bytes(take(rest, MOVE_BYTES)?.try_into().ok()?)),
        _ => return None,
    };
    let mut runs = |count: u8| -> Option<Vec<Span>> {
        (0..count)
            .map(|_| {
                let run = take(rest, RUN_BYTES)?;
                let at = usize::from(u16::from_le_bytes([run[0], run[1]]));
                Some(Span::new(at, usize::from(run[2]) + 1)).filter(|run| run.end() <= frame_bytes)
            })
            .collect()
    };
    let (direct, logged, erased) = (runs(head[5])?, runs(head[6])?, runs(head[7])?);
    let bytes = take(rest, length(&logged))?.to_vec();
    if frame == 0 || moved == Some(0) {
        return None;
    }
    Some(Part { frame, moved, direct, logged, erased, bytes })
}

/// Takes the first bytes of the rest.
fn take<'r>(rest: &mut &'r [u8], bytes: usize) -> Option<&'r [u8]> {
    let (first, after) = rest.split_at_checked(bytes)?;
    *rest = after;
    Some(first)
}

fn length(runs: &[Span]) -> usize {
    runs.iter().map(|run| run.bytes).sum()
}

/// Splits runs to the length that a record allows.
fn split(runs: &[Span]) -> Vec<Span> {
    let parts = |run: &Span| {
        let run = *run;
        (run.at..run.end())
            .step_by(RUN_MAX)
            .map(move |at| Span::between(at, run.end().min(at + RUN_MAX)))
    };
    runs.iter().flat_map(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn runs(random: &mut SmallRng, most: usize) -> Vec<Span> {
        let some = |random: &mut SmallRng| {
            let at = random.random_range(0..65_536);
            Span::new(at, random.random_range(1..=(65_536 - at).min(2 * RUN_MAX)))
        };
        (0..random.random_range(0..=most)).map(|_| some(random)).collect()
    }

    fn part(random: &mut SmallRng) -> Part {
        let most = if random.random_ratio(1, 10) { 700 } else { 4 };
        let [direct, logged, erased] = [(); 3].map(|()| runs(random, most));
        let mut bytes = vec![0; length(&logged)];
        random.fill(&mut bytes[..]);
        let moved = random.random::<bool>().then(|| random.random_range(1..u32::MAX));
        Part { frame: random.random_range(1..u32::MAX), moved, direct, logged, erased, bytes }
    }

    /// The bytes of parts by kind and in order, regardless of how runs are split.
    fn meaning(parts: &[Part]) -> Vec<(u32, u8, usize, u8)> {
        let mut all = Vec::new();
        for part in parts {
            for (kind, runs) in (0..).zip([&part.direct, &part.logged, &part.erased]) {
                let mut bytes = part.bytes.iter();
                for at in runs.iter().flat_map(|run| run.at..run.end()) {
                    let byte = if kind == 1 { *bytes.next().unwrap() } else { 0 };
                    all.push((part.frame, kind, at, byte));
                }
            }
            all.extend(part.moved.map(|page| (part.frame, 3, page as usize, 0)));
        }
        // Only the order within a kind matters.
        all.sort_by_key(|(frame, kind, ..)| (*frame, *kind));
        all
    }

    #[test]
    fn record_round_trips() {
        let mut random = SmallRng::seed_from_u64(4);
        for _ in 0..200 {
            let mut parts: Vec<Part> =
                (0..random.random_range(0..4)).map(|_| part(&mut random)).collect();
            parts.sort_by_key(|part| part.frame);
            let mut record = Vec::new();
            parts.iter().for_each(|part| part.encode(&mut record));
            assert_eq!(parts.iter().map(Part::record_bytes).sum::<usize>(), record.len());
            let found = decode(&record, 65_536).expect("a record");
            assert_eq!(meaning(&found), meaning(&parts));
        }
    }

    #[test]
    fn malformed_record_is_refused() {
        let of = |part: &Part| {
            let mut record = Vec::new();
            part.encode(&mut record);
            record
        };
        let (logged, bytes) = (vec![Span::new(500, 12)], vec![7; 12]);
        let part = Part { frame: 3, moved: Some(9), logged, bytes, ..Part::default() };
        let record = of(&part);
        assert_eq!(record.len(), PART_BYTES + MOVE_BYTES + RUN_BYTES + 12);
        assert_eq!(decode(&record, 512), Some(vec![part.clone()]));
        assert_eq!(decode(&record, 511), None, "a run past the frame's end");
        for cut in 1..record.len() {
            assert_eq!(decode(&record[..cut], 512), None, "{cut}");
        }
        assert_eq!(decode(&of(&Part { frame: 0, ..part.clone() }), 512), None);
        assert_eq!(decode(&of(&Part { moved: Some(0), ..part }), 512), None);
        let mut random = SmallRng::seed_from_u64(6);
        for _ in 0..20_000 {
            let mut noise = vec![0; random.random_range(0..60)];
            random.fill(&mut noise[..]);
            for part in decode(&noise, 512).into_iter().flatten() {
                let all = [&part.direct, &part.logged, &part.erased];
                assert!(all.iter().flat_map(|runs| runs.iter()).all(|run| run.end() <= 512));
            }
        }
    }
}
