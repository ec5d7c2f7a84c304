//! Points that a run has not measured, though it began.

use super::Claim;
use crate::setting::Setting;

/// Cells of a study that are missing while others are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The setting in which they are missing.
    pub setting: Setting,
    /// The experiments that the study is for.
    pub experiments: Vec<&'static str>,
    /// The number that there should be.
    pub all: usize,
    /// Each that is missing: what it is, and of which engine or store.
    pub cells: Vec<(String, Option<String>)>,
}

impl Missing {
    /// Returns the reason why a claim cannot be tested without what is missing; `None` if it can.
    pub(super) fn keeps_from(&self, claim: &Claim) -> Option<String> {
        if !claim.is_open() || !self.experiments.contains(&claim.experiment.as_str()) {
            return None;
        }
        let names: Vec<&str> = claim.names().collect();
        let concerns = |of: &Option<String>| match of {
            Some(of) => names.is_empty() || names.contains(&of.as_str()),
            None => true,
        };
        self.cells.iter().any(|(_, of)| concerns(of)).then(|| self.text())
    }

    /// Returns the gaps in words.
    #[must_use]
    pub fn text(&self) -> String {
        let setting = match self.setting {
            Setting::Ours => "",
            Setting::Paper => " (the paper's setting)",
        };
        format!(
            "{}{setting}: {} of {} measurements are missing, such as `{}`",
            self.experiments.join(", "),
            self.cells.len(),
            self.all,
            self.cells.first().map_or("", |(label, _)| label)
        )
    }
}
