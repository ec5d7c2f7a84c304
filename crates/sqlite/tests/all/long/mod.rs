//! Tests that `scripts/long` runs in a night, and no build.

mod failing;
mod kills;
mod placing;
mod random;
