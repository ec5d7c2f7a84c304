//! The selection of the values that a claim is about.

use super::{Claim, Narrowing, Side};
use crate::point::{Point, X};

/// The number of a point that is taken: with an interval there are three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// The value itself.
    Middle,
    /// The low end of what was emulated.
    Low,
    /// The high end of what was emulated.
    High,
    /// The number as low as several runs of what was measured allow.
    Least,
    /// The number as high as they allow.
    Most,
}

impl View {
    pub(super) const ALL: [Self; 3] = [Self::Middle, Self::Low, Self::High];

    fn of(self, point: &Point) -> f64 {
        match (self, &point.emulated) {
            (Self::Low, Some(_)) | (Self::Least, None) => point.low,
            (Self::High, Some(_)) | (Self::Most, None) => point.high,
            _ => point.value,
        }
    }

    /// The bound that goes with it on the other side of a comparison: runs of two things are slow
    /// and fast by themselves, while the ends of what was emulated are two assumptions about all of
    /// it.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Least => Self::Most,
            Self::Most => Self::Least,
            same => same,
        }
    }
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) experiment: String,
    pub(super) series: String,
    pub(super) panel: String,
    pub(super) x: X,
}

impl Place {
    fn replaced(&self, side: &Side) -> Self {
        let text = |new: &Option<String>, old: &String| new.clone().unwrap_or_else(|| old.clone());
        Self {
            experiment: text(&side.experiment, &self.experiment),
            series: text(&side.series, &self.series),
            panel: text(&side.panel, &self.panel),
            x: side.x.clone().unwrap_or_else(|| self.x.clone()),
        }
    }

    pub(super) fn text(&self) -> String {
        let parts = [self.series.clone(), self.panel.clone(), self.x.to_string()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{} {}", self.experiment, parts.join(" "))
    }
}

/// A value that a claim is about: a point, or the ratio of two.
#[derive(Debug, Clone)]
pub(super) struct Selected {
    /// The point, or the first of the two.
    pub(super) place: Place,
    /// The second of the two.
    pub(super) over: Option<Place>,
    pub(super) value: f64,
    pub(super) emulated: bool,
}

impl Selected {
    /// A short name: `nvm-cow / cow, low, read-only`.
    pub(super) fn text(&self) -> String {
        let Some(over) = &self.over else { return self.place.text() };
        let one = &self.place;
        let mut differing = Vec::new();
        let mut same = Vec::new();
        let fields = [
            (one.experiment.clone(), over.experiment.clone(), false),
            (one.series.clone(), over.series.clone(), true),
            (one.panel.clone(), over.panel.clone(), true),
            (one.x.to_string(), over.x.to_string(), true),
        ];
        for (first, second, shown) in fields {
            if first != second {
                differing.push(format!("{first} / {second}"));
            } else if shown && !first.is_empty() {
                same.push(first);
            }
        }
        differing.into_iter().chain(same).collect::<Vec<_>>().join(", ")
    }
}

/// All values that a claim selects, narrowed further; an error says what is missing.
pub(super) fn select(
    claim: &Claim,
    narrowing: &Narrowing,
    points: &[Point],
    view: View,
) -> Result<Vec<Selected>, String> {
    let pick = |narrow: &Vec<String>, wide: &Vec<String>| match narrow.is_empty() {
        true => wide.clone(),
        false => narrow.clone(),
    };
    let series = pick(&narrowing.series, &claim.series);
    let panels = pick(&narrowing.panel, &claim.panel);
    let xs = if narrowing.x.is_empty() { claim.x.clone() } else { narrowing.x.clone() };
    let there: Vec<&Point> = points
        .iter()
        .filter(|point| point.experiment == claim.experiment && point.metric == claim.metric)
        .collect();
    if there.is_empty() {
        return Err(format!("there are no results of {} yet", claim.experiment));
    }
    // A dimension that the pairs replace needs no values of its own.
    let replaces = |has: fn(&Side) -> bool| {
        !claim.pairs.is_empty() && claim.pairs.iter().all(|(one, two)| has(one) && has(two))
    };
    let all = |given: Vec<String>, of: fn(&Point) -> &String, replaced: bool| {
        let mut names = given;
        if names.is_empty() && !replaced {
            for point in &there {
                if !names.contains(of(point)) {
                    names.push(of(point).clone());
                }
            }
        }
        if names.is_empty() { vec![String::new()] } else { names }
    };
    let series = all(series, |point| &point.series, replaces(|side| side.series.is_some()));
    let panels = all(panels, |point| &point.panel, replaces(|side| side.panel.is_some()));
    let x_is_replaced = replaces(|side| side.x.is_some());
    // All that a series has: not every engine can be at every place of an axis.
    let xs_of = |series: &String| {
        let mut all = xs.clone();
        if all.is_empty() && !x_is_replaced {
            let of = |point: &&&Point| series.is_empty() || point.series == *series;
            for point in there.iter().filter(of) {
                if !all.contains(&point.x) {
                    all.push(point.x.clone());
                }
            }
        }
        if all.is_empty() { vec![X::Number(0.0)] } else { all }
    };
    let mut selected = Vec::new();
    for panel in &panels {
        for series in &series {
            for x in &xs_of(series) {
                let place = Place {
                    experiment: claim.experiment.clone(),
                    series: series.clone(),
                    panel: panel.clone(),
                    x: x.clone(),
                };
                selected.extend(values(claim, &place, points, view)?);
            }
        }
    }
    Ok(selected)
}

/// The value at a place, or all ratios around it.
fn values(
    claim: &Claim,
    place: &Place,
    points: &[Point],
    view: View,
) -> Result<Vec<Selected>, String> {
    let find = |place: &Place| {
        let found = points.iter().find(|point| {
            point.experiment == place.experiment
                && point.metric == claim.metric
                && point.series == place.series
                && point.panel == place.panel
                && point.x == place.x
        });
        found.ok_or_else(|| format!("the results lack {} ({})", place.text(), claim.metric))
    };
    if claim.pairs.is_empty() {
        let point = find(place)?;
        let (value, emulated) = (view.of(point), point.emulated.is_some());
        return Ok(vec![Selected { place: place.clone(), over: None, value, emulated }]);
    }
    let pair = |(one, two): &(Side, Side)| {
        let (place, over) = (place.replaced(one), place.replaced(two));
        let (first, second) = (find(&place)?, find(&over)?);
        let (above, below) = (view.of(first), view.other().of(second));
        if below == 0.0 {
            return Err(format!("{} is 0, and cannot be divided by", over.text()));
        }
        let emulated = first.emulated.is_some() || second.emulated.is_some();
        Ok(Selected { place, over: Some(over), value: above / below, emulated })
    };
    claim.pairs.iter().map(pair).collect()
}
