//! Places in the source, as people read them.

use std::collections::BTreeMap;
use std::path::Path;

/// The files that were asked for, by their path from the root of the workspace.
#[derive(Default)]
pub(crate) struct Sources(BTreeMap<String, Vec<String>>);

/// A place in the source: the file, the function, the line's text.
pub(crate) type Place = (String, String, String);

impl Sources {
    /// The place that `file:line` names.
    pub(crate) fn place(&mut self, name: &str) -> Place {
        let (file, line) = name.rsplit_once(':').expect("a file and a line");
        let line: usize = line.parse().expect("a line's number");
        let lines = self.0.entry(file.into()).or_insert_with(|| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            let text = std::fs::read_to_string(root.join(file)).expect("a source file");
            text.lines().map(Into::into).collect()
        });
        let function = lines[..line].iter().rev().find_map(|line| {
            let (_, rest) = line.split_once("fn ")?;
            (line.trim_start().starts_with("fn ") || line.trim_start().starts_with("pub"))
                .then(|| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())?
        });
        (file.into(), function.unwrap_or_default().into(), lines[line - 1].trim().into())
    }
}

/// A place that a test expects, and why: the end of the file's path, the function, a part of the
/// line.
pub(crate) type Explained = (&'static str, &'static str, &'static str, &'static str);

/// Returns true if a place is explained.
pub(crate) fn explains(explained: &Explained, place: &Place) -> bool {
    place.0.ends_with(explained.0) && place.1 == explained.1 && place.2.contains(explained.2)
}

/// The places without an explanation, and the explanations without a place.
pub(crate) fn unexplained(
    found: impl IntoIterator<Item = String>,
    explained: &[Explained],
) -> (Vec<String>, Vec<&'static str>) {
    let mut sources = Sources::default();
    let places: Vec<_> = found.into_iter().map(|name| (sources.place(&name), name)).collect();
    let open = places
        .iter()
        .filter(|(place, _)| !explained.iter().any(|one| explains(one, place)))
        .map(|((_, function, text), name)| format!("{name}, {function}: {text}"))
        .collect();
    let stale = explained
        .iter()
        .filter(|one| !places.iter().any(|(place, _)| explains(one, place)))
        .map(|one| one.2)
        .collect();
    (open, stale)
}
