//! The options of measurements that make their databases anew for each run.

use std::path::PathBuf;

use clap::Args;
use command::output::JsonTarget;

use super::{DomainChoice, domain};

/// Options of such a measurement.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    /// Domain, which says what a commit survives: auto (the medium's own), process, adr, eadr,
    /// disk. One that is stronger than the medium's is modelled.
    #[arg(long, value_name = "DOMAIN", default_value = "auto", value_parser = domain)]
    pub(crate) domain: DomainChoice,
    /// Directory to make the databases in [default: /dev/shm, else the directory for temporary files].
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// Leave the databases where they are.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Seed of keys and values: the same seed gives the same work.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Do it so often and report the median.
    #[arg(long, value_name = "R", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
    /// Write the results as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub(crate) json: Option<JsonTarget>,
}
