//! Demands on what a database holds.

/// A demand on what a database holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name in reports.
    pub name: &'static str,
    /// The demand, in words.
    pub what: &'static str,
    /// The contradiction that was found; `None` if it holds.
    pub violation: Option<String>,
}

impl Check {
    /// Returns true if it holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violation.is_none()
    }
}
