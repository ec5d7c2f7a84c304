//! The stamp of a database in the checksums of its files' headers: a file of another database does
//! not pass.

/// A checksum of the database with this stamp ([`pm::Files::stamp`]); without one, the checksum as
/// it is.
pub(crate) fn stamped(checksum: u32, stamp: u32) -> u32 {
    if stamp == 0 { checksum } else { crc32c::crc32c_append(checksum, &stamp.to_le_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::stamped;

    #[test]
    fn another_stamp_is_another_checksum() {
        assert_eq!(stamped(5, 0), 5);
        assert_ne!(stamped(5, 1), 5);
        assert_ne!(stamped(5, 1), stamped(5, 2));
    }
}
