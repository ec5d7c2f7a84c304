//! Types of the layers below that an application sees, each with an example of its use.
//!
//! Their meaning is documented where they are defined; rustdoc puts both together. `.ci/arrows`
//! fails if a public type has no example.

pub(crate) mod data;
pub(crate) mod engine;
pub(crate) mod engine_options;
pub(crate) mod engine_stats;
pub(crate) mod pool;
