//! Counts how often each line was written.

/// Lines of a page of counters.
const PAGE: usize = 1 << 14;

/// Describes how evenly writes wear the memory.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
#[non_exhaustive]
pub struct Wear {
    /// Lines that were written at least once.
    pub lines: u64,
    /// Writes of all lines.
    pub writes: u64,
    /// Writes of the line that was written most.
    pub most: u64,
}

impl Wear {
    /// Writes of a line that was written at all, on average.
    pub fn mean(&self) -> f64 {
        if self.lines == 0 { 0.0 } else { self.writes as f64 / self.lines as f64 }
    }
}

/// A counter for each line, in pages that are made when a line in them is first written.
#[derive(Clone, Default, Debug)]
pub(crate) struct WearCounters(Vec<Option<Box<[u32]>>>);

impl WearCounters {
    #[inline]
    pub(crate) fn write(&mut self, line: u32) {
        let (page, at) = (line as usize / PAGE, line as usize % PAGE);
        match self.0.get_mut(page) {
            Some(Some(counters)) => counters[at] = counters[at].saturating_add(1),
            _ => self.first_write(page, at),
        }
    }

    #[cold]
    fn first_write(&mut self, page: usize, at: usize) {
        if self.0.len() <= page {
            self.0.resize(page + 1, None);
        }
        self.0[page].insert(vec![0; PAGE].into())[at] = 1;
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn summary(&self) -> Wear {
        let mut wear = Wear::default();
        for counter in self.0.iter().flatten().flat_map(|page| page.iter()) {
            wear.lines += u64::from(*counter > 0);
            wear.writes += u64::from(*counter);
            wear.most = wear.most.max(u64::from(*counter));
        }
        wear
    }
}
