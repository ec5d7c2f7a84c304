//! Random identifiers.

/// A new universally unique identifier, version 4: from the kernel's random numbers.
pub fn random_uuid() -> [u8; 16] {
    let mut bytes = [0u8; 16];
    // SAFETY: fills our buffer; 16 bytes are always delivered at once.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}
