//! Waiting for room in the log, and finding out at once that no transaction can make any.
//!
//! 1. An operation that finds the log full registers its session's [`RoomWait`] and tries again. If
//!    it fails once more, nothing was given back since: its session *starves*.
//! 2. A session that starves lets a checkpoint make room. If that frees nothing, transactions have
//!    to end.
//! 3. A transaction that holds room can end unless it starves, or waits for a lock, in however many
//!    steps, of a session that starves. If that is so of all that hold room, none of them ever
//!    ends: the youngest session that starves and holds room, or has a lock that one of them waits
//!    for, is the victim. Its transaction ends in [`Conflict::Room`](crate::Conflict::Room), and
//!    its rerun has the same age.
//! 4. A session that begins to starve looks. A wait for a lock may come later: sessions that starve
//!    look again at short intervals.
//! 5. Otherwise another transaction is busy elsewhere. A session that starves waits for
//!    [`StoreOptions::room_wait`] at most, anew whenever the transaction has ended that kept the
//!    oldest part of the log.
//!
//! Looking takes no latch and stops no other thread. The walk is made twice: edges that are found
//! twice, known by the numbers of their waits, were all there at the moment between. Any room that
//! is given back ends all waits of step 1, so the sessions that starve at that moment do so at the
//! same time.
//!
//! [`StoreOptions::room_wait`]: super::StoreOptions::room_wait

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pm::Files;

use super::Store;
use crate::Result;
use crate::ids::Lsn;
use crate::latch::Latched;
use crate::lock::{LockTable, Party};
use crate::log::RoomWait;
use crate::threads::Threads;

/// The first pause of a session that starves until it looks again, and how often it is doubled.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const DOUBLED: u32 = 6;
/// The number of times that a session looks again while no transaction that could end holds room.
const TRIES: u32 = 16;

const HOLDS: u8 = 1;
const STARVES: u8 = 2;

/// A session, as one that may hold room in the log or wait for it.
#[derive(Debug)]
pub(super) struct Claim {
    party: Arc<Party>,
    /// [`HOLDS`] and [`STARVES`], or neither.
    state: AtomicU8,
    wait: Arc<RoomWait>,
    /// The number of its wait.
    turn: AtomicU64,
    /// The last wait in which it was the victim. A session that picks a victim may come late, when
    /// that has found room: later waits are not meant.
    victim_in: AtomicU64,
}

impl Claim {
    /// Says whether the transaction of the session may hold room, or is about to get some.
    pub(super) fn set_holds(&self, holds: bool) {
        self.state.store(if holds { HOLDS } else { 0 }, Ordering::SeqCst);
    }

    fn begin_wait(&self) {
        self.turn.fetch_add(1, Ordering::SeqCst);
        self.wait.begin();
    }

    fn end_wait(&self) {
        self.turn.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes the session the victim in one of its waits. Returns false if it is already.
    fn pick(&self, turn: u64) -> bool {
        self.victim_in.fetch_max(turn, Ordering::SeqCst) < turn
    }

    /// Returns whether it is the victim in the wait that is under way.
    fn is_victim(&self) -> bool {
        self.victim_in.load(Ordering::SeqCst) == self.turn.load(Ordering::SeqCst)
    }

    fn set_starves(&self, holds: bool) {
        self.state.store(STARVES | if holds { HOLDS } else { 0 }, Ordering::SeqCst);
    }

    fn holds(&self) -> bool {
        self.state.load(Ordering::SeqCst) & HOLDS > 0
    }

    /// Returns whether it has found no room and none was given back since.
    fn starves(&self) -> bool {
        self.state.load(Ordering::SeqCst) & STARVES > 0 && !self.wait.is_over()
    }
}

/// The sessions of a store, which share its log.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: Mutex<Vec<Arc<Claim>>>,
    /// Transactions that ended so that others found room.
    victims: AtomicU64,
}

impl Claims {
    pub(super) fn add(&self, party: Arc<Party>) -> Arc<Claim> {
        let (state, wait) = (AtomicU8::new(0), Arc::default());
        let (turn, victim_in) = (AtomicU64::new(1), AtomicU64::new(0));
        let claim = Arc::new(Claim { party, state, wait, turn, victim_in });
        self.claims.lock().push(Arc::clone(&claim));
        claim
    }

    pub(super) fn remove(&self, claim: &Arc<Claim>) {
        self.claims.lock().retain(|other| !Arc::ptr_eq(other, claim));
    }

    pub(super) fn victims(&self) -> u64 {
        self.victims.load(Ordering::Relaxed)
    }

    /// Returns whether no other session's transaction holds room.
    fn nobody_else_holds(&self, own: &Arc<Claim>) -> bool {
        !self.claims.lock().iter().any(|claim| !Arc::ptr_eq(claim, own) && claim.holds())
    }

    /// Finds the session whose transaction has to end, and its wait, if no session that holds room
    /// can go on.
    fn victim<T: Threads>(&self, locks: &LockTable<T>) -> Option<Starving> {
        let claims = self.claims.lock().clone();
        let (ends, edges) = circle(&claims, locks)?;
        let again = circle(&claims, locks)?;
        let same = again.1 == edges && same_claims(&ends, &again.0);
        let age = |(claim, _): &Starving| (claim.party.age(), claim.party.id);
        ends.into_iter().max_by_key(age).filter(|_| same)
    }
}

/// A session that starves, and the number of its wait.
type Starving = (Arc<Claim>, u64);

fn same_claims(one: &[Starving], other: &[Starving]) -> bool {
    let is_same =
        |(one, other): (&Starving, &Starving)| Arc::ptr_eq(&one.0, &other.0) && one.1 == other.1;
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}

/// Waits for locks: the session that waits, and the number of its wait.
type Edges = Vec<(u64, u64)>;

/// The sessions that starve to which those that hold room lead, and the waits for locks between;
/// `None` if one that holds room leads to none, or there is none.
fn circle<T: Threads>(
    claims: &[Arc<Claim>],
    locks: &LockTable<T>,
) -> Option<(Vec<Starving>, Edges)> {
    let (mut ends, mut edges) = (Vec::new(), Edges::new());
    for holder in claims.iter().filter(|claim| claim.holds()) {
        ends.push(leads_to(holder, claims, locks, &mut edges)?);
    }
    (!ends.is_empty()).then_some((ends, edges))
}

/// A session that starves for which a session waits: itself, or one that has a lock that it waits
/// for.
fn leads_to<T: Threads>(
    from: &Arc<Claim>,
    claims: &[Arc<Claim>],
    locks: &LockTable<T>,
    edges: &mut Edges,
) -> Option<Starving> {
    // The number comes first: it is not that of a later wait.
    let starving = |claim: &Arc<Claim>| {
        let turn = claim.turn.load(Ordering::SeqCst);
        claim.starves().then(|| (Arc::clone(claim), turn))
    };
    if let Some(own) = starving(from) {
        return Some(own);
    }
    let (mut seen, mut next) = (vec![from.party.id], vec![Arc::clone(&from.party)]);
    while let Some(party) = next.pop() {
        let own = claims.iter().find(|claim| Arc::ptr_eq(&claim.party, &party));
        if let Some(own) = own.and_then(starving) {
            return Some(own);
        }
        let Some((number, blockers)) = locks.blockers(&party) else { continue };
        edges.push((party.id, number));
        for blocker in blockers {
            if !seen.contains(&blocker.id) {
                seen.push(blocker.id);
                next.push(blocker);
            }
        }
    }
    None
}

/// The outcome of a wait for room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// There may be room: the operation is tried again.
    Perhaps,
    /// The transaction has to end, so that others find room.
    Victim,
    /// There was none for so long that the operation is refused.
    None,
}

/// The waits of one operation for room.
#[derive(Debug, Default)]
pub(super) struct Wanting {
    is_registered: bool,
    tries: u32,
    /// The first record of the oldest transaction, and until when the wait lasts while that is so.
    oldest: Option<Lsn>,
    until: Option<Duration>,
}

impl<F: Files, T: Latched> Store<F, T> {
    /// Waits for room, after an operation of a session has found none; its transaction may hold
    /// some.
    ///
    /// # Errors
    /// A checkpoint failed.
    pub(super) fn await_room(
        &self,
        claim: &Arc<Claim>,
        wanting: &mut Wanting,
        holds: bool,
    ) -> Result<Room> {
        if self.has_waited_enough(claim, wanting) {
            return Ok(Room::None);
        }
        if !wanting.is_registered || claim.wait.is_over() {
            wanting.is_registered = true;
            self.log().forget_wait(&claim.wait);
            claim.begin_wait();
            self.log().await_room(&claim.wait);
            return Ok(self.outcome(claim));
        }
        claim.set_starves(holds);
        let made = self.upkeep.make_room();
        if made.is_ok() && !self.look_for_victim(claim) {
            self.pause(claim, wanting);
        }
        claim.set_holds(true);
        made.map(|_| self.outcome(claim))
    }

    fn outcome(&self, claim: &Claim) -> Room {
        if !claim.is_victim() {
            return Room::Perhaps;
        }
        self.claims.victims.fetch_add(1, Ordering::Relaxed);
        Room::Victim
    }

    /// Ends the waits of an operation, which has succeeded or failed. Its transaction may hold
    /// room.
    pub(super) fn end_wanting(&self, claim: &Arc<Claim>, wanting: &Wanting, holds: bool) {
        if wanting.is_registered {
            self.log().forget_wait(&claim.wait);
            claim.end_wait();
        }
        claim.set_holds(holds);
    }

    /// Picks a victim, if no other transaction can end. Returns whether it is the session itself.
    fn look_for_victim(&self, claim: &Arc<Claim>) -> bool {
        // Losers of a crash are undone whichever sessions wait.
        if self.upkeep.unfinished() > 0 {
            return false;
        }
        let Some((victim, turn)) = self.claims.victim(&self.locks) else { return false };
        if !victim.pick(turn) {
            return false;
        }
        victim.wait.end(&*self.threads);
        Arc::ptr_eq(&victim, claim)
    }

    /// Returns whether an operation has waited for as long as it may.
    fn has_waited_enough(&self, claim: &Arc<Claim>, wanting: &mut Wanting) -> bool {
        let (now, oldest) = (self.threads.now(), self.upkeep.transactions.oldest());
        if wanting.until.is_none() || oldest != wanting.oldest {
            let until = now.saturating_add(self.options.room_wait);
            (wanting.oldest, wanting.until, wanting.tries) = (oldest, Some(until), 0);
        }
        let is_late = wanting.until.is_some_and(|until| until <= now);
        is_late || wanting.tries > TRIES && self.claims.nobody_else_holds(claim)
    }

    /// Waits a while for room.
    fn pause(&self, claim: &Claim, wanting: &mut Wanting) {
        let pause = FIRST_PAUSE * 2_u32.pow(wanting.tries.min(DOUBLED));
        let look = self.threads.now().saturating_add(pause);
        let until = wanting.until.map_or(look, |until| until.min(look));
        wanting.tries += 1;
        self.threads.park(&claim.wait.waiter, Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::LockOptions;
    use crate::threads::Host;

    #[test]
    fn a_victim_that_has_found_room_meanwhile_is_none_later() {
        let locks = LockTable::<Host>::new(Arc::default(), LockOptions::default());
        let (claims, session) = (Claims::default(), locks.session());
        let claim = claims.add(session.party());
        claim.begin_wait();
        claim.set_starves(true);
        let (victim, turn) = claims.victim(&locks).expect("no other transaction can end");
        claim.set_holds(true);
        claim.end_wait();
        assert!(victim.pick(turn) && !claim.is_victim(), "it was picked too late");
        claim.begin_wait();
        assert!(!claim.is_victim(), "its next operation may wait");
        claim.set_starves(true);
        let (victim, turn) = claims.victim(&locks).expect("no other transaction can end");
        assert!(victim.pick(turn) && claim.is_victim());
        assert!(!victim.pick(turn), "it is already");
        claim.end_wait();
        assert!(!claim.is_victim(), "it has given up");
    }
}
