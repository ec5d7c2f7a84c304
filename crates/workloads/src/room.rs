//! The room for what is going to be measured.

/// The room that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Free bytes of the medium.
    pub medium_bytes: u64,
    /// Memory that the kernel can give.
    pub memory_bytes: u64,
    /// True if what is stored on the medium takes memory.
    pub medium_is_memory: bool,
}
