//! The format of frames in NVWAL's log: each has a checksum after its word.
//!
//! The checksum covers the side file's tag, how often the log was emptied, the frame's place in the log, its word and
//! its bytes. A frame that is damaged, from an earlier log, or in another place does not match.

use crate::store::frames::{Frames, place_and_len, word_of};
use crate::store::side::check;

/// Bytes of a checksum.
const CHECK_BYTES: usize = 4;

/// The log that a frame belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    /// The side file's tag.
    pub(crate) tag: u64,
    /// How often the log was emptied before.
    pub(crate) emptied: u64,
}

/// Bytes that frames take in the log.
pub(crate) fn bytes_of(frames: &Frames) -> u64 {
    frames.bytes.len() as u64 + frames.count * CHECK_BYTES as u64
}

impl Log {
    fn check(self, place: u64, word: u64, bytes: &[u8]) -> [u8; CHECK_BYTES] {
        check(&[self.tag, self.emptied, place, word], bytes).to_le_bytes()
    }

    /// The bytes that frames take at offset `from` of the log.
    pub(crate) fn write(self, frames: &Frames, from: u64) -> Vec<u8> {
        let mut log = Vec::with_capacity(bytes_of(frames) as usize);
        Frames::each(&frames.bytes, |at, bytes| {
            let (place, word) = (from + log.len() as u64, word_of(at, bytes.len()));
            log.extend_from_slice(&word.to_le_bytes());
            log.extend_from_slice(&self.check(place, word, bytes));
            log.extend_from_slice(bytes);
        });
        log
    }

    /// The places and bytes of the frames at offset `from` of the log; `None` if one is incomplete or does not
    /// match its checksum.
    pub(crate) fn read(self, log: &[u8], from: u64) -> Option<Vec<(u64, &[u8])>> {
        let (mut frames, mut rest) = (Vec::new(), log);
        while !rest.is_empty() {
            let place = from + (log.len() - rest.len()) as u64;
            let (word, after) = rest.split_first_chunk()?;
            let (found, after) = after.split_first_chunk()?;
            let word = u64::from_le_bytes(*word);
            let (at, len) = place_and_len(word);
            let (bytes, after) = after.split_at_checked(len)?;
            if *found != self.check(place, word, bytes) {
                return None;
            }
            frames.push((at, bytes));
            rest = after;
        }
        Some(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Log = Log { tag: 7, emptied: 3 };

    fn frames() -> (Frames, Vec<(u64, Vec<u8>)>) {
        let all = [(0, 1), (1 << 40, 300), (4097, 0), (70, 9)]
            .map(|(at, len)| (at, vec![at as u8 | 1; len]));
        let mut frames = Frames::default();
        all.iter().for_each(|(at, bytes)| frames.add(*at, bytes).unwrap());
        (frames, all.to_vec())
    }

    #[test]
    fn frames_round_trip_and_damaged_or_cut_ones_do_not() {
        let (frames, all) = frames();
        let mut log = LOG.write(&frames, 100);
        assert_eq!(log.len() as u64, bytes_of(&frames));
        let found = LOG.read(&log, 100).unwrap();
        assert!(found.iter().map(|(at, bytes)| (*at, bytes.to_vec())).eq(all));
        for at in 0..log.len() {
            for bit in 0..8 {
                log[at] ^= 1 << bit;
                assert_eq!(LOG.read(&log, 100), None, "bit {bit} of {at}");
                log[at] ^= 1 << bit;
            }
        }
        let ends = [13, 13 + 312, 13 + 312 + 12];
        for cut in (1..log.len()).filter(|cut| !ends.contains(cut)) {
            assert_eq!(LOG.read(&log[..cut], 100), None, "{cut}");
        }
    }

    #[test]
    fn frames_of_another_log_or_place_are_rejected() {
        let log = LOG.write(&frames().0, 100);
        for (other, from) in
            [(Log { tag: 8, ..LOG }, 100), (Log { emptied: 4, ..LOG }, 100), (LOG, 99)]
        {
            assert_eq!(other.read(&log, from), None);
        }
    }
}
