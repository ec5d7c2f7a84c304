//! The options of `perdura lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, value_parser};
use pm::Escaped;

use crate::output::JsonTarget;

/// `perdura lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Say which experiments there are.
    #[command(after_help = "Example:\n  perdura lab list")]
    List(ListArgs),
    /// Do the experiments that are missing. One that was stopped goes on where it was.
    #[command(
        arg_required_else_help = true,
        after_help = "Results are kept by experiment, configuration, commit, machine and seed: what is there already is not done again.\n\nExample:\n  perdura lab run P1 --quick\n  perdura lab run P1-F12 PEERS --full --results lab.db"
    )]
    Run(RunArgs),
    /// Say what has been done, and how long the rest takes.
    #[command(after_help = "Example:\n  perdura lab status")]
    Status(StatusArgs),
    /// Write the report: one HTML file with plots and the verdict on every claim.
    #[command(
        after_help = "The file needs no network: plots, data and scripts are in it.\n\nExample:\n  perdura lab report --out report.html\n  perdura lab report --reference published.csv --json claims.json"
    )]
    Report(ReportArgs),
    /// Compare two commits or two machines, noise taken into account.
    #[command(
        after_help = "A and B are commits or hosts as `perdura lab status` shows them (their beginnings do), or files of results.\n\nExample:\n  perdura lab compare 1a2b3c 4d5e6f --fail-over 5%\n  perdura lab compare old.db new.db"
    )]
    Compare(CompareArgs),
}

/// The file of results.
#[derive(Debug, Args)]
pub struct ResultsArgs {
    /// The file of results.
    #[arg(long, value_name = "FILE", default_value = "perdura-lab.db")]
    pub results: PathBuf,
}

/// The scale.
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// Small sizes: all of P1 in twenty minutes on two cores. This is the default.
    #[arg(long, group = "scale")]
    pub quick: bool,
    /// The paper's sizes as far as memory allows: hours.
    #[arg(long, group = "scale")]
    pub full: bool,
    /// Run one in N transactions of YCSB, TPC-C, the sizes of nodes and the peers, with `--full`;
    /// data, caches and logs keep their sizes. Such results are kept apart, as scale `full/N`.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "full", conflicts_with_all = ["quick", "tiny"], value_parser = value_parser!(u64).range(1..=1000))]
    pub one_in: u64,
    /// Next to nothing, for tests.
    #[arg(long, hide = true, group = "scale")]
    pub tiny: bool,
}

/// `perdura lab list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Write it as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub json: Option<JsonTarget>,
}

/// `perdura lab run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Experiments, as `perdura lab list` names them; P1 and PEERS are all of these; `all`.
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// The scale.
    #[command(flatten)]
    pub scale: ScaleArgs,
    /// The file that results go to.
    #[command(flatten)]
    pub results: ResultsArgs,
    /// Seed of keys and values: the same seed gives the same counts.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Directory to make the pools in [default: /dev/shm, else the directory for temporary files].
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// Write the points of these experiments as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub json: Option<JsonTarget>,
}

/// `perdura lab status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The scale.
    #[command(flatten)]
    pub scale: ScaleArgs,
    /// The file of results.
    #[command(flatten)]
    pub results: ResultsArgs,
    /// Seed.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Directory that the pools would be in.
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// Write it as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub json: Option<JsonTarget>,
}

/// The choice among several runs.
#[derive(Debug, Args)]
pub struct SelectionArgs {
    /// Commit, or its beginning [default: that of the last measurement].
    #[arg(long, value_name = "COMMIT")]
    pub commit: Option<String>,
    /// Machine, or the beginning of its name [default: that of the last measurement].
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Scale: quick, full, or full/N [default: that of the last measurement].
    #[arg(long, value_name = "SCALE")]
    pub scale: Option<String>,
    /// Seed [default: that of the last measurement].
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
}

/// `perdura lab report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The file of results.
    #[command(flatten)]
    pub results: ResultsArgs,
    /// The run.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// The report.
    #[arg(long, value_name = "FILE", default_value = "perdura-lab.html")]
    pub out: PathBuf,
    /// The authors' published points, as CSV: they are drawn and tested beside ours.
    #[arg(long, value_name = "FILE")]
    pub reference: Option<PathBuf>,
    /// Write points and claims as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub json: Option<JsonTarget>,
    /// Write the points as CSV to a file.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the report in a small form, as Markdown with tables instead of plots, to a file.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// `perdura lab compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// One side: a commit, a host, or a file of results.
    #[arg(value_name = "A")]
    pub a: String,
    /// The other side.
    #[arg(value_name = "B")]
    pub b: String,
    /// The file of results, where A and B are not files.
    #[command(flatten)]
    pub results: ResultsArgs,
    /// Scale: quick, full, or full/N [default: that of the last measurement of A].
    #[arg(long, value_name = "SCALE")]
    pub scale: Option<String>,
    /// Seed [default: that of the last measurement of A].
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Exit with 1 if anything is worse by more than this, beyond noise: 5% or 0.05.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub fail_over: Option<f64>,
    /// Write all that was compared as JSON to a file, or to standard output with `-`.
    #[arg(long, value_name = "FILE", value_parser = JsonTarget::parse)]
    pub json: Option<JsonTarget>,
}

fn share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().map(|share| share / scale);
    // `5` would be 500%, which is a slip.
    let most = if scale == 1.0 { 1.0 } else { f64::MAX };
    let share = share.filter(|share| (0.0..=most).contains(share));
    share.ok_or_else(|| format!("`{}` is no share; write 5% or 0.05", Escaped(text)))
}
