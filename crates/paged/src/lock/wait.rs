//! Waiting for a lock, and finding circles of waiting transactions.
//!
//! 1. A session that has waited for [`LockOptions::look_after`](super::LockOptions) walks along the
//!    graph from itself: which sessions it waits for, and which those wait for. It sees one shard
//!    at a time, so what it has seen may be over.
//! 2. A walk that comes back has found a circle. Each of its edges is looked at again: the same
//!    wait, known by its number, for the same transaction. Edges of a circle can only go by a
//!    timeout or with a victim, so what is found twice is one.
//! 3. The youngest in it is the victim: its request leaves the queue. A rerun keeps its age, so it
//!    is not the youngest for ever.
//! 4. An edge may come to a wait later, as when a holder of the lock goes before those that wait:
//!    the walk is repeated, at growing intervals.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::head::{Outcome, Party};
use super::name::Name;
use super::table::LockTable;
use crate::flaw::Flaw;
use crate::threads::Threads;

/// The longest time between two walks of one wait.
const LONGEST_INTERVAL: Duration = Duration::from_millis(10);

/// A session that waits, and the number of the wait.
type Waiting = (Arc<Party>, u64);

impl<T: Threads> LockTable<T> {
    /// Waits for a request that is in the queue of `name`. `None`: it took too long.
    pub(super) fn wait(
        &self,
        party: &Arc<Party>,
        name: Name,
        number: u64,
        timeout: Duration,
    ) -> Option<Outcome> {
        let start = self.threads.now();
        let deadline = start.saturating_add(timeout);
        let mut interval = self.options.look_after;
        let mut look = start + interval;
        loop {
            self.threads.park(&party.waiter, Some(look.min(deadline)));
            if let Some(outcome) = party.wait.lock().outcome.take() {
                return Some(outcome);
            }
            let now = self.threads.now();
            if now >= deadline {
                let bits = name.bits();
                let mut shard = self.shard(bits);
                let head = shard.existing(name);
                if head.is_some_and(|head| head.withdraw(party, number)) {
                    party.wait.lock().name = None;
                    self.serve(&mut shard, name, bits);
                    return None;
                }
                continue;
            }
            if now >= look {
                self.look_for_circle(party, number);
                interval = (interval * 2).min(LONGEST_INTERVAL);
                look = self.threads.now() + interval;
            }
        }
    }

    /// The sessions that `party` waits for, with the number of the wait.
    pub(crate) fn blockers(&self, party: &Arc<Party>) -> Option<(u64, Vec<Arc<Party>>)> {
        let (number, name) = {
            let wait = party.wait.lock();
            (wait.number, wait.name?)
        };
        let mut shard = self.shard(name.bits());
        Some((number, shard.existing(name)?.blockers(party, number)?))
    }

    fn look_for_circle(&self, party: &Arc<Party>, number: u64) {
        let Some(circle) = self.walk(party, number) else { return };
        let still = (0..circle.len()).all(|place| {
            let (from, number) = &circle[place];
            let (to, _) = &circle[(place + 1) % circle.len()];
            self.blockers(from).is_some_and(|(now, blockers)| {
                now == *number && blockers.iter().any(|blocker| Arc::ptr_eq(blocker, to))
            })
        });
        if !still && !self.threads.has(Flaw::EdgeNotRechecked) {
            return;
        }
        let youngest = circle
            .into_iter()
            .max_by_key(|(party, _)| (party.age(), party.id))
            .expect("a circle has members");
        self.doom(&youngest);
    }

    /// A path of waits from `start` back to it.
    fn walk(&self, start: &Arc<Party>, number: u64) -> Option<Vec<Waiting>> {
        let (now, blockers) = self.blockers(start)?;
        if now != number {
            return None;
        }
        let mut seen: HashSet<u64> = HashSet::from([start.id]);
        let mut path = vec![((Arc::clone(start), number), blockers)];
        while let Some((_, blockers)) = path.last_mut() {
            let Some(next) = blockers.pop() else {
                path.pop();
                continue;
            };
            if Arc::ptr_eq(&next, start) {
                return Some(path.into_iter().map(|(waiting, _)| waiting).collect());
            }
            if seen.insert(next.id)
                && let Some((number, blockers)) = self.blockers(&next)
            {
                path.push(((next, number), blockers));
            }
        }
        None
    }

    fn doom(&self, (victim, number): &Waiting) {
        let name = victim.wait.lock().name;
        let Some(name) = name else { return };
        let bits = name.bits();
        let mut shard = self.shard(bits);
        let head = shard.existing(name);
        if head.is_some_and(|head| head.withdraw(victim, *number)) {
            self.finish(victim, Outcome::Victim);
            self.serve(&mut shard, name, bits);
        }
    }
}
