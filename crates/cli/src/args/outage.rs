//! The options of TATP across a kill.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use command::outage::Rebuild;

/// Options of a run that is killed in the middle.
#[derive(Debug, Args)]
pub(crate) struct OutageArgs {
    /// Users, each a thread that is pinned to no core with --kill-at; else the same as --workers.
    #[arg(long, value_name = "N", conflicts_with = "workers",
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) users: Option<u32>,
    /// Second at which the process of the users is killed with SIGKILL; another one goes on. Tenths
    /// count.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) kill_at: Option<Duration>,
    /// Second at which the run ends, from its start [default: twice --kill-at].
    #[arg(long, value_name = "S", value_parser = seconds, requires = "kill_at")]
    pub(crate) until: Option<Duration>,
    /// Share of the indexes of sofort, by their number, that lie in persistent memory, in per cent: they
    /// are there after a kill [default: 0].
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) placement: Option<u32>,
    /// Moment at which sofort builds indexes that the kill took [default: background].
    #[arg(long, value_enum, requires = "kill_at")]
    pub(crate) rebuild: Option<Rebuild>,
    /// Write what was done in each tenth of a second as CSV to a file.
    #[arg(long, value_name = "FILE", requires = "kill_at", value_parser = file)]
    pub(crate) series: Option<PathBuf>,
}

/// The name of a file.
fn file(text: &str) -> Result<PathBuf, String> {
    match text {
        "" | "-" => Err("name a file".into()),
        path => Ok(path.into()),
    }
}

/// Seconds from 0.3 to a day: there have to be samples before a kill.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "write seconds, such as 15 or 0.5".to_owned())?;
    // Not a number is in no range.
    if (0.3..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("0.3 to 86400 are possible".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_in_seconds_and_tenths() {
        assert_eq!(seconds("15"), Ok(Duration::from_secs(15)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "0", "0.2", "-1", "NaN", "inf", "1e9", "1s"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert!(file("-").is_err() && file("").is_err() && file("a.csv").is_ok());
    }
}
