//! The order of each key's versions.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::digest::{Actor, Index, Read};
use super::model::{Cell, Key};

/// A fact that one transaction's version of a key (by number) lies before another's.
pub(super) type Forced = (usize, usize, usize);

/// A version of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    /// The writer; `None` if it was there before.
    pub(super) actor: Option<usize>,
    pub(super) cell: Option<Cell>,
}

/// The versions of one key in order.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) key: Key,
    pub(super) versions: Vec<Version>,
    /// The place of each actor's version.
    position: HashMap<usize, usize>,
    /// For each actor, the actors whose versions are known to come after its own, without a choice.
    successors: HashMap<usize, Vec<usize>>,
    /// `(end, highest position of all up to here)`, by end.
    ends: Vec<(u64, usize)>,
    /// `(begin, lowest position of all from here on)`, by beginning.
    begins: Vec<(u64, usize)>,
}

impl Line {
    pub(super) fn position(&self, actor: usize) -> Option<usize> {
        self.position.get(&actor).copied()
    }

    /// Returns true if it is no choice that one version lies before another one.
    pub(super) fn is_known(&self, first: usize, second: usize) -> bool {
        let actor = |at: usize| self.versions[at].actor;
        let (Some(first), Some(second)) = (actor(first), actor(second)) else {
            return first == 0 && second > 0;
        };
        let (mut open, mut met) = (vec![first], vec![first]);
        while let Some(actor) = open.pop() {
            for next in self.successors.get(&actor).into_iter().flatten() {
                if *next == second {
                    return true;
                }
                if !met.contains(next) {
                    met.push(*next);
                    open.push(*next);
                }
            }
        }
        false
    }

    /// The highest version of those whose writers had been acknowledged before this time.
    fn acknowledged_before(&self, time: u64) -> usize {
        match self.ends.partition_point(|(end, _)| *end < time) {
            0 => 0,
            count => self.ends[count - 1].1,
        }
    }

    /// The lowest version of those whose writers began after this time.
    fn begun_after(&self, time: u64) -> usize {
        let at = self.begins.partition_point(|(begin, _)| *begin <= time);
        self.begins.get(at).map_or(self.versions.len(), |(_, position)| *position)
    }

    /// Returns the bounds within which the times allow a read to have seen what it saw; the second
    /// may lie below the first.
    pub(super) fn window(
        &self,
        reader: usize,
        actors: &[Actor],
        crash: Option<usize>,
    ) -> (usize, usize) {
        let actor = &actors[reader];
        let (low, mut high) = if crash == Some(reader) {
            let durable = |version: &Version| version.actor.is_some_and(|one| actors[one].durable);
            (self.versions.iter().rposition(durable).unwrap_or(0), self.versions.len() - 1)
        } else {
            (self.acknowledged_before(actor.begin), self.begun_after(actor.end) - 1)
        };
        if let Some(own) = self.position(reader) {
            high = high.min(own - 1);
        }
        (low, high)
    }

    /// Returns true if a version is what a read saw.
    pub(super) fn is(&self, at: usize, read: &Read) -> bool {
        read.wants.iter().all(|want| want.is(self.key, self.versions[at].cell))
    }

    /// The first and the last version in a window that a read can have seen; if there is none in
    /// it, the nearest one, which makes a cycle; `None` if there is none at all.
    pub(super) fn place(
        &self,
        reader: usize,
        read: &Read,
        (low, high): (usize, usize),
    ) -> Option<(usize, usize)> {
        let own = self.position(reader);
        let is = |at: &usize| Some(*at) != own && self.is(*at, read);
        let mut inside = (low..high + 1).filter(is);
        if let Some(first) = inside.next() {
            return Some((first, inside.next_back().unwrap_or(first)));
        }
        let nearest = (0..=low.min(high)).rev().find(is);
        let mut above = low.min(high)..self.versions.len();
        let nearest = nearest.or_else(|| above.find(is));
        nearest.map(|at| (at, at))
    }
}

/// Orders the versions of all keys. `forced` has what other attempts have learnt.
pub(super) fn lines(
    index: &Index,
    actors: &[Actor],
    crash: Option<usize>,
    forced: &[Forced],
) -> Vec<Line> {
    let of_number: HashMap<usize, usize> =
        actors.iter().enumerate().map(|(at, actor)| (actor.number, at)).collect();
    let mut writers: Vec<Vec<(usize, Option<Cell>)>> = vec![Vec::new(); index.keys.len()];
    // For each key, pairs of a reader and the writer whose version it read.
    let mut readers: Vec<Vec<(usize, usize)>> = vec![Vec::new(); index.keys.len()];
    for (at, actor) in actors.iter().enumerate() {
        for (key, cell) in &actor.writes {
            writers[*key].push((at, *cell));
        }
        for read in &actor.reads {
            let by = read.cell().and_then(|cell| index.wrote[&cell.value].by);
            if let Some(writer) = by.and_then(|by| of_number.get(&by)) {
                readers[read.key].push((at, *writer));
            }
        }
    }
    let numbered = actors
        .iter()
        .all(|actor| actor.order.is_some() || actor.writes.is_empty() || actor.end == u64::MAX);
    let tie = |at: usize| {
        let actor = &actors[at];
        let time = if numbered { actor.order.unwrap_or(u64::MAX) } else { actor.end };
        (time, actor.end, at)
    };
    (0..index.keys.len())
        .map(|key| {
            let (writers, readers) = (&writers[key], &readers[key]);
            let mut successors = in_time(actors, writers, readers, crash);
            let mut replaced: HashMap<usize, usize> = HashMap::new();
            for (reader, writer) in readers {
                if actors[*reader].writes.iter().any(|(written, _)| *written == key) {
                    successors.entry(*writer).or_default().push(*reader);
                    replaced.insert(*writer, *reader);
                }
            }
            for (_, first, second) in forced.iter().filter(|one| one.0 == key) {
                successors.entry(*first).or_default().push(*second);
            }
            line(index, actors, key, writers, (successors, &replaced), tie)
        })
        .collect()
}

/// Returns the order that the times force. An actor that was acknowledged before another one began
/// comes before it, and before what the other one read. Only the nearest ones of each are named.
fn in_time(
    actors: &[Actor],
    writers: &[(usize, Option<Cell>)],
    readers: &[(usize, usize)],
    crash: Option<usize>,
) -> HashMap<usize, Vec<usize>> {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Begin(usize),
        Read(usize),
        End(usize),
    }
    let mut successors: HashMap<usize, Vec<usize>> = HashMap::new();
    if writers.len() < 2 {
        return successors;
    }
    let mut events = Vec::new();
    for (writer, _) in writers {
        events.push((actors[*writer].begin, Event::Begin(*writer)));
        events.push((actors[*writer].end, Event::End(*writer)));
    }
    for (reader, writer) in readers {
        if crash == Some(*reader) {
            for (other, _) in writers.iter().filter(|(other, _)| actors[*other].durable) {
                if other != writer && actors[*writer].end > actors[*other].begin {
                    successors.entry(*other).or_default().push(*writer);
                }
            }
        } else {
            events.push((actors[*reader].begin, Event::Read(*writer)));
        }
    }
    events.sort_unstable();
    let (mut nearest, mut before): (Vec<usize>, HashMap<usize, Vec<usize>>) = Default::default();
    for (time, event) in events {
        match event {
            Event::Begin(writer) => {
                for other in &nearest {
                    successors.entry(*other).or_default().push(writer);
                }
                before.insert(writer, nearest.clone());
            }
            Event::Read(version) => {
                for other in &nearest {
                    if *other != version && actors[version].end > actors[*other].begin {
                        successors.entry(*other).or_default().push(version);
                    }
                }
            }
            Event::End(_) if time == u64::MAX => {}
            Event::End(writer) => {
                let implied = before.remove(&writer).unwrap_or_default();
                nearest.retain(|other| !implied.contains(other));
                nearest.push(writer);
            }
        }
    }
    successors
}

/// Puts the versions of one key into an order that agrees with `successors`. Of the versions that
/// could be next it takes the one whose writer read the version before, or else the one with the
/// lowest `tie`. `replaced` maps a writer to the actor that read its version and replaced it.
fn line<T: Ord>(
    index: &Index,
    actors: &[Actor],
    key: usize,
    writers: &[(usize, Option<Cell>)],
    (successors, replaced): (HashMap<usize, Vec<usize>>, &HashMap<usize, usize>),
    tie: impl Fn(usize) -> T,
) -> Line {
    let cells: HashMap<usize, Option<Cell>> = writers.iter().copied().collect();
    let mut waits: HashMap<usize, usize> = writers.iter().map(|(at, _)| (*at, 0)).collect();
    for next in successors.values().flatten() {
        *waits.get_mut(next).expect("a writer") += 1;
    }
    let mut ready: BinaryHeap<Reverse<(T, usize)>> = BinaryHeap::new();
    ready.extend(waits.iter().filter(|one| *one.1 == 0).map(|one| Reverse((tie(*one.0), *one.0))));
    let mut order = Vec::with_capacity(writers.len());
    loop {
        while let Some(Reverse((_, at))) = ready.pop() {
            let mut now = Some(at);
            while let Some(at) = now.take() {
                waits.remove(&at);
                order.push(at);
                for next in successors.get(&at).into_iter().flatten() {
                    let Some(left) = waits.get_mut(next) else { continue };
                    *left -= 1;
                    if *left > 0 {
                        continue;
                    }
                    if replaced.get(&at) == Some(next) {
                        now = Some(*next);
                    } else {
                        ready.push(Reverse((tie(*next), *next)));
                    }
                }
            }
        }
        // The known order is a cycle, which shows in the graph, too.
        let Some(at) = waits.keys().copied().min_by_key(|at| tie(*at)) else { break };
        ready.push(Reverse((tie(at), at)));
    }
    let key = index.keys[key];
    let before = Version { actor: None, cell: index.initial.get(&key).copied() };
    let mut versions = vec![before];
    versions.extend(order.iter().map(|at| Version { actor: Some(*at), cell: cells[at] }));
    let position: HashMap<_, _> =
        order.iter().enumerate().map(|(at, actor)| (*actor, at + 1)).collect();
    let mut ends: Vec<_> = position.iter().map(|(at, place)| (actors[*at].end, *place)).collect();
    ends.retain(|(end, _)| *end != u64::MAX);
    ends.sort_unstable();
    let mut highest = 0;
    for (_, place) in &mut ends {
        highest = highest.max(*place);
        *place = highest;
    }
    let mut begins: Vec<_> =
        position.iter().map(|(at, place)| (actors[*at].begin, *place)).collect();
    begins.sort_unstable();
    let mut lowest = usize::MAX;
    for (_, place) in begins.iter_mut().rev() {
        lowest = lowest.min(*place);
        *place = lowest;
    }
    Line { key, versions, position, successors, ends, begins }
}
