//! The forms of a workload.

use std::fmt;
use std::str::FromStr;

use pm::Escaped;
use serde::{Deserialize, Serialize};

/// A workload as its specification has it, or as P2's testbed ran it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Form {
    /// As specified.
    #[default]
    Specification,
    /// As Shore-Kits ran it for P2: TPC-B with accounts of the teller's branch alone, TATP with
    /// subscribers of equal probability.
    ShoreKits,
}

impl Form {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Specification, Self::ShoreKits];

    /// The name in commands and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Specification => "specification",
            Self::ShoreKits => "shore-kits",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no form has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no form `{word}`; there are specification, shore-kits", word = Escaped(.0))]
pub struct ParseFormError(String);

impl FromStr for Form {
    type Err = ParseFormError;

    fn from_str(text: &str) -> Result<Self, ParseFormError> {
        let form = Self::ALL.into_iter().find(|form| form.name() == text);
        form.ok_or_else(|| ParseFormError(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::Form;

    #[test]
    fn forms_are_read_as_they_are_printed() {
        for form in Form::ALL {
            assert_eq!(form.to_string().parse(), Ok(form));
        }
        let error = "shore".parse::<Form>().unwrap_err().to_string();
        assert!(error.contains("shore-kits"), "{error}");
    }
}
