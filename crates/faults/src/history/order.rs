//! The proof: the transactions run one after the other, and each read sees what it saw.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::digest::Actor;
use super::graph::{Edge, Graph, Placed};
use super::versions::Line;

/// A run of all transactions in an order of the graph.
pub(super) struct Run<'a> {
    graph: &'a Graph,
    actors: &'a [Actor],
    lines: &'a [Line],
    placed: &'a [Placed],
    /// The reads of `placed` that hang on the order, by actor.
    open: Vec<Vec<usize>>,
    /// The version that is there, by key.
    now: Vec<usize>,
    /// The time when it was run, by node.
    when: Vec<u32>,
    /// The nodes in the order in which they ran.
    order: Vec<u32>,
}

/// Reads that saw something else than what was there then, each with the version that was.
pub(super) type Misplaced = Vec<(usize, usize)>;

impl<'a> Run<'a> {
    /// Runs them. The graph has no cycle.
    pub(super) fn new(
        graph: &'a Graph,
        actors: &'a [Actor],
        lines: &'a [Line],
        placed: &'a [Placed],
    ) -> (Self, Misplaced) {
        let mut open = vec![Vec::new(); actors.len()];
        for (number, one) in placed.iter().enumerate().filter(|one| one.1.low < one.1.high) {
            open[one.actor].push(number);
        }
        let now = vec![0; lines.len()];
        let (when, order) = (vec![0; graph.nodes()], Vec::with_capacity(graph.nodes()));
        let mut run = Self { graph, actors, lines, placed, open, now, when, order };
        let misplaced = run.run();
        (run, misplaced)
    }

    fn run(&mut self) -> Misplaced {
        let nodes = self.graph.nodes();
        let mut waits = vec![0u32; nodes];
        for node in 0..nodes as u32 {
            self.graph.from(node).iter().for_each(|edge| waits[edge.to as usize] += 1);
        }
        let (mut ready, mut misplaced) = (BinaryHeap::new(), Vec::new());
        // Those that could run, but for a read that would see something else.
        let mut later: Vec<u32> = Vec::new();
        let first = (0..nodes as u32).filter(|node| waits[*node as usize] == 0);
        ready.extend(first.map(|node| self.due(node)));
        while self.order.len() < nodes {
            let fits = later.iter().position(|node| self.fits(*node));
            let node = match (fits, ready.pop()) {
                (Some(at), popped) => {
                    ready.extend(popped);
                    later.remove(at)
                }
                (None, Some(Reverse((_, _, node)))) if self.fits(node) => node,
                (None, Some(Reverse((_, _, node)))) => {
                    later.push(node);
                    continue;
                }
                (None, None) => {
                    let node = later.remove(0);
                    misplaced.extend(
                        self.misfits(node)
                            .map(|number| (number, self.now[self.placed[number].key])),
                    );
                    node
                }
            };
            self.step(node);
            for edge in self.graph.from(node) {
                waits[edge.to as usize] -= 1;
                if waits[edge.to as usize] == 0 {
                    ready.push(self.due(edge.to));
                }
            }
        }
        misplaced
    }

    /// Readers first; writers as their versions lie.
    fn due(&self, node: u32) -> Reverse<(bool, u64, u32)> {
        let actor = &self.actors[self.graph.actor(node)];
        Reverse((!actor.writes.is_empty(), actor.order.unwrap_or(actor.end), node))
    }

    fn misfits(&self, node: u32) -> impl Iterator<Item = usize> {
        let actor = self.graph.actor(node);
        let open = if node == self.graph.start(actor) { &self.open[actor][..] } else { &[] };
        open.iter().copied().filter(move |number| {
            let one = &self.placed[*number];
            !self.lines[one.key].is(self.now[one.key], &self.actors[actor].reads[one.read])
        })
    }

    fn fits(&self, node: u32) -> bool {
        self.misfits(node).next().is_none()
    }

    fn step(&mut self, node: u32) {
        let actor = self.graph.actor(node);
        self.when[node as usize] = self.order.len() as u32;
        self.order.push(node);
        if node == self.graph.commit(actor) {
            for (key, _) in &self.actors[actor].writes {
                self.now[*key] = self.lines[*key].position(actor).expect("it wrote it");
            }
        }
    }

    /// Returns the edges by which a node has to come before another one, if it has to.
    fn path(&self, from: u32, to: u32) -> Option<Vec<Edge>> {
        let (mut open, mut met) = (vec![from], vec![from]);
        let mut by: HashMap<u32, Edge> = HashMap::new();
        while let Some(node) = open.pop() {
            for edge in self.graph.from(node) {
                if edge.to == to {
                    let mut path = vec![*edge];
                    while let Some(edge) = by.get(&path[path.len() - 1].from) {
                        path.push(*edge);
                    }
                    return Some(path);
                }
                if self.when[edge.to as usize] < self.when[to as usize] && !met.contains(&edge.to) {
                    met.push(edge.to);
                    open.push(edge.to);
                    by.insert(edge.to, *edge);
                }
            }
        }
        None
    }

    /// Returns where a misplaced read may have been instead, and the edges by which it can be
    /// nowhere else; none, if that is a guess: then `back` says which way.
    pub(super) fn narrowed(&self, number: usize, now: usize, back: bool) -> (Placed, Vec<Edge>) {
        let one = self.placed[number];
        let line = &self.lines[one.key];
        let is = |at: &usize| line.is(*at, &self.actors[one.actor].reads[one.read]);
        let before =
            (one.low..now.max(one.low + 1)).rev().find(is).expect("the lowest is as wanted");
        let after = (now.min(one.high)..=one.high).find(is).expect("the highest is as wanted");
        let (earlier, later) = (Placed { high: before, ..one }, Placed { low: after, ..one });
        let start = self.graph.start(one.actor);
        let commit = |at: usize| line.versions[at].actor.map(|actor| self.graph.commit(actor));
        if let Some(path) = commit(before + 1).and_then(|replaced| self.path(replaced, start)) {
            return (later, path);
        }
        if let Some(path) = commit(after).and_then(|made| self.path(start, made)) {
            return (earlier, path);
        }
        (if back { earlier } else { later }, Vec::new())
    }

    /// The transactions, as they wrote.
    pub(super) fn transactions(&self) -> Vec<usize> {
        let commits = self
            .order
            .iter()
            .copied()
            .filter(|node| *node == self.graph.commit(self.graph.actor(*node)));
        commits.map(|node| self.actors[self.graph.actor(node)].number).collect()
    }
}
