//! The graph of which transaction has to precede which.

use std::collections::HashMap;

use super::digest::Actor;
use super::model::Rule;
use super::versions::Line;

/// The reason why a transaction has to come before another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The next version of a key is the other one's.
    Ww,
    /// The other one has read a version of its.
    Wr,
    /// The first has read what the other one replaced.
    Rw,
    /// The first was acknowledged before the other one began.
    Time,
    /// Both are the same one, which reads before it writes.
    Inner,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) kind: Kind,
    /// The number of the key.
    pub(super) key: u32,
    /// A pair of versions: its number for writes; for reads the number of what was placed.
    pub(super) at: u32,
    /// A scan did not show it, and that is all that is known.
    pub(super) predicate: bool,
}

/// A read that several versions may have answered: one of those from `low` to `high` that are as it
/// wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) actor: usize,
    /// The number of the read among the actor's.
    pub(super) read: usize,
    pub(super) key: usize,
    pub(super) low: usize,
    pub(super) high: usize,
    /// The places that the times would have allowed.
    pub(super) window: (usize, usize),
    pub(super) predicate: bool,
}

/// The edges of each node, one node after the other.
#[derive(Debug)]
pub(super) struct Graph {
    rule: Rule,
    first: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    pub(super) fn of(
        rule: Rule,
        actors: &[Actor],
        lines: &[Line],
        placed: &[Placed],
        crash: Option<usize>,
    ) -> Self {
        let mut graph = Self { rule, first: Vec::new(), edges: Vec::new() };
        if rule == Rule::Snapshot {
            for actor in 0..actors.len() {
                graph.add(graph.start(actor), graph.commit(actor), Kind::Inner, 0, 0);
            }
        }
        for (key, line) in lines.iter().enumerate() {
            for at in 1..line.versions.len() - 1 {
                let pair = (line.versions[at].actor, line.versions[at + 1].actor);
                if let (Some(from), Some(to)) = pair {
                    graph.add(graph.commit(from), graph.start(to), Kind::Ww, key, at);
                }
            }
        }
        for (number, one) in placed.iter().enumerate() {
            let Placed { actor, key, low, high, predicate, .. } = *one;
            let versions = &lines[key].versions;
            if let Some(writer) = versions[low].actor {
                graph.add(graph.commit(writer), graph.start(actor), Kind::Wr, key, number);
            }
            let next = versions.get(high + 1).and_then(|version| version.actor);
            if let Some(writer) = next.filter(|writer| *writer != actor) {
                graph.add(graph.start(actor), graph.commit(writer), Kind::Rw, key, number);
                graph.edges.last_mut().expect("it was added").predicate = predicate;
            }
        }
        graph.add_times(actors, crash);
        graph.sort(actors.len());
        graph
    }

    /// Returns the node at which an actor reads.
    pub(super) fn start(&self, actor: usize) -> u32 {
        match self.rule {
            Rule::Serializable => actor as u32,
            Rule::Snapshot => 2 * actor as u32,
        }
    }

    /// Returns the node at which it writes.
    pub(super) fn commit(&self, actor: usize) -> u32 {
        match self.rule {
            Rule::Serializable => actor as u32,
            Rule::Snapshot => 2 * actor as u32 + 1,
        }
    }

    pub(super) fn actor(&self, node: u32) -> usize {
        match self.rule {
            Rule::Serializable => node as usize,
            Rule::Snapshot => node as usize / 2,
        }
    }

    pub(super) fn nodes(&self) -> usize {
        self.first.len() - 1
    }

    pub(super) fn from(&self, node: u32) -> &[Edge] {
        &self.edges[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }

    fn add(&mut self, from: u32, to: u32, kind: Kind, key: usize, at: usize) {
        let (key, at) = (key as u32, at as u32);
        self.edges.push(Edge { from, to, kind, key, at, predicate: false });
    }

    /// Adds edges from the nearest of those that came before; the others follow from these.
    fn add_times(&mut self, actors: &[Actor], crash: Option<usize>) {
        let mut events = Vec::with_capacity(2 * actors.len());
        for (at, actor) in actors.iter().enumerate().filter(|one| Some(one.0) != crash) {
            events.push((actor.begin, false, at));
            if actor.end != u64::MAX {
                events.push((actor.end, true, at));
            }
            if let (Some(crash), true) = (crash, actor.durable) {
                self.add(self.commit(at), self.start(crash), Kind::Time, 0, 0);
            }
        }
        events.sort_unstable();
        let (mut nearest, mut before): (Vec<usize>, HashMap<usize, Vec<usize>>) =
            Default::default();
        for (_, is_end, at) in events {
            if is_end {
                let implied = before.remove(&at).unwrap_or_default();
                nearest.retain(|other| !implied.contains(other));
                nearest.push(at);
            } else {
                for other in &nearest {
                    self.add(self.commit(*other), self.start(at), Kind::Time, 0, 0);
                }
                before.insert(at, nearest.clone());
            }
        }
    }

    fn sort(&mut self, actors: usize) {
        let nodes = if self.rule == Rule::Snapshot { 2 * actors } else { actors };
        self.edges.sort_by_key(|edge| edge.from);
        self.first = Vec::with_capacity(nodes + 1);
        let mut at = 0;
        for node in 0..=nodes as u32 {
            while self.edges.get(at).is_some_and(|edge| edge.from < node) {
                at += 1;
            }
            self.first.push(at as u32);
        }
    }
}
