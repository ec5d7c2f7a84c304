//! The pool header: what a pool is, where it was written, and whether it was closed.
//!
//! Invariants:
//! - There are two copies, at offsets 0 and 4096. A change is written to the copy that does not
//!   count, made durable, then to the other: at every moment at least one copy is whole, also in a
//!   change that follows a crash in the middle of one.
//! - Of two whole copies the one with the higher sequence number counts.
//! - The checksum covers everything before it.
//!
//! `docs/format/pool.md` draws it.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::domain::Domain;
use crate::epoch::Epoch;
use crate::error::Bad;
use crate::memory::Memory;
use crate::offset::{LINE_BYTES, Off, Range};

/// The version of the pool format that this build writes and reads.
pub const FORMAT_VERSION: u32 = 4;
/// Bytes of a header copy.
pub const HEADER_BYTES: usize = 128;
/// The places where the two copies start.
pub(crate) const COPIES: [u64; 2] = [0, 4096];
/// The place where the contents start: what is before belongs to the header.
pub const POOL_DATA_START: u64 = 8192;

const MAGIC: u64 = u64::from_le_bytes(*b"PERDURA\0");
const BYTE_ORDER: u32 = 0x0102_0304;
const KNOWN_FEATURES: u64 = 0;

/// A copy as it stands in the pool. All integers little-endian.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Debug)]
#[repr(C)]
struct Layout {
    magic: u64,
    byte_order: u32,
    version: u32,
    pointer_bytes: u32,
    line_bytes: u32,
    features: u64,
    uuid: [u8; 16],
    boot_id: [u8; 16],
    sequence: u64,
    size: u64,
    limit: u64,
    domain: u8,
    modelled: u8,
    clean: u8,
    padding: [u8; 5],
    epoch: Epoch,
    reserved: [u8; 8],
    checksum: u64,
}

const _: () = assert!(size_of::<Layout>() == HEADER_BYTES);
const _: () = assert!(std::mem::offset_of!(Layout, checksum) == HEADER_BYTES - 8);
const _: () = assert!(std::mem::offset_of!(Layout, sequence) == 64);
const _: () = assert!(std::mem::offset_of!(Layout, epoch) == 96);

/// The contents of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Identifies the pool for ever.
    pub uuid: [u8; 16],
    /// The boot of the machine in which the pool was last opened.
    pub boot_id: [u8; 16],
    /// Counts the changes of the header.
    pub sequence: u64,
    /// Bytes of the pool.
    pub size: u64,
    /// Bytes up to which the pool may grow.
    pub limit: u64,
    /// The domain: what a commit promises.
    pub domain: Domain,
    /// True if the domain is modelled: stronger than the medium's.
    pub modelled: bool,
    /// True if the pool was closed and nothing was written since.
    pub clean: bool,
    /// The epoch of the opening of a database with files.
    pub epoch: Epoch,
}

/// Says why a copy of the header cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderDamage {
    /// The copy does not start with the magic number.
    Magic,
    /// Written with another byte order, pointer width or line size.
    OtherMachine(&'static str),
    /// Another format version.
    Version(u32),
    /// The checksum is wrong.
    Checksum,
    /// Unknown feature bits.
    Features(u64),
    /// A field has an impossible value although the checksum is right.
    Field(&'static str),
    /// The medium does not give it back.
    Unreadable,
}

impl HeaderDamage {
    /// The damage in a few words.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Magic => "wrong magic number",
            Self::OtherMachine(what) | Self::Field(what) => what,
            Self::Version(_) => "other format version",
            Self::Checksum => "wrong checksum",
            Self::Features(_) => "unknown features",
            Self::Unreadable => "the medium cannot be read there",
        }
    }
}

impl Header {
    fn encode(&self) -> Layout {
        let mut layout = Layout {
            magic: MAGIC,
            byte_order: BYTE_ORDER,
            version: FORMAT_VERSION,
            pointer_bytes: size_of::<usize>() as u32,
            line_bytes: LINE_BYTES as u32,
            features: 0,
            uuid: self.uuid,
            boot_id: self.boot_id,
            sequence: self.sequence,
            size: self.size,
            limit: self.limit,
            domain: self.domain as u8,
            modelled: u8::from(self.modelled),
            clean: u8::from(self.clean),
            padding: [0; 5],
            epoch: self.epoch,
            reserved: [0; 8],
            checksum: 0,
        };
        layout.checksum = checksum(&layout);
        layout
    }

    fn decode(layout: &Layout) -> Result<Self, HeaderDamage> {
        if layout.magic != MAGIC {
            return Err(if layout.magic == MAGIC.swap_bytes() {
                HeaderDamage::OtherMachine("another byte order")
            } else {
                HeaderDamage::Magic
            });
        }
        if layout.byte_order != BYTE_ORDER {
            return Err(HeaderDamage::OtherMachine("another byte order"));
        }
        if layout.version != FORMAT_VERSION {
            return Err(HeaderDamage::Version(layout.version));
        }
        if layout.pointer_bytes != size_of::<usize>() as u32 {
            return Err(HeaderDamage::OtherMachine("another pointer width"));
        }
        if layout.line_bytes != LINE_BYTES as u32 {
            return Err(HeaderDamage::OtherMachine("another cache line size"));
        }
        if layout.checksum != checksum(layout) {
            return Err(HeaderDamage::Checksum);
        }
        let unknown = layout.features & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(HeaderDamage::Features(unknown));
        }
        if layout.size < POOL_DATA_START || layout.size > layout.limit {
            return Err(HeaderDamage::Field("impossible size"));
        }
        Ok(Self {
            uuid: layout.uuid,
            boot_id: layout.boot_id,
            sequence: layout.sequence,
            size: layout.size,
            limit: layout.limit,
            domain: Domain::from_byte(layout.domain)
                .ok_or(HeaderDamage::Field("impossible durability domain"))?,
            modelled: layout.modelled != 0,
            clean: layout.clean != 0,
            epoch: layout.epoch,
        })
    }

    /// The header of the pool whose bytes are given.
    ///
    /// # Errors
    /// Neither copy can be used; what is wrong with the better one.
    pub fn of_image(image: &[u8]) -> Result<Self, HeaderDamage> {
        let copies = COPIES.map(|start| image.get(start as usize..).unwrap_or_default());
        Self::choose(copies).map(|(header, _)| header)
    }

    /// Chooses between the two copies, whose bytes are given. Also says what is wrong with the
    /// other one, if it is damaged.
    ///
    /// # Errors
    /// Neither copy can be used; what is wrong with the better one.
    pub(crate) fn choose(copies: [&[u8]; 2]) -> Result<(Self, Option<HeaderDamage>), HeaderDamage> {
        let [first, second] = copies.map(decode);
        match (first, second) {
            (Ok(first), Ok(second)) => {
                Ok((if second.sequence > first.sequence { second } else { first }, None))
            }
            (Ok(whole), Err(damage)) | (Err(damage), Ok(whole)) => Ok((whole, Some(damage))),
            (Err(first), Err(second)) => {
                Err(if first == HeaderDamage::Magic { second } else { first })
            }
        }
    }

    /// Writes both copies, one after the other, each durable before the next; the one that counted
    /// before comes last.
    pub fn write<M: Memory>(&self, memory: &M) {
        let layout = self.encode();
        let counts = counting(memory);
        for copy in [1 - counts, counts] {
            memory.copy(Off::new(COPIES[copy]), layout.as_bytes());
            memory.flush(copy_range(copy));
            memory.fence();
        }
    }

    /// [`Self::write`] into a memory that another process may have left when it was killed: the
    /// copy that counts need not be durable, and the other one may be torn.
    pub fn write_first<M: Memory>(&self, memory: &M) {
        memory.flush(copy_range(counting(memory)));
        memory.fence();
        self.write(memory);
    }
}

fn copy_range(copy: usize) -> Range {
    Range::new(COPIES[copy], HEADER_BYTES as u64)
}

/// The copy of a memory's header that counts; the first one if neither does.
fn counting<M: Memory>(memory: &M) -> usize {
    let sequence = |start: u64| {
        let mut bytes = [0; HEADER_BYTES];
        memory.read_into(Off::new(start), &mut bytes).ok()?;
        let layout = Layout::read_from_bytes(&bytes).ok()?;
        Header::decode(&layout).ok().map(|header| header.sequence)
    };
    usize::from(sequence(COPIES[1]) > sequence(COPIES[0]))
}

fn read_copies<M: Memory>(memory: &M) -> Result<[[u8; HEADER_BYTES]; 2], Bad> {
    let mut copies = [[0u8; HEADER_BYTES]; 2];
    for (copy, start) in copies.iter_mut().zip(COPIES) {
        memory.read_into(Off::new(start), copy)?;
    }
    Ok(copies)
}

fn decode(bytes: &[u8]) -> Result<Header, HeaderDamage> {
    let (layout, _) = Layout::read_from_prefix(bytes).map_err(|_| HeaderDamage::Magic)?;
    Header::decode(&layout)
}

/// The header of a memory that holds a pool, and the damage of its other copy if there is any.
///
/// # Errors
/// The memory is too short, or neither copy can be used.
pub fn read_header<M: Memory>(memory: &M) -> Result<(Header, Option<HeaderDamage>), Bad> {
    let copies = read_copies(memory)?;
    Header::choose([&copies[0], &copies[1]])
        .map_err(|_| Bad::Damaged { what: "pool header", at: 0 })
}

fn checksum(layout: &Layout) -> u64 {
    let bytes = &layout.as_bytes()[..HEADER_BYTES - 8];
    // Two CRCs over different starts: 64 bits, so that no single damaged word goes unseen.
    u64::from(crc32c::crc32c(bytes)) << 32 | u64::from(crc32c::crc32c_append(!0, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(sequence: u64) -> Header {
        Header {
            uuid: [7; 16],
            boot_id: [9; 16],
            sequence,
            size: 1 << 20,
            limit: 1 << 30,
            domain: Domain::Adr,
            modelled: true,
            clean: false,
            epoch: Epoch { number: sequence, token: 7 },
        }
    }

    #[test]
    fn a_flipped_bit_is_seen_and_the_other_copy_used() {
        let good = header(5).encode();
        for bit in (0..HEADER_BYTES * 8).step_by(if cfg!(miri) { 37 } else { 1 }) {
            let mut bad = good;
            bad.as_mut_bytes()[bit / 8] ^= 1 << (bit % 8);
            for copies in [[bad, good], [good, bad]] {
                let (read, damage) =
                    Header::choose([copies[0].as_bytes(), copies[1].as_bytes()]).unwrap();
                assert_eq!(read, header(5), "bit {bit}");
                assert!(damage.is_some(), "bit {bit} went unseen");
            }
            assert!(Header::choose([bad.as_bytes(), bad.as_bytes()]).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_torn_copy_never_wins() {
        let (old, new) = (header(5).encode(), header(6).encode());
        for words in 0..HEADER_BYTES / 8 {
            let mut torn = old;
            torn.as_mut_bytes()[..words * 8].copy_from_slice(&new.as_bytes()[..words * 8]);
            let (read, _) = Header::choose([torn.as_bytes(), old.as_bytes()]).unwrap();
            assert_eq!(read, header(5), "{words} words");
        }
        let (read, damage) = Header::choose([new.as_bytes(), old.as_bytes()]).unwrap();
        assert_eq!((read, damage), (header(6), None));
    }

    #[test]
    fn the_newer_of_two_whole_copies_counts_wherever_it_is() {
        let (old, new) = (header(5).encode(), header(6).encode());
        for copies in [[old, new], [new, old]] {
            let (read, damage) =
                Header::choose([copies[0].as_bytes(), copies[1].as_bytes()]).unwrap();
            assert_eq!((read, damage), (header(6), None));
        }
    }

    #[test]
    fn numbers_of_the_layout() {
        assert_eq!(HEADER_BYTES, 128);
        assert_eq!(POOL_DATA_START, 8192);
        assert_eq!(COPIES, [0, 4096]);
    }
}
