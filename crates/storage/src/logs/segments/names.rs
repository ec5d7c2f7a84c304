//! The names of numbered files.

use std::io;

use pm::Files;

/// The form of a number in a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Digits {
    /// Sixteen lower-case hexadecimal digits.
    Hexadecimal,
    /// Twelve decimal digits.
    Decimal,
}

/// Names of files: a prefix and a number.
#[derive(Clone, Debug)]
pub struct Names {
    prefix: String,
    digits: Digits,
}

impl Names {
    /// Names that begin with `prefix`.
    pub fn new(prefix: &str, digits: Digits) -> Self {
        Self { prefix: prefix.into(), digits }
    }

    /// The beginning of all of them.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of a number.
    pub fn of(&self, number: u64) -> String {
        let prefix = &self.prefix;
        match self.digits {
            Digits::Hexadecimal => format!("{prefix}{number:016x}"),
            Digits::Decimal => format!("{prefix}{number:012}"),
        }
    }

    /// The number in a name, if it is one of these.
    pub fn number_in(&self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(&self.prefix)?;
        let radix = if self.digits == Digits::Hexadecimal { 16 } else { 10 };
        let number = u64::from_str_radix(digits, radix).ok()?;
        (self.of(number) == name).then_some(number)
    }

    /// The numbers of the files that there are, which rise.
    ///
    /// # Errors
    /// The medium refuses.
    pub fn all<F: Files>(&self, files: &F) -> io::Result<Vec<u64>> {
        let list = files.list()?;
        let mut all: Vec<u64> = list.iter().filter_map(|name| self.number_in(name)).collect();
        all.sort_unstable();
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written_and_in_no_other_form() {
        let (hexadecimal, decimal) = (Digits::Hexadecimal, Digits::Decimal);
        for (digits, name) in [(hexadecimal, "log-00000000000000fe"), (decimal, "log-000000000254")]
        {
            let names = Names::new("log-", digits);
            assert_eq!(names.of(254), name);
            assert_eq!(names.number_in(name), Some(254));
            for other in ["log-fe", "log-254", "log-0000000000000254x", "other-000000000254"] {
                assert_eq!(names.number_in(other), None, "{other}");
            }
        }
        let names = Names::new("log-", hexadecimal);
        for other in ["log-00000000000000FE", "log-+0000000000000fe", "log-000000000000000fe"] {
            assert_eq!(names.number_in(other), None, "{other}");
        }
        let last = names.of(u64::MAX);
        assert_eq!(names.number_in(&last), Some(u64::MAX));
    }
}
