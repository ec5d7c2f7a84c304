//! The committed database, as one connection last saw it: its size, its marker, and the pages that SQLite reads in
//! place.

/// The committed database.
#[derive(Debug)]
pub(super) struct Committed {
    /// Its length in bytes.
    size: u64,
    /// Page 1 has the marker that keeps stock SQLite out.
    marked: bool,
    /// This connection has made the marker durable. Otherwise its next commit flushes the marker: the connection that set
    /// it may have died before its fence.
    marker_is_durable: bool,
    /// The word that is raised before the marker is cleared, as this connection last read it; `None` if it has to read
    /// everything anew.
    cleared: Option<u64>,
    /// The commit that was the last one applied when this connection knew the length of the database's file.
    length_known_at: Option<u64>,
    /// Pages that SQLite reads in place ([`crate::store::fetch`]).
    fetched: u64,
}

impl Committed {
    /// A database of so many bytes without the marker.
    pub(super) fn new(size: u64) -> Self {
        Self {
            size,
            marked: false,
            marker_is_durable: false,
            cleared: Some(0),
            length_known_at: None,
            fetched: 0,
        }
    }

    /// Its length in bytes.
    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Notes another length.
    #[inline]
    pub(super) fn set_size(&mut self, size: u64) {
        self.size = size;
    }

    /// Returns whether the marker is set.
    #[inline]
    pub(super) fn is_marked(&self) -> bool {
        self.marked
    }

    /// Notes whether the marker was found.
    pub(super) fn set_marked(&mut self, marked: bool) {
        self.marked = marked;
    }

    /// Returns whether this connection has made the marker durable.
    #[inline]
    pub(super) fn marker_is_durable(&self) -> bool {
        self.marker_is_durable
    }

    /// Notes that a fence has made the marker durable.
    #[inline]
    pub(super) fn note_durable_marker(&mut self) {
        self.marker_is_durable = true;
    }

    /// Notes that this connection has set the marker durably.
    pub(super) fn note_marked(&mut self) {
        (self.marked, self.marker_is_durable) = (true, true);
    }

    /// Notes that this connection has cleared the marker.
    pub(super) fn note_plain(&mut self) {
        (self.marked, self.marker_is_durable) = (false, false);
    }

    /// The word that is raised before the marker is cleared, if the last refresh counts.
    #[inline]
    pub(super) fn cleared(&self) -> Option<u64> {
        self.cleared
    }

    /// Notes that the last refresh does not count: the next one reads all again.
    pub(super) fn distrust(&mut self) {
        self.cleared = None;
    }

    /// Forgets the marker and the file's length: the marker was cleared since, and anything may have changed.
    pub(super) fn forget(&mut self, cleared: u64) {
        (self.cleared, self.marked, self.marker_is_durable) = (Some(cleared), false, false);
        self.length_known_at = None;
    }

    /// Notes that this connection has announced a cut: the file's length is not known any more.
    pub(super) fn note_cut(&mut self, cleared: u64) {
        (self.cleared, self.length_known_at) = (Some(cleared), None);
    }

    /// Notes a commit of this connection, which knows the file's length.
    #[inline]
    pub(super) fn note_applied(&mut self, size: u64, number: u64) {
        (self.size, self.length_known_at) = (size, Some(number));
    }

    /// Notes a recovery by this connection up to a commit.
    pub(super) fn note_recovered(&mut self, size: u64, number: u64) {
        self.note_applied(size, number);
        self.note_marked();
    }

    /// Returns whether the file's length was known when this commit was the last one applied.
    #[inline]
    pub(super) fn knows_length_at(&self, number: u64) -> bool {
        self.length_known_at == Some(number)
    }

    /// Notes that the file's length is known while this commit is the last one applied.
    pub(super) fn note_length_at(&mut self, number: u64) {
        self.length_known_at = Some(number);
    }

    /// Forgets the file's length.
    pub(super) fn forget_length(&mut self) {
        self.length_known_at = None;
    }

    /// Counts a page that SQLite reads in place.
    pub(super) fn note_fetched(&mut self) {
        self.fetched += 1;
    }

    /// Notes that SQLite has released such a page.
    pub(super) fn note_released(&mut self) {
        self.fetched = self.fetched.checked_sub(1).expect("it was fetched");
    }

    /// Returns whether SQLite reads a page in place.
    pub(super) fn is_fetched(&self) -> bool {
        self.fetched > 0
    }
}
