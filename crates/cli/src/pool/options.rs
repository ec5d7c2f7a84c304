//! `perdura pool options`: what can be chosen about each engine.

use command::failure::Failure;
use command::output::{check_target, report};
use command::units::{bytes, grouped};
use perdura::{EngineKind, EngineOption};
use serde::Serialize;

use crate::args::OptionsArgs;

/// The output of `pool options --json`.
#[derive(Debug, Serialize)]
struct Report {
    perdura: &'static str,
    options: Vec<Listed>,
}

/// An option of an engine.
#[derive(Debug, Serialize)]
struct Listed {
    engine: &'static str,
    name: &'static str,
    default: u64,
    least: u64,
    /// `null`: as much as there is room for.
    most: Option<u64>,
    unit: &'static str,
    fixed_at_creation: bool,
    meaning: &'static str,
}

impl Listed {
    fn new(kind: EngineKind, option: &EngineOption) -> Self {
        let EngineOption { name, meaning, unit, default, least, most, fixed } = *option;
        let most = (most != u64::MAX).then_some(most);
        let engine = kind.name();
        Self { engine, name, default, least, most, unit, fixed_at_creation: fixed, meaning }
    }
}

pub(super) fn run(args: &OptionsArgs) -> Result<(), Failure> {
    check_target(args.json.as_ref(), &[])?;
    let engines = args.engine.as_ref().map_or(&EngineKind::ALL[..], |list| &list.0);
    let text: String = engines.iter().map(|kind| text(*kind)).collect();
    let options = engines
        .iter()
        .flat_map(|kind| kind.options().iter().map(|option| Listed::new(*kind, option)))
        .collect();
    let value = Report { perdura: env!("CARGO_PKG_VERSION"), options };
    report(text.trim_start(), &value, args.json.as_ref())
}

/// A number with its unit.
fn amount(number: u64, unit: &str) -> String {
    if unit == "bytes" { bytes(number) } else { grouped(number) }
}

fn text(kind: EngineKind) -> String {
    let mut text = format!("\n{kind}\n");
    for option in kind.options() {
        let EngineOption { name, meaning, unit, default, least, most, fixed } = *option;
        let limits = if most == u64::MAX {
            format!("{} at least", amount(least, unit))
        } else {
            format!("{} to {}", amount(least, unit), amount(most, unit))
        };
        let fixed = if fixed { "; fixed at creation" } else { "" };
        text += &format!("  {name:<20}{} ({limits}{fixed})\n", amount(default, unit));
        text += &format!("  {:<20}{meaning}\n", "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_option_of_every_engine() {
        for kind in EngineKind::ALL {
            let text = text(kind);
            assert_eq!(text.lines().count(), 2 + 2 * kind.options().len(), "{text}");
            for option in kind.options() {
                let line = text.lines().position(|line| {
                    line.strip_prefix("  ").is_some_and(|line| line.starts_with(option.name))
                });
                let line = line.unwrap_or_else(|| panic!("{} in {text}", option.name));
                let meaning = text.lines().nth(line + 1).expect("its meaning is the next line");
                assert_eq!(meaning.trim_start(), option.meaning);
            }
        }
    }
}
