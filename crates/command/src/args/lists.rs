//! Values of options that name several things, or one of the medium's.

use std::fmt::Display;
use std::str::FromStr;

use perdura::{Domain, EngineKind};
use pm::Escaped;

/// A domain, or the medium's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainChoice(pub Option<Domain>);

/// A list whose items were given by comma, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

/// Reads a list of items by comma, each once; `all` stands for all of them, if there are so many, and
/// `none` for nothing.
///
/// # Errors
/// The first word that is no item.
pub fn list<T: FromStr + Copy + PartialEq>(text: &str, all: Option<&[T]>) -> Result<List<T>, String>
where
    T::Err: Display,
{
    let mut items = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !matches!(*word, "" | "none")) {
        let more = match all {
            Some(all) if word == "all" => all.to_vec(),
            _ => vec![word.parse().map_err(|error: T::Err| Escaped(error).to_string())?],
        };
        for item in more {
            if !items.contains(&item) {
                items.push(item);
            }
        }
    }
    Ok(List(items))
}

/// Refuses an empty list.
///
/// # Errors
/// It is empty.
pub fn not_empty<T>(list: List<T>) -> Result<List<T>, String> {
    if list.0.is_empty() { Err("name at least one".into()) } else { Ok(list) }
}

/// Reads a list of engines; `p1` stands for those of the first paper.
///
/// # Errors
/// The first word that is no engine.
pub fn engines(text: &str) -> Result<List<EngineKind>, String> {
    if text.split(',').any(|word| word.trim() == "paged") {
        let why = "figures are of one engine: name nv-disk, which `paged` is on a disk, or nv-logging-foc";
        return Err(why.into());
    }
    let p1 = EngineKind::P1.map(EngineKind::name).join(",");
    let words = text.split(',').map(|word| if word.trim() == "p1" { p1.as_str() } else { word });
    list(&words.collect::<Vec<_>>().join(","), Some(&EngineKind::ALL))
}

/// Reads a list of at least one engine.
///
/// # Errors
/// As [`engines`], or it is empty.
pub fn some_engines(text: &str) -> Result<List<EngineKind>, String> {
    engines(text).and_then(not_empty)
}

/// Reads a list of at least one domain.
///
/// # Errors
/// The first word that is no domain.
pub fn domains(text: &str) -> Result<List<Domain>, String> {
    list(text, None).and_then(not_empty)
}

/// Reads a domain, or `auto` for the medium's own.
///
/// # Errors
/// There is no such domain.
pub fn domain(text: &str) -> Result<DomainChoice, String> {
    match text {
        "auto" => Ok(DomainChoice(None)),
        word => word
            .parse()
            .map(|domain| DomainChoice(Some(domain)))
            .map_err(|error: perdura::ParseDomainError| format!("{error}, and auto")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_each_item_once_and_may_name_all_or_none() {
        assert_eq!(engines("all"), Ok(List(EngineKind::ALL.to_vec())));
        assert_eq!(engines("p1"), Ok(List(EngineKind::P1.to_vec())));
        assert_eq!(engines("fast, p1").unwrap().0.len(), 1 + EngineKind::P1.len());
        assert_eq!(engines("inp,inp"), Ok(List(vec![EngineKind::Inp])));
        assert_eq!(engines(""), Ok(List(Vec::new())));
        assert_eq!(engines("none"), Ok(List(Vec::new())));
        assert!(engines("ipn").is_err());
        assert!(engines("inp, paged").unwrap_err().contains("name nv-disk"));
        assert!(some_engines("").is_err());
    }
}
