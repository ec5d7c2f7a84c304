//! Running a transaction again after a conflict.
//!
//! 1. The first conflict fixes a deadline.
//! 2. A rerun waits before it begins, at random and longer each time, so that the transactions in
//!    conflict do not meet again; and it keeps its first age, so that the oldest wins in the end.
//! 3. After the deadline the conflict is returned, with the number of tries.

use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::{Duration, Instant};

use engines::ConflictReason;

use crate::error::Error;

/// The reason why a try of a transaction has come to nothing. The transaction itself says that it
/// was in a conflict: the error that its work returned may hide it.
#[derive(Debug)]
pub(crate) enum Undone<X> {
    Conflict(ConflictReason),
    Otherwise(X),
}

impl<X: From<Error>> From<Error> for Undone<X> {
    fn from(error: Error) -> Self {
        match error {
            Error::Conflict { reason, .. } => Self::Conflict(reason),
            other => Self::Otherwise(other.into()),
        }
    }
}

/// The wait before the first rerun is shorter than this, before each further one than twice as
/// much.
const FIRST_WAIT: Duration = Duration::from_micros(50);
/// The number of times that the pause is doubled.
const MOST_DOUBLED: u32 = 8;

/// The tries of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    done: u32,
    deadline: Option<Instant>,
    /// Its age in a partition that has sessions, once it has begun.
    pub(crate) age: Option<u64>,
}

impl Tries {
    /// The rest of the time in which it is run again; `None` before the first conflict.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Called with the conflict of a try: returns when the next one is to begin.
    ///
    /// # Errors
    /// The conflict, if the time is over.
    #[cold]
    pub(crate) fn again(
        &mut self,
        reason: ConflictReason,
        retry_for: Duration,
    ) -> Result<(), Error> {
        self.done += 1;
        let now = Instant::now();
        // A time that no clock can name never comes.
        let deadline = self.deadline.or_else(|| now.checked_add(retry_for));
        self.deadline = deadline;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::Conflict { reason, tries: self.done });
        }
        let longest = FIRST_WAIT.saturating_mul(1 << (self.done - 1).min(MOST_DOUBLED));
        // Each has keys of its own.
        let random = RandomState::new().hash_one(self.done);
        let wait = longest.mul_f64(random as f64 / u64::MAX as f64);
        thread::sleep(left.map_or(wait, |left| wait.min(left)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFLICT: ConflictReason = ConflictReason::Validation;

    #[test]
    fn only_a_conflict_is_tried_again() {
        let conflict = Error::Conflict { reason: CONFLICT, tries: 1 };
        assert!(matches!(Undone::<Error>::from(conflict), Undone::Conflict(CONFLICT)));
        let other = Undone::<Error>::from(Error::PartitionNeeded { partitions: 2 });
        assert!(matches!(other, Undone::Otherwise(Error::PartitionNeeded { partitions: 2 })));
    }

    #[test]
    fn after_the_deadline_the_conflict_has_the_number_of_tries() {
        let mut tries = Tries::default();
        assert_eq!(tries.left(), None, "a first run has all the time");
        assert!(tries.again(CONFLICT, Duration::MAX).is_ok());
        assert!(tries.again(CONFLICT, Duration::MAX).is_ok());
        tries.deadline = Some(Instant::now());
        assert_eq!(tries.left(), Some(Duration::ZERO));
        match tries.again(CONFLICT, Duration::MAX) {
            Err(Error::Conflict { reason, tries }) => {
                assert_eq!((reason, tries), (ConflictReason::Validation, 3));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_time_there_is_one_try() {
        let first = Tries::default().again(CONFLICT, Duration::ZERO);
        assert!(matches!(first, Err(Error::Conflict { tries: 1, .. })));
    }
}
