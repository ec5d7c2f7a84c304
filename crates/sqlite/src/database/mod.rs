//! A database file as one connection has it: who may do what when, and the store that does it.

mod alone;
mod beside_stock;
mod contract;
mod debt;
mod door;
mod levels;
mod mapped;
mod ours;
mod parameters;
mod stub;

pub use alone::Alone;
pub use contract::{Failure, How, Level, MainFile, Names, Opened, Opener};
pub use mapped::{Mapped, MappedOpener, SIDE_SUFFIX};
pub use stub::name_at_end;
