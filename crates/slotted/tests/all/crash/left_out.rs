//! Each flush, fence and ordered store of the crate, left out in turn: a power cut in a story, in
//! the recovery from one or after a kill shows it.

use sim::{Instruction, Recording, Replay};
use slotted::Scheme;

use super::story::{Next, Story, after_kills, after_power_cuts, story, verdict};

/// Instructions that nothing here notices: a scheme or all of them, what it is, the end of the line
/// in the source or its file, and the reason.
const UNNEEDED: [(&str, &str, &str, &str); 11] = [
    (
        "",
        "fence",
        "lane.fence_flushed();",
        "after a mini-transaction of the heap, for a change of one of its words next in another \
         way, such as a persisted bit next to the segment's; the store makes none, others on the lane may",
    ),
    (
        "fash",
        "store",
        "log.checkpoint(marked, &frames, &mut lines);",
        "the zero of a mark whose headers are durable: storing them again changes nothing, since headers \
         change by the log alone, and frames that are overwritten no longer match the mark. FAST, with \
         the same line, cannot do without",
    ),
    ("fash", "store", "log.recover()?;", "the same zero, after recovery"),
    (
        "fash1",
        "store",
        "self.memory.store(Off::new(log), 0);",
        "empties a log that does not match: it could when the transaction is repeated, which `again.rs` does",
    ),
    (
        "fast1",
        "store",
        "log.recover()?;",
        "the same, and the zero of a log whose headers are durable, which recovery settles",
    ),
    (
        "fast1",
        "",
        "epoch.rs",
        "what a number that is not durable, or a line that stays, does is rare: `again.rs` looks for it, \
         and leaves out what makes the number durable",
    ),
    (
        "word",
        "store",
        "log.checkpoint(marked, &frames, &mut lines);",
        "commits in place are rare in these stories; FAST, which has the same line, shows it",
    ),
    ("word", "store", "log.recover()?;", "the same, after recovery"),
    (
        "word",
        "",
        "flush_in_place(log.memory(), Range::new(page, WORD_BYTES as u64));",
        "the same, after a kill",
    ),
    ("word", "store", "memory.store(self.in_place, page);", "the same"),
    (
        "journal",
        "store",
        "log.recover()?;",
        "the zero of a journal that was rolled back: rolling back again changes nothing until pages are \
         overwritten, and then the journal has another mark",
    ),
];

pub(crate) fn is_noticed<S: Scheme<Recording>>(seed: u64) {
    let run = story::<S>(seed, 30);
    let mut left = run.trace.instructions();
    let killed = story::<S>(seed + 2, 12);
    let nexts = [
        after_power_cuts::<S>(&story::<S>(seed + 1, 8), 2).unwrap(),
        after_kills::<S>(&killed, 45).unwrap(),
    ];
    for one in nexts.iter().flatten().flat_map(|next| next.trace.instructions()) {
        if !left.contains(&one) {
            left.push(one);
        }
    }
    left.retain(|one| one.site.file().contains("slotted/src"));
    let all = left.len();
    left.retain(|one| !is_unneeded(S::NAME, one));
    let listed = all - left.len();
    left.retain(|one| {
        let trace = run.trace.without(*one);
        let explored = Replay::new(&trace)
            .explore(10, 11, |image, noted| verdict::<S>(image, &run.acknowledged, noted));
        explored.failed.is_none()
    });
    for nexts in &nexts {
        left.retain(|one| !nexts.iter().any(|next| shows::<S>(next, *one)));
    }
    left.retain(|one| !shows_in_kills::<S>(&killed, *one));
    println!("{}: {all} instructions, {listed} of them listed", S::NAME);
    let unseen: Vec<String> = left.iter().map(ToString::to_string).collect();
    assert_eq!(unseen, [""; 0], "{}", S::NAME);
}

/// Returns whether a power cut of this process shows that an instruction is missing.
fn shows<S: Scheme<Recording>>(next: &Next, left_out: Instruction) -> bool {
    let trace = next.trace.without(left_out);
    let explored = next
        .replay(&trace)
        .explore(6, 11, |image, noted| verdict::<S>(image, &next.acknowledged, noted));
    explored.failed.is_some()
}

/// The same, where the killed process does not have the instruction either.
fn shows_in_kills<S: Scheme<Recording>>(killed: &Story, left_out: Instruction) -> bool {
    let (trace, acknowledged) = (killed.trace.without(left_out), killed.acknowledged.clone());
    let nexts = after_kills::<S>(&Story { trace, acknowledged }, 45);
    nexts.is_err() || nexts.is_ok_and(|nexts| nexts.iter().any(|next| shows::<S>(next, left_out)))
}

fn is_unneeded(scheme: &str, one: &Instruction) -> bool {
    let path = one.site.file();
    let path = path.rsplit("slotted/").next().unwrap_or_default();
    let source = std::fs::read_to_string(path).unwrap();
    let line = source.lines().nth(one.site.line() as usize - 1).unwrap_or_default();
    UNNEEDED.iter().any(|(of, what, end, _)| {
        (of.is_empty() || *of == scheme)
            && one.to_string().starts_with(what)
            && (line.trim().ends_with(end) || path.ends_with(end))
    })
}
