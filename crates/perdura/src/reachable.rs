//! The objects of the heap that the data lead to.

/// The offsets of the objects, in order, each as often as something owns it.
#[derive(Debug)]
pub(crate) struct Reachable(Vec<u64>);

impl Reachable {
    /// Takes offsets in any order.
    pub(crate) fn new(mut offsets: Vec<u64>) -> Self {
        offsets.sort_unstable();
        Self(offsets)
    }

    /// Objects that more than one thing owns.
    pub(crate) fn owned_twice(&self) -> impl Iterator<Item = u64> + '_ {
        let repeated = self.0.windows(2).filter(|pair| pair[0] == pair[1]);
        repeated.map(|pair| pair[0])
    }

    /// Returns true if anything owns the object.
    pub(crate) fn contains(&self, offset: u64) -> bool {
        self.0.binary_search(&offset).is_ok()
    }

    /// Returns the number of objects.
    pub(crate) fn count(&self) -> u64 {
        (self.0.len() - self.owned_twice().count()) as u64
    }
}
