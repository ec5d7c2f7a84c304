//! The counters of a process of users, in a mapped file that outlives the process.
//!
//! Invariants:
//! - Each counter has one thread that stores it.
//! - A transaction is counted when it has returned. Its user stores its kind before it begins, so
//!   that after a kill it is known which changes were perhaps made and not counted.

use std::path::Path;

use peers::AcknowledgedFile;
use workloads::tatp::Kind;
use workloads::{Observer, StoreError};

/// Kinds of transactions.
pub(super) const KINDS: usize = Kind::ALL.len();
/// Response times below two to this power of nanoseconds share one range.
const SHORTEST: u32 = 6;
/// Ranges of response times, each twice as long as the one before.
const OCTAVES: usize = 30;
/// Parts of such a range.
const PARTS: usize = 8;
/// Counters for response times.
const BUCKETS: usize = OCTAVES * PARTS;

/// A counter of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// 1 when each user has had an answer.
    AtWork,
    /// Nanoseconds of the open call.
    Open,
    /// Nanoseconds from the start of the open call to the first transaction that has returned.
    FirstAnswer,
    /// The same to the first one that has changed something.
    FirstCommit,
    /// Keys and values in indexes.
    Built,
    /// Keys and values that are to come into indexes.
    Unbuilt,
}

/// Counters of the process.
const WORDS: usize = Word::Unbuilt as usize + 1;
/// The places of a user's counters: transactions, nanoseconds, the kind under way, successes of each
/// kind, response times.
const DONE: usize = 0;
const NANOSECONDS: usize = 1;
const UNDER_WAY: usize = 2;
const SUCCEEDED: usize = 3;
const RESPONSES: usize = SUCCEEDED + KINDS;
/// Counters of a user.
const OF_USER: usize = RESPONSES + BUCKETS;

/// The file.
pub(super) struct Page {
    file: AcknowledgedFile,
    users: usize,
}

impl Page {
    /// Creates the file; all counters are zero.
    ///
    /// # Errors
    /// It cannot be created or mapped.
    pub(super) fn create(path: &Path, users: usize) -> Result<Self, StoreError> {
        let file = AcknowledgedFile::create(path, WORDS + users * OF_USER)?;
        Ok(Self { file, users })
    }

    /// Opens the file of another process.
    ///
    /// # Errors
    /// It is not there, is too short or cannot be mapped.
    pub(super) fn open(path: &Path, users: usize) -> Result<Self, StoreError> {
        let file = AcknowledgedFile::open(path, WORDS + users * OF_USER)?;
        Ok(Self { file, users })
    }

    /// Stores a counter of the process.
    pub(super) fn set(&self, word: Word, value: u64) {
        self.file.completed(word as usize, value);
    }

    /// A counter of the process.
    pub(super) fn get(&self, word: Word) -> u64 {
        self.file.counts()[word as usize]
    }

    /// All counters as they are.
    pub(super) fn counts(&self) -> Counts {
        let all = self.file.counts();
        let word = |word: Word| all[word as usize];
        let mut counts = Counts {
            at_work: word(Word::AtWork) > 0,
            open_ns: word(Word::Open),
            first_answer_ns: word(Word::FirstAnswer),
            first_commit_ns: word(Word::FirstCommit),
            built: word(Word::Built),
            unbuilt: word(Word::Unbuilt),
            ..Counts::default()
        };
        for of in all[WORDS..].chunks(OF_USER).take(self.users) {
            counts.entered.push(of[DONE]);
            counts.responses.ns += of[NANOSECONDS];
            counts.under_way.push(Kind::ALL.get((of[UNDER_WAY] as usize).wrapping_sub(1)).copied());
            let succeeded = counts.succeeded.iter_mut().zip(&of[SUCCEEDED..RESPONSES]);
            succeeded.for_each(|(sum, one)| *sum += one);
            let buckets = counts.responses.buckets.iter_mut().zip(&of[RESPONSES..]);
            buckets.for_each(|(sum, one)| *sum += one);
        }
        counts
    }
}

/// The counters of a user, who alone stores them.
pub(super) struct UserCounters<'a> {
    page: &'a Page,
    first: usize,
    done: u64,
    ns: u64,
    succeeded: [u64; KINDS],
    buckets: [u64; BUCKETS],
}

impl<'a> UserCounters<'a> {
    /// The counters of a user of whom nothing is counted yet.
    pub(super) fn new(page: &'a Page, user: usize) -> Self {
        let first = WORDS + user * OF_USER;
        Self { page, first, done: 0, ns: 0, succeeded: [0; KINDS], buckets: [0; BUCKETS] }
    }

    fn store(&self, place: usize, value: u64) {
        self.page.file.completed(self.first + place, value);
    }

    /// A transaction is under way.
    pub(super) fn begins(&self, kind: Kind) {
        self.store(UNDER_WAY, kind as u64 + 1);
    }

    /// It has returned.
    pub(super) fn ended(&mut self, kind: Kind, succeeded: bool, ns: u64) {
        if succeeded {
            self.succeeded[kind as usize] += 1;
            self.store(SUCCEEDED + kind as usize, self.succeeded[kind as usize]);
        }
        let bucket = bucket(ns);
        self.buckets[bucket] += 1;
        self.store(RESPONSES + bucket, self.buckets[bucket]);
        self.ns += ns;
        self.store(NANOSECONDS, self.ns);
        self.done += 1;
        self.store(DONE, self.done);
    }
}

/// The counter of a response time.
fn bucket(ns: u64) -> usize {
    let octave = ns.max(1 << SHORTEST).ilog2();
    let part = (ns.max(1 << SHORTEST) >> (octave - PARTS.ilog2())) as usize % PARTS;
    ((octave - SHORTEST) as usize * PARTS + part).min(BUCKETS - 1)
}

/// The longest time of a counter, in nanoseconds.
fn longest(bucket: usize) -> u64 {
    let octave = SHORTEST + (bucket / PARTS) as u32;
    ((PARTS + bucket % PARTS + 1) as u64) << (octave - PARTS.ilog2())
}

/// Response times, an eighth of their length exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Responses {
    /// All of them together.
    pub ns: u64,
    buckets: [u64; BUCKETS],
}

impl Default for Responses {
    fn default() -> Self {
        Self { ns: 0, buckets: [0; BUCKETS] }
    }
}

impl Responses {
    /// Adds or takes away others.
    fn with(&self, other: &Self, of: fn(u64, u64) -> u64) -> Self {
        let mut with = self.clone();
        with.ns = of(self.ns, other.ns);
        for (one, other) in with.buckets.iter_mut().zip(&other.buckets) {
            *one = of(*one, *other);
        }
        with
    }

    /// The number of them.
    pub fn len(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The mean in microseconds; `None` of nothing.
    pub fn mean_us(&self) -> Option<f64> {
        let len = self.len();
        (len > 0).then(|| self.ns as f64 / len as f64 / 1000.0)
    }

    /// The time in microseconds that so large a share does not exceed; `None` of nothing.
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let len = self.len();
        let wanted = ((len as f64 * share).ceil() as u64).clamp(1, len.max(1));
        let mut sum = 0;
        let hit = self.buckets.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        hit.map(|bucket| longest(bucket) as f64 / 1000.0)
    }
}

/// The counters at a moment, or their growth.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Each user has had an answer.
    pub(super) at_work: bool,
    /// Nanoseconds of the open call.
    pub(super) open_ns: u64,
    /// Nanoseconds from its start to the first answer; 0 before there is one.
    pub(super) first_answer_ns: u64,
    /// The same to the first commit of a change.
    pub(super) first_commit_ns: u64,
    /// Keys and values in indexes.
    pub(super) built: u64,
    /// Those that are to come into indexes.
    pub(super) unbuilt: u64,
    /// Transactions of each user that have returned.
    pub(super) entered: Vec<u64>,
    /// The kind of each user's transaction that is under way, or was the last.
    pub(super) under_way: Vec<Option<Kind>>,
    /// Transactions of each kind that have succeeded.
    pub(super) succeeded: [u64; KINDS],
    /// The response times.
    pub(super) responses: Responses,
}

impl Counts {
    /// Transactions that have returned.
    pub(super) fn done(&self) -> u64 {
        self.entered.iter().sum()
    }

    /// Those of them that have succeeded.
    pub(super) fn commits(&self) -> u64 {
        self.succeeded.iter().sum()
    }

    /// The share of indexes that is built, in percent.
    pub(super) fn built_percent(&self) -> Option<f64> {
        let all = self.built + self.unbuilt;
        (all > 0).then(|| self.built as f64 * 100.0 / all as f64)
    }

    /// The users whose last transaction is of a kind.
    pub(super) fn under_way(&self, kind: Kind) -> u64 {
        self.under_way.iter().filter(|one| **one == Some(kind)).count() as u64
    }

    /// The response times since `before`, of the same process.
    pub(super) fn responses_since(&self, before: &Self) -> Responses {
        self.responses.with(&before.responses, u64::saturating_sub)
    }
}

/// The sum of response times.
pub(super) fn sum<'a>(all: impl IntoIterator<Item = &'a Responses>) -> Responses {
    all.into_iter().fold(Responses::default(), |sum, one| sum.with(one, |one, other| one + other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_time_is_known_to_an_eighth() {
        for ns in (0..40_000_u64).chain((0..34).map(|bit| (1 << bit) + 1)) {
            let longest = longest(bucket(ns));
            assert!(longest > ns && longest <= (ns + ns / 8 + 1).max(72), "{ns}: {longest}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn what_a_user_counts_is_in_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("page");
        let page = Page::create(&path, 2).expect("created");
        let mut counters = UserCounters::new(&page, 1);
        let other = Page::open(&path, 2).expect("there");
        assert_eq!(other.counts().under_way, [None, None]);
        counters.begins(Kind::GetAccessData);
        counters.ended(Kind::GetAccessData, false, 1000);
        counters.begins(Kind::UpdateLocation);
        counters.ended(Kind::UpdateLocation, true, 3000);
        page.set(Word::Built, 30);
        page.set(Word::Unbuilt, 10);
        let counts = other.counts();
        assert_eq!((counts.done(), counts.commits(), &counts.entered[..]), (2, 1, &[0, 2][..]));
        assert_eq!(counts.under_way(Kind::UpdateLocation), 1);
        assert_eq!(counts.built_percent(), Some(75.0));
        assert_eq!(counts.responses.mean_us(), Some(2.0));
        let median = counts.responses.quantile_us(0.5).expect("two");
        assert!((1.0..1.2).contains(&median), "{median}");
        counters.ended(Kind::UpdateLocation, true, 5000);
        let since = other.counts().responses_since(&counts);
        assert_eq!((since.len(), since.mean_us()), (1, Some(5.0)));
        assert_eq!(Responses::default().quantile_us(0.5), None);
    }
}
