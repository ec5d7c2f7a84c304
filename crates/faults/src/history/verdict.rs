//! The verdict on a history.

use std::collections::HashMap;

use super::anomaly::{Anomaly, Violation};
use super::cycle;
use super::digest::{Actor, Digester, Index, Known, name};
use super::graph::{Edge, Graph, Kind, Placed};
use super::model::{Cell, History, Key, Operation, Outcome, Range, Rule, Transaction};
use super::order::Run;
use super::versions::{Forced, Line, lines};

type Verdict = Result<Vec<usize>, Box<Violation>>;

/// Times the number of transactions: so many orders of versions and places of reads are tried
/// before it is given up, but at least [`LEAST_TRIES`].
const WORK: usize = 200_000;

const LEAST_TRIES: usize = 50;

/// The most transactions in flight that were not seen and are tried as there and as not there.
const IN_DOUBT: usize = 6;

impl History {
    /// Looks for an order of the transactions that the rule allows; returns the numbers of those
    /// that count, as they wrote.
    ///
    /// # Errors
    /// The anomaly. Two writes of one value, too.
    pub fn check(&self, rule: Rule) -> Result<Vec<usize>, Box<Violation>> {
        of(self, rule, None)
    }

    /// The same for what a crash has left. `contents` is what was there afterwards; of the history,
    /// what was known before `at` counts. A transaction that had not ended by then may be there or
    /// not. A durable one has to be there. All of them are whole, and a prefix of the order.
    ///
    /// # Errors
    /// The anomaly.
    pub fn recovered(
        &self,
        rule: Rule,
        at: u64,
        contents: &[(Key, Cell)],
    ) -> Result<Vec<usize>, Box<Violation>> {
        of(self, rule, Some((at, contents)))
    }
}

/// The verdict on what is known of a history; with a crash, before that time, and with what was
/// there afterwards.
fn of(history: &History, rule: Rule, crash: Option<(u64, &[(Key, Cell)])>) -> Verdict {
    let (at, contents) = crash.unwrap_or((u64::MAX, &[]));
    let index = Index::of(history, contents)?;
    let known: Vec<Known> = history.transactions.iter().map(|one| Known::before(one, at)).collect();
    let recovered = crash.is_some().then(|| all_of(contents));
    let case = Case { history, rule, at, index, known, recovered };
    let verdict = case.with(&[]);
    let Err(mut violation) = verdict else { return verdict };
    // A transaction in flight of which nothing was seen may have deleted, or have been overwritten.
    let doubtful: Vec<usize> = case.doubtful();
    for set in 1..1usize << doubtful.len() {
        let there = doubtful.iter().enumerate().filter(|one| set >> one.0 & 1 == 1);
        let there: Vec<usize> = there.map(|one| *one.1).collect();
        match case.with(&there) {
            Ok(order) => return Ok(order),
            // To suppose that a transaction in flight made it explains more.
            Err(other) if violation.anomaly == Anomaly::Fabricated => violation = other,
            Err(_) => {}
        }
    }
    Err(violation)
}

/// A reader of everything, after all transactions.
fn all_of(contents: &[(Key, Cell)]) -> Transaction {
    Transaction {
        session: 0,
        begin: u64::MAX,
        end: None,
        durable: None,
        outcome: Outcome::Committed,
        order: None,
        operations: vec![Operation::Scan { range: Range::ALL, saw: contents.to_vec() }],
    }
}

struct Case<'a> {
    history: &'a History,
    rule: Rule,
    at: u64,
    index: Index,
    known: Vec<Known>,
    recovered: Option<Transaction>,
}

impl Case<'_> {
    fn doubtful(&self) -> Vec<usize> {
        let writes = |at: &usize| {
            let operations = &self.history.transactions[*at].operations;
            operations.iter().any(|one| matches!(one, Operation::Write { .. }))
        };
        let all = 0..self.known.len();
        let mut doubtful: Vec<usize> =
            all.filter(|at| self.known[*at] == Known::Perhaps && writes(at)).collect();
        doubtful.sort_by_key(|at| self.history.transactions[*at].begin);
        doubtful.truncate(IN_DOUBT);
        doubtful
    }

    /// The verdict, if of those that were in flight these have committed, and those that were seen.
    fn with(&self, there: &[usize]) -> Verdict {
        let mut digester = Digester::new(&self.index, &self.known);
        let mut counts: Vec<bool> = self.known.iter().map(|one| *one == Known::Committed).collect();
        digester.seen.extend(there);
        let mut actors = Vec::new();
        let committed = (0..counts.len()).filter(|at| self.known[*at] == Known::Committed);
        for number in committed {
            actors.push(self.digest(&mut digester, number)?);
        }
        let mut crash = None;
        if let Some(recovered) = &self.recovered {
            crash = Some(digester.digest(self.known.len(), recovered, true)?);
        }
        // Whom they have seen, and whom these have seen.
        while let Some(number) = digester.seen.pop() {
            if !std::mem::replace(&mut counts[number], true) {
                actors.push(self.digest(&mut digester, number)?);
            }
        }
        let number = crash.is_some().then_some(actors.len());
        actors.extend(crash);
        let of_number = actors.iter().enumerate().map(|(at, actor)| (actor.number, at)).collect();
        let (rule, index) = (self.rule, &self.index);
        Search { rule, index, actors: &actors, of_number, crash: number }.search()
    }

    fn digest(&self, digester: &mut Digester<'_>, number: usize) -> Result<Actor, Box<Violation>> {
        let transaction = &self.history.transactions[number];
        let mut actor = digester.digest(number, transaction, false)?;
        actor.durable = transaction.durable.is_some_and(|durable| durable < self.at);
        if self.known[number] == Known::Perhaps {
            actor.end = u64::MAX;
        }
        Ok(actor)
    }
}

struct Search<'a> {
    rule: Rule,
    index: &'a Index,
    actors: &'a [Actor],
    /// The place of each transaction, by its number in the history.
    of_number: HashMap<usize, usize>,
    /// The actor that stands for what a crash has left.
    crash: Option<usize>,
}

/// The reads whose places were narrowed, by their numbers, each with the edges that say so; none,
/// if its place was guessed.
type Narrowed = HashMap<usize, Vec<Edge>>;

/// The reason why an order of versions does not do.
struct Failed {
    violation: Box<Violation>,
    /// Orders of two versions, one of which is needed to do better.
    choices: Vec<Forced>,
    /// Orders that are needed, as far as they are known.
    implied: Vec<Forced>,
    /// Places of reads were guessed.
    guessed: bool,
}

impl Search<'_> {
    fn search(&self) -> Verdict {
        let mut tries = LEAST_TRIES.max(WORK / self.actors.len().max(1));
        self.attempt(&mut Vec::new(), &mut tries)
    }

    /// Tries an order of versions, and other ones if something depends on a choice. `forced` is
    /// what was chosen.
    fn attempt(&self, forced: &mut Vec<Forced>, tries: &mut usize) -> Verdict {
        let lines = lines(self.index, self.actors, self.crash, forced);
        let first = self.run(&lines, true, tries);
        let failed = match first {
            Err(failed) if failed.guessed => self.run(&lines, false, tries),
            first => first,
        };
        let mut failed = match failed {
            Ok(order) => return Ok(order),
            Err(failed) => failed,
        };
        let before = forced.len();
        if !failed.implied.is_empty() && *tries > 0 {
            forced.append(&mut failed.implied);
            let verdict = self.attempt(forced, tries);
            forced.truncate(before);
            return verdict;
        }
        for choice in &failed.choices {
            if *tries == 0 {
                failed.violation.guessed = true;
                break;
            }
            let (key, first, second) = *choice;
            forced.push(*choice);
            let found = self.attempt(forced, tries);
            if found.is_ok() {
                return found;
            }
            // Then it is the other way round.
            forced.pop();
            forced.push((key, second, first));
        }
        forced.truncate(before);
        failed.violation.guessed |= failed.guessed;
        Err(failed.violation)
    }

    /// Tries places of reads in an order of versions. `back` says which of two places is tried
    /// where both could be.
    fn run(&self, lines: &[Line], back: bool, tries: &mut usize) -> Result<Vec<usize>, Failed> {
        let mut placed = self.place(lines)?;
        let mut guessed = false;
        let mut narrow: Narrowed = HashMap::new();
        loop {
            *tries = tries.saturating_sub(1);
            let graph = Graph::of(self.rule, self.actors, lines, &placed, self.crash);
            let cycles = cycle::worst(&graph);
            if !cycles.is_empty() {
                let mut failed = self.failed(&graph, lines, &placed, &cycles, &narrow);
                if failed.choices.is_empty() && failed.implied.is_empty() {
                    let choices = &mut failed.choices;
                    narrow.keys().for_each(|at| self.around(lines, &placed[*at], choices));
                }
                return Err(Failed { guessed, ..failed });
            }
            let (run, misplaced) = Run::new(&graph, self.actors, lines, &placed);
            if misplaced.is_empty() {
                return Ok(self.numbers(&run));
            }
            if *tries == 0 {
                let violation = Violation::of_one(Anomaly::Undecided, "too many orders".into());
                return Err(Failed {
                    violation,
                    choices: Vec::new(),
                    implied: Vec::new(),
                    guessed,
                });
            }
            let narrowed = misplaced.into_iter().map(|(number, now)| {
                let (narrowed, path) = run.narrowed(number, now, back);
                guessed |= path.is_empty();
                (number, narrowed, path)
            });
            for (number, narrowed, path) in narrowed.collect::<Vec<_>>() {
                placed[number] = narrowed;
                narrow.entry(number).or_default().extend(path);
            }
        }
    }

    /// Returns what follows from the cycles, one of each knot.
    fn failed(
        &self,
        graph: &Graph,
        lines: &[Line],
        placed: &[Placed],
        cycles: &[Vec<Edge>],
        narrow: &Narrowed,
    ) -> Failed {
        let mut failed: Option<Failed> = None;
        let mut implied = Vec::new();
        // What depends on no choice is reported for the worst cycle.
        let count = |cycle: &[Edge], kind| cycle.iter().filter(|edge| edge.kind == kind).count();
        let mut cycles: Vec<&Vec<Edge>> = cycles.iter().collect();
        cycles.sort_by_key(|cycle| {
            let count = |kind| count(cycle, kind);
            (count(Kind::Time), count(Kind::Rw), count(Kind::Wr), cycle.len())
        });
        for cycle in cycles {
            let choices = self.choices(lines, placed, cycle, narrow);
            if let [choice] = choices[..] {
                implied.push(choice);
            }
            if choices.is_empty() || failed.is_none() {
                let violation = self.violation(graph, lines, cycle);
                let hard = choices.is_empty();
                failed = Some(Failed { violation, choices, implied: Vec::new(), guessed: false });
                if hard {
                    implied.clear();
                    break;
                }
            }
        }
        Failed { implied, ..failed.expect("there is a cycle") }
    }

    fn numbers(&self, run: &Run<'_>) -> Vec<usize> {
        let crash = self.crash.map(|at| self.actors[at].number);
        run.transactions().into_iter().filter(|number| Some(*number) != crash).collect()
    }

    /// Returns the place of each read among the versions.
    fn place(&self, lines: &[Line]) -> Result<Vec<Placed>, Failed> {
        let mut placed = Vec::new();
        for (actor, one) in self.actors.iter().enumerate() {
            for (number, read) in one.reads.iter().enumerate() {
                let (key, predicate) = (read.key, read.is_predicate());
                let line = &lines[key];
                let window = line.window(actor, self.actors, self.crash);
                let place = match read.cell().map(|cell| self.index.wrote[&cell.value].by) {
                    Some(by) => Some(self.at(line, by)),
                    None => line.place(actor, read, window),
                };
                let Some((low, high)) = place else {
                    let name = self.name(actor);
                    let what = format!("{name} saw {:?} of key {}", read.wants, line.key);
                    let violation = Violation::of_one(Anomaly::Fabricated, what);
                    return Err(Failed {
                        violation,
                        choices: Vec::new(),
                        implied: Vec::new(),
                        guessed: false,
                    });
                };
                placed.push(Placed { actor, read: number, key, low, high, window, predicate });
            }
        }
        Ok(placed)
    }

    /// Returns the place of the version of a transaction of the history.
    fn at(&self, line: &Line, number: Option<usize>) -> (usize, usize) {
        let actor = number.map(|number| self.of_number[&number]);
        let at = actor.map_or(0, |actor| line.position(actor).expect("it wrote it"));
        (at, at)
    }

    /// Orders of two versions that would undo the cycle, where nothing says that they are not so.
    fn choices(
        &self,
        lines: &[Line],
        placed: &[Placed],
        cycle: &[Edge],
        narrow: &Narrowed,
    ) -> Vec<Forced> {
        let mut choices = Vec::new();
        let mut met: Vec<usize> = Vec::new();
        let mut edges = cycle.to_vec();
        while let Some(edge) = edges.pop() {
            let (line, at) = (&lines[edge.key as usize], edge.at as usize);
            match edge.kind {
                Kind::Time | Kind::Inner => {}
                Kind::Ww => self.choice(line, &edge, (at + 1, at), &mut choices),
                Kind::Rw | Kind::Wr => {
                    let read = &placed[at];
                    for pair in self.other_places(line, read, edge.kind) {
                        self.choice(line, &edge, pair, &mut choices);
                    }
                    // The read is where it is because of these, which hang on choices, too.
                    if !met.contains(&at) {
                        met.push(at);
                        edges.extend(narrow.get(&at).into_iter().flatten());
                    }
                }
            }
        }
        choices
    }

    /// The first of these two versions may lie before the second one, if it is not known to lie
    /// after it.
    fn choice(
        &self,
        line: &Line,
        edge: &Edge,
        (first, second): (usize, usize),
        choices: &mut Vec<Forced>,
    ) {
        let actors = (line.versions[first].actor, line.versions[second].actor);
        let (Some(one), Some(other)) = actors else { return };
        let choice = (edge.key as usize, one, other);
        let is_open = !line.is_known(second, first) && !line.is_known(first, second);
        if one != other && is_open && !choices.contains(&choice) {
            choices.push(choice);
        }
    }

    /// Pairs of versions of which the first one would have to lie before the second one for a read
    /// to be elsewhere: after the version that replaced what it saw, or before the one that it saw.
    fn other_places(&self, line: &Line, placed: &Placed, kind: Kind) -> Vec<(usize, usize)> {
        let read = &self.actors[placed.actor].reads[placed.read];
        let Placed { low, high, window, .. } = *placed;
        if read.cell().is_some() {
            return if kind == Kind::Rw { vec![(high + 1, high)] } else { Vec::new() };
        }
        let own = line.position(placed.actor);
        let seen = (0..line.versions.len()).filter(|at| Some(*at) != own && line.is(*at, read));
        let pairs = seen.filter_map(|at| match kind {
            Kind::Rw if at <= high => Some((high + 1, at)),
            // It comes after what the reader cannot have seen.
            Kind::Rw => (window.1 + 1 < line.versions.len()).then_some((at, window.1 + 1)),
            _ if at > low => Some((at, low)),
            // It is before what the reader must have seen.
            _ => Some((window.0, at)),
        });
        pairs.collect()
    }

    /// All choices near a read whose place was found by trying.
    fn around(&self, lines: &[Line], placed: &Placed, choices: &mut Vec<Forced>) {
        let line = &lines[placed.key];
        for at in placed.window.0..placed.window.1.min(line.versions.len() - 1) {
            let pair = (line.versions[at].actor, line.versions[at + 1].actor);
            let (Some(first), Some(second)) = pair else { continue };
            let choice = (placed.key, second, first);
            if !line.is_known(at, at + 1) && !choices.contains(&choice) {
                choices.push(choice);
            }
        }
    }

    fn name(&self, actor: usize) -> String {
        let one = &self.actors[actor];
        name(one.number, one.session, self.crash == Some(actor))
    }

    fn violation(&self, graph: &Graph, lines: &[Line], cycle: &[Edge]) -> Box<Violation> {
        let anomaly = cycle::name_of(graph, cycle, self.crash);
        let edges = cycle.iter().filter(|edge| edge.kind != Kind::Inner);
        let steps: Vec<String> = edges.map(|edge| self.said(graph, lines, edge)).collect();
        let length = steps.len();
        Box::new(Violation { anomaly, steps, length, guessed: false })
    }

    fn said(&self, graph: &Graph, lines: &[Line], edge: &Edge) -> String {
        let (from, to) = (graph.actor(edge.from), graph.actor(edge.to));
        let (first, second) = (self.name(from), self.name(to));
        let line = &lines[edge.key as usize];
        let of = |actor: usize| {
            let cell = line.position(actor).and_then(|at| line.versions[at].cell);
            cell.map_or("its deletion".into(), |cell| format!("the value {}", cell.value))
        };
        let key = line.key;
        match edge.kind {
            Kind::Ww => format!("{second} replaced what {first} wrote to key {key}, {}", of(from)),
            Kind::Wr => format!("{second} saw what {first} wrote to key {key}, {}", of(from)),
            Kind::Rw if edge.predicate => {
                format!(
                    "{first} scanned and did not see what {second} did to key {key}, {}",
                    of(to)
                )
            }
            Kind::Rw => format!("{first} did not see what {second} did to key {key}, {}", of(to)),
            Kind::Time if self.crash == Some(to) => {
                format!("{first} was acknowledged as durable before the crash")
            }
            Kind::Time => format!("{first} was acknowledged before {second} began"),
            Kind::Inner => String::new(),
        }
    }
}
