//! The outcomes in two settings side by side, and what follows from both.

use super::{Tested, Verdict};
use crate::setting::PaperSetting;

/// One claim in both settings.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// The verdict in our setting.
    pub ours: &'a Tested,
    /// The verdict in the paper's setting; `None` if it was not tested there at all.
    pub papers: Option<&'a Tested>,
}

/// Puts together what belongs together.
#[must_use]
pub fn pairs<'a>(ours: &'a [Tested], papers: &'a [Tested]) -> Vec<Pair<'a>> {
    let of = |ours: &'a Tested| {
        let papers = papers.iter().find(|papers| papers.claim == ours.claim);
        Pair { ours, papers }
    };
    ours.iter().map(of).collect()
}

/// Describes in one paragraph what the verdicts in both settings mean: which claims the setting
/// decides, and which it does not.
#[must_use]
pub fn follows(ours: &[Tested], papers: &[Tested]) -> String {
    use Verdict::{NotReproduced, NotTestable, Reproduced};
    let is_tested = |one: &Tested| one.verdict != Verdict::NotTestable;
    if !papers.iter().any(is_tested) {
        return "Nothing was measured in the paper's setting.".into();
    }
    let pairs = pairs(ours, papers);
    let with_verdicts = |ours: Verdict, papers: Verdict| -> Vec<&str> {
        let is = |pair: &&Pair<'_>| {
            let there = pair.papers.map_or(Verdict::NotTestable, |one| one.verdict);
            (pair.ours.verdict, there) == (ours, papers)
        };
        pairs.iter().filter(is).map(|pair| pair.ours.claim.as_str()).collect()
    };
    let gained = with_verdicts(NotReproduced, Reproduced);
    let lost = with_verdicts(Reproduced, NotReproduced);
    let (neither, both) =
        (with_verdicts(NotReproduced, NotReproduced), with_verdicts(Reproduced, Reproduced));
    let not_here =
        [with_verdicts(NotReproduced, NotTestable), with_verdicts(Reproduced, NotTestable)]
            .concat();
    let failed = ours.iter().filter(|one| one.verdict == NotReproduced).count();
    let mut text = format!(
        "In the paper's setting {}. Of the {failed} that ours does not reproduce it reproduces {}. ",
        PaperSetting::p1().description(),
        listed(&gained)
    );
    if !gained.is_empty() {
        text += "There the setting decides, as far as one run can tell. ";
    }
    if !neither.is_empty() {
        text += &format!(
            "Neither setting reproduces {}: there the reason is the engines, the machine or the \
             sizes, and stands with each. ",
            listed(&neither)
        );
    }
    if !lost.is_empty() {
        text += &format!("Ours alone reproduces {}. ", listed(&lost));
    }
    text += &format!("Both reproduce {}.", listed(&both));
    if !not_here.is_empty() {
        text += &format!(" The paper's setting does not test {}.", listed(&not_here));
    }
    let decided = |one: &&Tested| one.within_spread;
    let mut unsure: Vec<&str> =
        ours.iter().chain(papers).filter(decided).map(|one| one.claim.as_str()).collect();
    unsure.sort_unstable();
    unsure.dedup();
    if !unsure.is_empty() {
        text += &format!(" Another run may give another verdict on {}.", listed(&unsure));
    }
    text
}

/// Returns the number of claims, and their names.
fn listed(claims: &[&str]) -> String {
    match claims {
        [] => "none".into(),
        claims => format!("{} ({})", claims.len(), claims.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{claims, test};
    use crate::setting::Setting;

    fn tested(setting: Setting, verdicts: &[Verdict]) -> Vec<Tested> {
        let mut all = test(&claims().expect("read"), &[], &[], None, setting);
        all.truncate(verdicts.len());
        for (number, (one, verdict)) in all.iter_mut().zip(verdicts).enumerate() {
            one.claim = format!("C{number}");
            one.verdict = *verdict;
        }
        all
    }

    #[test]
    fn conclusions_follow_from_the_verdicts() {
        use Verdict::{NotReproduced as No, NotTestable as Open, Reproduced as Yes};
        let ours = tested(Setting::Ours, &[No, No, No, Yes, Yes, Yes]);
        let mut papers = tested(Setting::Paper, &[Yes, No, Open, Yes, No, Open]);
        let text = follows(&ours, &papers);
        for part in [
            "commit in groups of 64",
            "Of the 3 that ours does not reproduce it reproduces 1 (C0).",
            "There the setting decides",
            "Neither setting reproduces 1 (C1)",
            "Ours alone reproduces 1 (C4).",
            "Both reproduce 1 (C3).",
            "does not test 2 (C2, C5).",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("Another run"), "{text}");
        papers[1].within_spread = true;
        assert!(follows(&ours, &papers).ends_with("another verdict on 1 (C1)."));

        let none = follows(&tested(Setting::Ours, &[No]), &tested(Setting::Paper, &[No]));
        assert!(none.contains("it reproduces none. Neither"), "{none}");
        let open = follows(&ours, &tested(Setting::Paper, &[Open, Open]));
        assert_eq!(open, "Nothing was measured in the paper's setting.");
    }

    #[test]
    fn a_claim_is_paired_with_itself() {
        let ours = tested(Setting::Ours, &[Verdict::Reproduced, Verdict::NotReproduced]);
        let mut papers = tested(Setting::Paper, &[Verdict::Reproduced, Verdict::NotReproduced]);
        papers.swap(0, 1);
        papers.pop();
        let pairs = pairs(&ours, &papers);
        assert!(pairs[0].papers.is_none());
        assert_eq!(pairs[1].papers.map(|one| one.claim.as_str()), Some("C1"));
    }
}
