//! The options of `perdura bench slotted`.

use clap::{Args, ValueEnum};
use command::units::{parse_number, parse_positive, parse_u32};
use workloads::slotted::{self as workload, SchemeKind};

use super::{List, MeasureArgs, list, not_empty};

/// `perdura bench slotted`.
#[derive(Debug, Args)]
pub(crate) struct SlottedArgs {
    /// Schemes, by comma: fast, fash, nvwal (`p3`), journal, wal; with one fence fash1, fast1; with
    /// commits by one word, word; `all` of these; line, where the processor stores lines whole.
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = schemes)]
    pub(crate) engine: List<SchemeKind>,
    /// Operations, by comma: insert, update, delete, mixed (reads and inserts); `all`.
    #[arg(long, value_name = "LIST", default_value = "insert", value_parser = mixes)]
    pub(crate) mix: List<MixName>,
    /// Percent of the transactions that read, with mixed.
    #[arg(long, value_name = "PERCENT", default_value_t = 50,
          value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) reads: u8,
    /// Bytes of a record, by comma.
    #[arg(long, value_name = "BYTES", default_value = "64", value_delimiter = ',',
          value_parser = parse_u32)]
    pub(crate) record: Vec<u32>,
    /// Operations of a transaction, by comma.
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',',
          value_parser = parse_u32)]
    pub(crate) per_txn: Vec<u32>,
    /// Order of new keys, which have 40 bits.
    #[arg(long, value_enum, default_value_t = KeyOrder::Random)]
    pub(crate) keys: KeyOrder,
    /// Records that are there before.
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse_number)]
    pub(crate) tuples: u64,
    /// Transactions of a run.
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse_positive)]
    pub(crate) txns: u64,
    /// Bytes of a page: a power of two from 512 to 32 KiB. P3's figures have 1024.
    #[arg(long, value_name = "BYTES", default_value = "1024", value_parser = parse_u32)]
    pub(crate) page: u32,
    /// Scheme that the others are divided by [default: nvwal if it runs, else the first].
    #[arg(long, value_name = "SCHEME")]
    pub(crate) baseline: Option<SchemeKind>,
    /// Take the time of search, page update and commit, and of their parts, in a run of its own.
    #[arg(long)]
    pub(crate) steps: bool,
    /// The rest.
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
}

/// The operations of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MixName {
    /// New records.
    Insert,
    /// New values.
    Update,
    /// Records go.
    Delete,
    /// Reads, and inserts among them.
    Mixed,
}

impl MixName {
    const ALL: [Self; 4] = [Self::Insert, Self::Update, Self::Delete, Self::Mixed];

    /// The name on the command line and in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Mixed => "mixed",
        }
    }

    /// The mixture with so many percent of reads.
    pub(crate) const fn mix(self, reads: u8) -> workload::Mix {
        match self {
            Self::Insert => workload::Mix::Insert,
            Self::Update => workload::Mix::Update,
            Self::Delete => workload::Mix::Delete,
            Self::Mixed => workload::Mix::Reads(reads),
        }
    }
}

impl std::str::FromStr for MixName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mix| mix.name() == text);
        found.ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is no mixture; choose one of {all}, or all")
        })
    }
}

/// The order of new keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyOrder {
    /// Uniform.
    Random,
    /// Each larger than all before.
    Ascending,
}

impl From<KeyOrder> for workload::Keys {
    fn from(order: KeyOrder) -> Self {
        match order {
            KeyOrder::Random => Self::Random,
            KeyOrder::Ascending => Self::Ascending,
        }
    }
}

fn schemes(text: &str) -> Result<List<SchemeKind>, String> {
    let words = text.split(',').map(|word| match word.trim() {
        "p3" => "fast,fash,nvwal",
        word => word,
    });
    let words: Vec<&str> = words.collect();
    list(&words.join(","), Some(&SchemeKind::ALL)).and_then(not_empty)
}

fn mixes(text: &str) -> Result<List<MixName>, String> {
    list(text, Some(&MixName::ALL)).and_then(not_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_schemes_have_names() {
        let named = |text| schemes(text).map(|list| list.0.len());
        assert_eq!((named("p3"), named("all"), named("all,line,p3")), (Ok(3), Ok(8), Ok(9)));
        assert!(named("none").is_err() && named("fast,slow").is_err());
    }
}
