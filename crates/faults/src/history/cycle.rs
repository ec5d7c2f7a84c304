//! Cycles: whether there is one, and the shortest of the worst kind.

use std::collections::{HashSet, VecDeque};

use super::anomaly::Anomaly;
use super::graph::{Edge, Graph, Kind};

/// The choice of edges that count.
type Counts = fn(&Edge) -> bool;

fn writes(edge: &Edge) -> bool {
    matches!(edge.kind, Kind::Ww | Kind::Inner)
}

fn reads(edge: &Edge) -> bool {
    writes(edge) || edge.kind == Kind::Wr
}

fn items(edge: &Edge) -> bool {
    edge.kind != Kind::Time && !edge.predicate
}

fn data(edge: &Edge) -> bool {
    edge.kind != Kind::Time
}

/// Returns one cycle of each knot: the shortest of the first of these kinds that occurs. The kinds
/// are: of writes, of writes and reads, with one read of what was replaced, with more, with scans,
/// with times.
pub(super) fn worst(graph: &Graph) -> Vec<Vec<Edge>> {
    let all: Vec<u32> = (0..graph.nodes() as u32).collect();
    let knots = knots(graph, &all, |_| true);
    knots.iter().map(|knot| worst_of(graph, knot)).collect()
}

fn worst_of(graph: &Graph, knot: &[u32]) -> Vec<Edge> {
    let inside: HashSet<u32> = knot.iter().copied().collect();
    let within = Within { graph, inside: &inside };
    let cycle = within.shortest(knot, writes).or_else(|| within.shortest(knot, reads));
    let cycle = cycle.or_else(|| within.with_one(knot, items));
    let cycle = cycle.or_else(|| within.with_one(knot, data));
    let cycle = cycle.or_else(|| within.shortest(knot, items));
    let cycle = cycle.or_else(|| within.shortest(knot, data));
    let cycle = cycle.or_else(|| within.shortest(knot, |_| true));
    cycle.expect("a knot has a cycle")
}

/// Some nodes of a graph.
struct Within<'a> {
    graph: &'a Graph,
    inside: &'a HashSet<u32>,
}

impl Within<'_> {
    /// The shortest cycle.
    fn shortest(&self, knot: &[u32], counts: Counts) -> Option<Vec<Edge>> {
        // What has a cycle of these edges alone is often much less.
        let knots = knots(self.graph, knot, |edge| counts(edge) && self.inside.contains(&edge.to));
        let mut best: Option<Vec<Edge>> = None;
        for knot in knots {
            let inside = knot.iter().copied().collect();
            let within = Within { graph: self.graph, inside: &inside };
            for node in knot {
                let limit = best.as_ref().map_or(usize::MAX, Vec::len);
                best = within.path(node, node, limit, counts).or(best);
                if best.as_ref().is_some_and(|best| best.len() <= 2) {
                    return best;
                }
            }
        }
        best
    }

    /// The shortest cycle with one edge from a read to what replaced it; on one key, if there is
    /// one that is as short.
    fn with_one(&self, knot: &[u32], counts: Counts) -> Option<Vec<Edge>> {
        let mut best: Option<(usize, bool, Vec<Edge>)> = None;
        for node in knot {
            for edge in self.graph.from(*node) {
                if edge.kind != Kind::Rw || !counts(edge) || !self.inside.contains(&edge.to) {
                    continue;
                }
                let limit = best.as_ref().map_or(usize::MAX, |best| best.0 + 1);
                let Some(mut back) = self.path(edge.to, *node, limit, reads) else { continue };
                let other = back.iter().any(|e| e.kind != Kind::Inner && e.key != edge.key);
                if best.as_ref().is_none_or(|best| (back.len(), other) < (best.0, best.1)) {
                    let length = back.len();
                    back.insert(0, *edge);
                    best = Some((length, other, back));
                }
            }
        }
        best.map(|best| best.2)
    }

    /// The shortest way of fewer than `limit` edges, inside a knot.
    fn path(&self, from: u32, to: u32, limit: usize, counts: Counts) -> Option<Vec<Edge>> {
        let mut came: Vec<(u32, Option<Edge>, usize)> = vec![(from, None, 0)];
        let (mut met, mut open) = (HashSet::from([from]), VecDeque::from([0]));
        while let Some(at) = open.pop_front() {
            let (node, _, length) = came[at];
            if length + 1 >= limit {
                return None;
            }
            for edge in self.graph.from(node).iter().filter(|edge| counts(edge)) {
                if !self.inside.contains(&edge.to) {
                    continue;
                }
                if edge.to == to {
                    return Some(way_back(&came, at, *edge));
                }
                if met.insert(edge.to) {
                    open.push_back(came.len());
                    came.push((edge.to, Some(*edge), length + 1));
                }
            }
        }
        None
    }
}

/// The edges up to the one that was reached in step `at`, and `last`.
fn way_back(came: &[(u32, Option<Edge>, usize)], at: usize, last: Edge) -> Vec<Edge> {
    let mut edges = vec![last];
    let mut at = came[at];
    while let Some(edge) = at.1 {
        edges.push(edge);
        at = *came.iter().find(|one| one.0 == edge.from).expect("it came from there");
    }
    edges.reverse();
    edges
}

/// The sets of two nodes and more, each of which can be reached from each other one by edges that
/// count (Tarjan). `roots` are all nodes that such edges lead to or come from.
fn knots(graph: &Graph, roots: &[u32], counts: impl Fn(&Edge) -> bool) -> Vec<Vec<u32>> {
    const UNSEEN: u32 = u32::MAX;
    let nodes = graph.nodes();
    let (mut number, mut low) = (vec![UNSEEN; nodes], vec![0u32; nodes]);
    let (mut on_stack, mut stack, mut knots) = (vec![false; nodes], Vec::new(), Vec::new());
    let mut next = 0;
    for root in roots.iter().copied() {
        if number[root as usize] != UNSEEN {
            continue;
        }
        let mut calls = vec![(root, 0)];
        while let Some((node, at)) = calls.last_mut() {
            let me = *node as usize;
            if *at == 0 {
                number[me] = next;
                low[me] = next;
                next += 1;
                stack.push(*node);
                on_stack[me] = true;
            }
            let edges = graph.from(*node);
            if let Some(edge) = edges.get(*at) {
                *at += 1;
                let to = edge.to as usize;
                if !counts(edge) {
                    // `at` has moved on.
                } else if number[to] == UNSEEN {
                    calls.push((edge.to, 0));
                } else if on_stack[to] {
                    low[me] = low[me].min(number[to]);
                }
                continue;
            }
            calls.pop();
            if let Some((caller, _)) = calls.last() {
                let caller = *caller as usize;
                low[caller] = low[caller].min(low[me]);
            }
            if low[me] == number[me] {
                let from = stack.iter().rposition(|other| *other as usize == me);
                let knot = stack.split_off(from.expect("it is on the stack"));
                knot.iter().for_each(|other| on_stack[*other as usize] = false);
                if knot.len() > 1 {
                    knots.push(knot);
                }
            }
        }
    }
    knots
}

/// The name of a cycle. `crash` is the transaction that stands for what a crash has left.
pub(super) fn name_of(graph: &Graph, cycle: &[Edge], crash: Option<usize>) -> Anomaly {
    let actor = |node: u32| graph.actor(node);
    let edges: Vec<&Edge> = cycle.iter().filter(|edge| edge.kind != Kind::Inner).collect();
    let count = |kind| edges.iter().filter(|edge| edge.kind == kind).count();
    let into_crash = edges.iter().find(|edge| Some(actor(edge.to)) == crash);
    if let Some(edge) = into_crash {
        return match edge.kind {
            Kind::Time => Anomaly::DirtyAcknowledgement,
            _ if edges.len() == 2 => Anomaly::Torn,
            _ => Anomaly::NotAPrefix,
        };
    }
    let phantom = edges.iter().any(|edge| edge.kind == Kind::Rw && edge.predicate);
    match (count(Kind::Time), count(Kind::Rw)) {
        (0, 0) if count(Kind::Wr) == 0 => Anomaly::DirtyWrite,
        (0, 0) => Anomaly::CircularRead,
        (0, 1) => {
            let rw = edges.iter().find(|edge| edge.kind == Kind::Rw).expect("there is one");
            let same = |edge: &&&Edge| edge.kind != Kind::Rw && edge.key != rw.key;
            let elsewhere = edges.iter().filter(same).count() > 0;
            match () {
                () if !elsewhere && count(Kind::Wr) == 0 => Anomaly::LostUpdate,
                () if phantom => Anomaly::Phantom,
                () if !elsewhere => Anomaly::NonRepeatableRead,
                () => Anomaly::ReadSkew,
            }
        }
        (0, _) if phantom => Anomaly::Phantom,
        (0, _) => {
            let next = |at: usize| edges[(at + 1) % edges.len()].kind;
            let adjacent =
                (0..edges.len()).any(|at| edges[at].kind == Kind::Rw && next(at) == Kind::Rw);
            if adjacent { Anomaly::WriteSkew } else { Anomaly::LongFork }
        }
        _ => Anomaly::RealTime,
    }
}
