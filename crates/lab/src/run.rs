//! A run: measures the cells that are missing.
//!
//! Cells that are there already are left alone; each one that is measured is saved before the next
//! one begins. So a run that was stopped in any way continues when it is started again. Cells that
//! there is no room for are not begun.

use std::cell::{Cell as Shared, RefCell};
use std::time::{Duration, Instant};

use workloads::Room;

use crate::bench::{Bench, Watch};
use crate::claims::Missing;
use crate::error::LabError;
use crate::experiments::{EXPERIMENTS, Experiment, studies};
use crate::host::Host;
use crate::results::{Key, Results};
use crate::room::Takes;
use crate::scale::Sizes;
use crate::setting::Setting;
use crate::studies::{Cell, Stage, Study};

/// Under which names results are saved.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The version of the source.
    pub commit: String,
    /// The machine.
    pub host: Host,
    /// The seed of keys and values.
    pub seed: u64,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Far {
    /// Cells done, those that were there before included.
    pub done: usize,
    /// All cells.
    pub all: usize,
    /// Share of the work done, 0 to 1.
    pub share: f64,
    /// The time that is left; `None` until something has been measured.
    pub left: Option<Duration>,
}

/// Receives the progress of a run.
pub trait Audience: Watch {
    /// Reports the progress.
    fn far(&self, far: Far);
}

impl Audience for () {
    fn far(&self, _: Far) {}
}

/// One stage and what of it is missing.
struct Part {
    study: Study,
    stage: Box<dyn Stage>,
    missing: Vec<usize>,
}

/// The measurements to be done.
pub struct Plan {
    parts: Vec<Part>,
    identity: Identity,
    sizes: Sizes,
    all: usize,
}

/// A study, and how much of it is there.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyStatus {
    /// The study.
    pub study: Study,
    /// Cells that are there.
    pub done: usize,
    /// All cells.
    pub all: usize,
    /// About how long the rest takes, in seconds.
    pub left_s: f64,
}

impl Plan {
    /// Looks at what is there.
    ///
    /// # Errors
    /// The results cannot be read.
    pub fn new(
        results: &Results,
        experiments: &[&Experiment],
        sizes: Sizes,
        identity: Identity,
    ) -> Result<Self, LabError> {
        let (mut parts, mut all) = (Vec::new(), 0);
        for study in studies(experiments) {
            for stage in study.stages(&sizes) {
                let mut missing = Vec::new();
                for (number, cell) in stage.cells().iter().enumerate() {
                    let key = key(&identity, study, &sizes, &cell.configuration);
                    if !results.contains(&key)? {
                        missing.push(number);
                    }
                }
                all += stage.cells().len();
                parts.push(Part { study, stage, missing });
            }
        }
        Ok(Self { parts, identity, sizes, all })
    }

    /// Cells that are missing.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.parts.iter().map(|part| part.missing.len()).sum()
    }

    /// All cells.
    #[must_use]
    pub fn all(&self) -> usize {
        self.all
    }

    /// About how long it takes, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.parts.iter().map(Part::weight).sum()
    }

    /// Study by study.
    #[must_use]
    pub fn status(&self) -> Vec<StudyStatus> {
        let mut all: Vec<StudyStatus> = Vec::new();
        for part in &self.parts {
            let (cells, missing) = (part.stage.cells().len(), part.missing.len());
            if all.last().is_none_or(|last| last.study != part.study) {
                all.push(StudyStatus { study: part.study, done: 0, all: 0, left_s: 0.0 });
            }
            let last = all.last_mut().expect("one was pushed");
            last.done += cells - missing;
            last.all += cells;
            last.left_s += part.weight();
        }
        all
    }

    /// Returns the missing parts of studies of which something is there, for each setting by
    /// itself.
    #[must_use]
    pub fn incomplete(&self) -> Vec<Missing> {
        let mut all = Vec::new();
        for (setting, status) in Setting::ALL
            .into_iter()
            .flat_map(|setting| self.status().into_iter().map(move |status| (setting, status)))
        {
            let study = status.study;
            let parts = self.parts.iter().filter(|part| part.study == study);
            let (mut wanted, mut cells) = (0, Vec::new());
            for part in parts {
                let of = part.stage.cells();
                let is_of = |cell: &Cell| Setting::of(&cell.configuration) == setting;
                wanted += of.iter().filter(|cell| is_of(cell)).count();
                let missing = part.missing.iter().map(|&number| &of[number]);
                cells.extend(
                    missing.filter(|cell| is_of(cell)).map(|cell| (cell.label.clone(), cell.of())),
                );
            }
            if cells.is_empty() || cells.len() == wanted {
                continue;
            }
            let of = |experiment: &&Experiment| experiment.study == study;
            let experiments = EXPERIMENTS.iter().filter(of).map(|one| one.id).collect();
            all.push(Missing { setting, experiments, all: wanted, cells });
        }
        all
    }

    /// Looks whether there is room for all that is missing.
    ///
    /// # Errors
    /// [`LabError::NoRoom`] names each study for which there is not.
    pub fn check_room(&self, room: &Room) -> Result<(), LabError> {
        let mut most: Vec<(Study, Takes)> = Vec::new();
        for part in &self.parts {
            let cells = part.stage.cells();
            for takes in part.missing.iter().map(|&number| cells[number].takes) {
                match most.iter_mut().find(|(study, _)| *study == part.study) {
                    Some((_, known)) => *known = known.max(takes),
                    None => most.push((part.study, takes)),
                }
            }
        }
        let lacking = most.into_iter().filter_map(|(study, takes)| {
            let of = |experiment: &&Experiment| experiment.study == study;
            let ids: Vec<&str> = EXPERIMENTS.iter().filter(of).map(|one| one.id).collect();
            let why = takes.lacking(room)?;
            Some(format!("{} (for {}): {why}", study.name(), ids.join(", ")))
        });
        let lacking: Vec<String> = lacking.collect();
        if lacking.is_empty() { Ok(()) } else { Err(LabError::NoRoom { lacking }) }
    }

    /// Measures all that is missing. A measurement that fails does not keep the others from being
    /// made, nor does one for which there is no room at the moment when it should begin.
    ///
    /// # Errors
    /// The results cannot be written, and nothing more is measured; or, once all others are made,
    /// measurements that failed. What was measured is saved.
    pub fn run(
        &self,
        results: &mut Results,
        bench: &Bench<'_>,
        audience: &dyn Audience,
    ) -> Result<(), LabError> {
        let _lock = results.lock()?;
        results.note_host(&self.identity.host)?;
        let host = self.identity.host.key();
        let commit = &self.identity.commit;
        let lines = results.calibrations(&host, commit)?;
        bench.calibrations.learn(lines, results.file_costs(&host, commit)?);
        let clock = Clock::new(self.all - self.missing(), self.all, self.seconds());
        let file = results.path().to_owned();
        let results = RefCell::new(results);
        audience.far(clock.far());
        let mut failures = Vec::new();
        for part in self.parts.iter().filter(|part| !part.missing.is_empty()) {
            let cells = part.stage.cells();
            let begun = Shared::new(Instant::now());
            let mut missing = &part.missing[..];
            while let Some((&first, rest)) = missing.split_first() {
                let room = (bench.room)();
                let lacks =
                    |number: usize| room.and_then(|room| cells[number].takes.lacking(&room));
                if let Some(why) = lacks(first) {
                    failures.push(format!("{}: there is no room: {why}", cells[first].label));
                    clock.gave_up(cells[first].weight);
                    missing = rest;
                    continue;
                }
                let fitting = missing.iter().take_while(|&&number| lacks(number).is_none()).count();
                let (now, later) = missing.split_at(fitting);
                let saved = Shared::new(0);
                let outcome = part.stage.measure(bench, now, &mut |number, points| {
                    let cell = &cells[number];
                    let key = key(&self.identity, part.study, &self.sizes, &cell.configuration);
                    let seconds = begun.replace(Instant::now()).elapsed().as_secs_f64();
                    let mut results = results.borrow_mut();
                    results.note_calibrations(&host, commit, &bench.calibrations.lines())?;
                    if let Some(files) = bench.calibrations.files() {
                        results.note_file_costs(&host, commit, &files)?;
                    }
                    results.save(&key, &cell.scaled, seconds, points)?;
                    saved.set(saved.get() + 1);
                    clock.finished(cell.weight, seconds);
                    audience.far(clock.far());
                    Ok(())
                });
                match outcome {
                    Ok(()) => missing = later,
                    // The first cell that was not saved has failed.
                    Err(error) if !error.is_of_results(&file) && saved.get() < fitting => {
                        let failed = missing[saved.get()];
                        failures.push(format!("{}: {error}", cells[failed].label));
                        clock.gave_up(cells[failed].weight);
                        audience.far(clock.far());
                        begun.set(Instant::now());
                        missing = &missing[saved.get() + 1..];
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(LabError::Failures { failures }) }
    }
}

impl Part {
    fn weight(&self) -> f64 {
        self.missing.iter().map(|&number| self.stage.cells()[number].weight).sum()
    }
}

fn key(identity: &Identity, study: Study, sizes: &Sizes, configuration: &str) -> Key {
    Key {
        study: study.name().to_owned(),
        configuration: configuration.to_owned(),
        scale: sizes.name(),
        commit: identity.commit.clone(),
        host: identity.host.key(),
        seed: identity.seed,
    }
}

/// Estimates the time left: what the rest weighs, at the pace so far.
struct Clock {
    done: Shared<usize>,
    all: usize,
    /// Seconds that what was measured has taken, and what it weighs.
    spent: Shared<f64>,
    weighed: Shared<f64>,
    /// The weight of all that has been or is still to be measured.
    weight: Shared<f64>,
}

impl Clock {
    fn new(done: usize, all: usize, weight: f64) -> Self {
        let nothing = || Shared::new(0.0);
        let (done, weight) = (Shared::new(done), Shared::new(weight));
        Self { done, all, spent: nothing(), weighed: nothing(), weight }
    }

    fn finished(&self, weight: f64, seconds: f64) {
        self.done.set(self.done.get() + 1);
        self.spent.set(self.spent.get() + seconds);
        self.weighed.set(self.weighed.get() + weight);
    }

    /// Takes a failed measurement out: it is not to be waited for, and how long it took says
    /// nothing of the rest.
    fn gave_up(&self, weight: f64) {
        self.weight.set(self.weight.get() - weight);
    }

    fn far(&self) -> Far {
        let (weighed, weight) = (self.weighed.get(), self.weight.get());
        let rest = (weight - weighed).max(0.0);
        let left = (weighed > 0.0).then(|| self.spent.get() / weighed * rest);
        Far {
            done: self.done.get(),
            all: self.all,
            share: if weight > 0.0 { (weighed / weight).min(1.0) } else { 1.0 },
            left: left.map(|seconds| Duration::from_secs_f64(seconds.min(1e8))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_what_was_measured() {
        let clock = Clock::new(1, 5, 40.0);
        assert_eq!(clock.far(), Far { done: 1, all: 5, share: 0.0, left: None });
        clock.finished(10.0, 20.0);
        let far = clock.far();
        assert_eq!((far.done, far.share, far.left), (2, 0.25, Some(Duration::from_secs(60))));
        // It fails, whenever it does.
        clock.gave_up(10.0);
        let far = clock.far();
        assert_eq!((far.done, far.left), (2, Some(Duration::from_secs(40))));
        clock.finished(10.0, 40.0);
        clock.gave_up(10.0);
        let far = clock.far();
        assert_eq!((far.done, far.share, far.left), (3, 1.0, Some(Duration::ZERO)));
    }
}
