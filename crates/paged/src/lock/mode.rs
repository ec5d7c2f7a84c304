//! The modes of locks.
//!
//! A lock of a table or of a key has one of six modes (Gray and Reuter, chapter 7): intentions to
//! lock rows (IS, IX), shared (S), shared with the intention to write rows (SIX), update (U: reads
//! now and may write later), exclusive (X). U is granted while others hold S, but S is not granted
//! while another holds U, so that an upgrade comes to an end.
//!
//! A lock of a row also has a mode for the gap before its key: a transaction that has read that
//! there is nothing in the gap shares it, one that inserts into it has the intention to insert.
//! Each of the two is compatible with itself and not with the other.

/// The mode of a lock of a table, or of a row's key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Mode {
    /// Only the gap is locked.
    #[default]
    None = 0,
    /// Rows will be read.
    IntentShared = 1,
    /// Rows will be written.
    IntentExclusive = 2,
    /// It is read.
    Shared = 3,
    /// It is read, and rows will be written.
    SharedIntentExclusive = 4,
    /// It is read, and may be written.
    Update = 5,
    /// It is written.
    Exclusive = 6,
}

/// A row for each mode that is held: whether each mode is granted together with it.
const COMPATIBLE: [[bool; 7]; 7] = {
    const Y: bool = true;
    const N: bool = false;
    [
        // None, IS, IX, S, SIX, U, X are asked for
        [Y, Y, Y, Y, Y, Y, Y],
        [Y, Y, Y, Y, Y, Y, N], // IS is held
        [Y, Y, Y, N, N, N, N], // IX
        [Y, Y, N, Y, N, Y, N], // S
        [Y, Y, N, N, N, N, N], // SIX
        [Y, N, N, N, N, N, N], // U
        [Y, N, N, N, N, N, N], // X
    ]
};

const MODES: [Mode; 7] = [
    Mode::None,
    Mode::IntentShared,
    Mode::IntentExclusive,
    Mode::Shared,
    Mode::SharedIntentExclusive,
    Mode::Update,
    Mode::Exclusive,
];

/// The index of the least mode that has all that two modes have.
const SUPREMUM: [[u8; 7]; 7] = [
    [0, 1, 2, 3, 4, 5, 6],
    [1, 1, 2, 3, 4, 5, 6], // IS
    [2, 2, 2, 4, 4, 6, 6], // IX
    [3, 3, 4, 3, 4, 5, 6], // S
    [4, 4, 4, 4, 4, 6, 6], // SIX
    [5, 5, 6, 5, 6, 5, 6], // U
    [6, 6, 6, 6, 6, 6, 6], // X
];

impl Mode {
    /// Every mode, from the weakest on.
    pub const ALL: [Self; 7] = MODES;

    /// Returns whether this mode is granted while another transaction holds `held`.
    pub fn goes_beside(self, held: Self) -> bool {
        COMPATIBLE[held as usize][self as usize]
    }

    /// Returns whether a transaction that holds a table in this mode reads its rows without locks
    /// of their own.
    pub fn reads_all(self) -> bool {
        !matches!(self, Self::None | Self::IntentShared | Self::IntentExclusive)
    }

    /// The least mode that has all that both have.
    pub fn supremum(self, other: Self) -> Self {
        MODES[SUPREMUM[self as usize][other as usize] as usize]
    }
}

/// The mode of a lock of the gap before a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Gap {
    /// The gap is not locked.
    #[default]
    None,
    /// No transaction inserts into it.
    Shared,
    /// Something is inserted into it.
    Insert,
    /// One transaction inserts into it, and no other does.
    Both,
}

impl Gap {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::None, Self::Shared, Self::Insert, Self::Both];

    /// Returns whether this mode is granted while another transaction holds `held`.
    pub fn goes_beside(self, held: Self) -> bool {
        matches!(
            (self, held),
            (Self::None, _)
                | (_, Self::None)
                | (Self::Shared, Self::Shared)
                | (Self::Insert, Self::Insert)
        )
    }

    /// The least mode that has all that both have.
    pub fn supremum(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, mode) | (mode, Self::None) => mode,
            (Self::Shared, Self::Shared) => Self::Shared,
            (Self::Insert, Self::Insert) => Self::Insert,
            _ => Self::Both,
        }
    }
}

/// The mode of a lock: of a table, or of a row's key and the gap before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LockMode {
    /// The mode of the table or the key.
    pub mode: Mode,
    /// The mode of the gap.
    pub gap: Gap,
}

impl From<Mode> for LockMode {
    fn from(mode: Mode) -> Self {
        Self { mode, gap: Gap::None }
    }
}

impl From<Gap> for LockMode {
    fn from(gap: Gap) -> Self {
        Self { mode: Mode::None, gap }
    }
}

impl LockMode {
    /// A mode of the key and of the gap before it.
    pub const fn row(mode: Mode, gap: Gap) -> Self {
        Self { mode, gap }
    }

    /// Returns whether this mode is granted while another transaction holds `held`.
    pub fn goes_beside(self, held: Self) -> bool {
        self.mode.goes_beside(held.mode) && self.gap.goes_beside(held.gap)
    }

    /// The least mode that has all that both have.
    pub fn supremum(self, other: Self) -> Self {
        Self { mode: self.mode.supremum(other.mode), gap: self.gap.supremum(other.gap) }
    }

    /// Returns whether its holder may have written what the name stands for.
    pub(super) fn writes(self) -> bool {
        matches!(self.mode, Mode::Exclusive | Mode::SharedIntentExclusive)
            || matches!(self.gap, Gap::Insert | Gap::Both)
    }

    /// Returns whether its holder may have written rows of the table.
    pub(super) fn writes_rows(self) -> bool {
        self.mode == Mode::IntentExclusive
    }

    /// Returns whether its holder reads all rows of the table, without locks of their own.
    pub(super) fn reads_rows(self) -> bool {
        self.mode.reads_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compatibility_is_that_of_the_table() {
        // The mode asked for, then the held modes with which it is granted.
        let granted = [
            (Mode::IntentShared, "IS IX S SIX"),
            (Mode::IntentExclusive, "IS IX"),
            (Mode::Shared, "IS S"),
            (Mode::SharedIntentExclusive, "IS"),
            (Mode::Update, "IS S"),
            (Mode::Exclusive, ""),
        ];
        let names = ["", "IS", "IX", "S", "SIX", "U", "X"];
        for (asked, beside) in granted {
            for held in Mode::ALL.into_iter().skip(1) {
                let expected = beside.split(' ').any(|name| name == names[held as usize]);
                assert_eq!(asked.goes_beside(held), expected, "{asked:?} beside {held:?}");
            }
            assert!(asked.goes_beside(Mode::None) && Mode::None.goes_beside(asked));
        }
    }

    fn all() -> impl Iterator<Item = LockMode> {
        let rows = |mode| Gap::ALL.into_iter().map(move |gap| LockMode::row(mode, gap));
        Mode::ALL.into_iter().flat_map(rows)
    }

    #[test]
    fn a_supremum_is_refused_whatever_one_of_the_two_is_refused() {
        for a in all() {
            assert_eq!(a.supremum(a), a);
            for b in all() {
                let both = a.supremum(b);
                assert_eq!(both, b.supremum(a));
                assert_eq!(both.supremum(a), both);
                for other in all() {
                    let apart = a.goes_beside(other) && b.goes_beside(other);
                    assert!(apart || !both.goes_beside(other), "{a:?} {b:?} beside {other:?}");
                    let apart = other.goes_beside(a) && other.goes_beside(b);
                    assert!(apart || !other.goes_beside(both), "{other:?} beside {a:?} {b:?}");
                    assert_eq!(both.supremum(other), a.supremum(b.supremum(other)));
                    // The least: what has all of both has all of their supremum.
                    if other.supremum(a) == other && other.supremum(b) == other {
                        assert_eq!(other.supremum(both), other);
                    }
                }
            }
        }
    }
}
