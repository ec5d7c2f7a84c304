//! The declaration of a struct and its attributes.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, Fields, GenericArgument, Ident, LitInt, LitStr,
    PathArguments, Result, Token, Type, parenthesized,
};

/// A table as its struct declares it.
pub(crate) struct Declared {
    pub(crate) ident: Ident,
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    /// The places of the primary key's columns.
    pub(crate) key: Vec<usize>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) inline: bool,
}

/// A column as its field declares it.
pub(crate) struct Column {
    pub(crate) ident: Ident,
    pub(crate) kind: Type,
    pub(crate) name: String,
    pub(crate) max: Option<LitInt>,
    pub(crate) default: Option<Expr>,
}

/// A secondary index.
pub(crate) struct Index {
    pub(crate) name: LitStr,
    /// The places of its columns.
    pub(crate) columns: Vec<usize>,
    pub(crate) unique: bool,
}

/// A value that an attribute gives once.
struct Once<T>(Option<T>);

impl<T> Once<T> {
    fn set(&mut self, meta: &ParseNestedMeta<'_>, value: T) -> Result<()> {
        match self.0.replace(value) {
            None => Ok(()),
            Some(_) => Err(meta.error("this stands here twice")),
        }
    }

    fn parse(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()>
    where
        T: Parse,
    {
        let value = meta.value()?.parse()?;
        self.set(meta, value)
    }
}

/// Errors of all places, so that one compilation shows them all.
#[derive(Default)]
struct Errors(Option<Error>);

impl Errors {
    fn push(&mut self, error: Error) {
        match &mut self.0 {
            None => self.0 = Some(error),
            Some(all) => all.combine(error),
        }
    }

    fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }
}

/// The attributes at the struct.
struct OfStruct {
    name: Once<LitStr>,
    key: Once<(Span, Vec<Ident>)>,
    indexes: Vec<(LitStr, Vec<Ident>, bool)>,
    inline: Once<()>,
}

/// The attributes at a field.
struct OfField {
    key: Once<()>,
    max: Once<LitInt>,
    default: Once<Expr>,
    name: Once<LitStr>,
    /// True if it is unique.
    indexes: Vec<(LitStr, bool)>,
}

const OF_STRUCT: &str =
    "of a struct this is `name = \"..\"`, `key(..)`, `index(..)`, `unique(..)` or `inline`";
const OF_FIELD: &str = "of a field this is `key`, `max = N`, `index = \"..\"`, `unique = \"..\"`, \
                        `default = ..` or `name = \"..\"`";
const NAMED: &str = "a table is declared by a struct with named fields, one for each column";
const NO_KEY: &str = "the table has no primary key: mark its fields with `#[table(key)]`, or name \
                      them at the struct with `#[table(key(..))]`";
const NO_MAX: &str = "a column of text or bytes says how many bytes it holds at most: \
                      `#[table(max = 80)]`";
const NULL_KEY: &str = "a column of the primary key cannot be NULL, so its type is no `Option`";

impl Declared {
    /// Reads a struct.
    ///
    /// # Errors
    /// It declares no table; the error has every place that is wrong.
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        let fields = match &input.data {
            Data::Struct(data) => match &data.fields {
                Fields::Named(fields) if !fields.named.is_empty() => &fields.named,
                _ => return Err(Error::new_spanned(&input.ident, NAMED)),
            },
            Data::Enum(_) | Data::Union(_) => return Err(Error::new_spanned(&input.ident, NAMED)),
        };
        let mut errors = Errors::default();
        if !input.generics.params.is_empty() {
            let why = "a row of a table has no parameters: its fields own what they hold";
            errors.push(Error::new_spanned(&input.generics, why));
        }
        let of_struct = errors.keep(OfStruct::read(&input.attrs));
        let (mut columns, mut key, mut indexes) = (Vec::new(), Vec::new(), Vec::new());
        for (place, field) in fields.iter().enumerate() {
            let Some(of_field) = errors.keep(OfField::read(&field.attrs)) else { continue };
            let Some(ident) = field.ident.clone() else { continue };
            if of_field.key.0.is_some() {
                key.push(place);
            }
            let own = of_field.indexes.into_iter();
            indexes.extend(own.map(|(name, unique)| Index { name, columns: vec![place], unique }));
            let name =
                of_field.name.0.map_or_else(|| ident.unraw().to_string(), |name| name.value());
            let kind = field.ty.clone();
            if wants_max(within_option(&kind).unwrap_or(&kind)) && of_field.max.0.is_none() {
                errors.push(Error::new_spanned(&field.ty, NO_MAX));
            }
            if let Some(other) = instead_of(within_option(&kind).unwrap_or(&kind)) {
                errors.push(Error::new_spanned(&field.ty, other));
            }
            columns.push(Column {
                ident,
                kind,
                name,
                max: of_field.max.0,
                default: of_field.default.0,
            });
        }
        let of_struct = match (of_struct, errors.0.take()) {
            (_, Some(errors)) => return Err(errors),
            (None, None) => unreachable!("a struct that cannot be read is an error"),
            (Some(of_struct), None) => of_struct,
        };
        let mut declared = Self {
            name: of_struct.name.0.as_ref().map_or_else(|| snake_case(&input.ident), LitStr::value),
            ident: input.ident.clone(),
            columns,
            key,
            indexes,
            inline: of_struct.inline.0.is_some(),
        };
        declared.take(of_struct, &mut errors);
        declared.check(&mut errors);
        errors.0.map_or(Ok(declared), Err)
    }

    /// Adds the key and the indexes that stand at the struct.
    fn take(&mut self, of_struct: OfStruct, errors: &mut Errors) {
        if let Some((span, idents)) = of_struct.key.0 {
            if !self.key.is_empty() {
                let why = "the primary key stands at the fields or at the struct, not at both";
                errors.push(Error::new(span, why));
            }
            self.key = errors.keep(self.places(&idents)).unwrap_or_default();
        }
        for (name, idents, unique) in of_struct.indexes {
            if let Some(columns) = errors.keep(self.places(&idents)) {
                self.indexes.push(Index { name, columns, unique });
            }
        }
    }

    fn check(&self, errors: &mut Errors) {
        if self.key.is_empty() && errors.0.is_none() {
            errors.push(Error::new_spanned(&self.ident, NO_KEY));
        }
        for column in self.key.iter().map(|place| &self.columns[*place]) {
            if within_option(&column.kind).is_some() {
                errors.push(Error::new_spanned(&column.kind, NULL_KEY));
            }
        }
        for (place, column) in self.columns.iter().enumerate() {
            if self.columns[..place].iter().any(|other| other.name == column.name) {
                let why = format!("two columns are called `{}`", column.name);
                errors.push(Error::new_spanned(&column.ident, why));
            }
        }
        for (place, index) in self.indexes.iter().enumerate() {
            if self.indexes[..place].iter().any(|other| other.name.value() == index.name.value()) {
                let why = "another index is called so; one of several columns stands at the \
                           struct: `#[table(index(\"..\", one, two))]`";
                errors.push(Error::new_spanned(&index.name, why));
            }
        }
    }

    /// The places of these fields.
    fn places(&self, idents: &[Ident]) -> Result<Vec<usize>> {
        let mut places = Vec::new();
        for ident in idents {
            let place = self.columns.iter().position(|column| column.ident == *ident);
            let Some(place) = place else {
                return Err(Error::new_spanned(ident, format!("there is no field `{ident}`")));
            };
            if places.contains(&place) {
                return Err(Error::new_spanned(ident, "this field stands here twice"));
            }
            places.push(place);
        }
        Ok(places)
    }
}

impl OfStruct {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let (name, key, inline) = (Once(None), Once(None), Once(None));
        let mut read = Self { name, key, indexes: Vec::new(), inline };
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("table")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    read.name.parse(&meta)
                } else if meta.path.is_ident("key") {
                    let content;
                    parenthesized!(content in meta.input);
                    let idents = content.parse_terminated(Ident::parse_any, Token![,])?;
                    read.key.set(&meta, (meta.path.span(), idents.into_iter().collect()))
                } else if meta.path.is_ident("index") || meta.path.is_ident("unique") {
                    let content;
                    parenthesized!(content in meta.input);
                    let name = content.parse()?;
                    content.parse::<Token![,]>()?;
                    let idents = content.parse_terminated(Ident::parse_any, Token![,])?;
                    let (idents, unique) =
                        (idents.into_iter().collect(), meta.path.is_ident("unique"));
                    read.indexes.push((name, idents, unique));
                    Ok(())
                } else if meta.path.is_ident("inline") {
                    read.inline.set(&meta, ())
                } else {
                    Err(meta.error(OF_STRUCT))
                }
            })?;
        }
        Ok(read)
    }
}

impl OfField {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let (key, max, default, name) = (Once(None), Once(None), Once(None), Once(None));
        let mut read = Self { key, max, default, name, indexes: Vec::new() };
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("table")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("key") {
                    read.key.set(&meta, ())
                } else if meta.path.is_ident("max") {
                    read.max.parse(&meta)
                } else if meta.path.is_ident("default") {
                    read.default.parse(&meta)
                } else if meta.path.is_ident("name") {
                    read.name.parse(&meta)
                } else if meta.path.is_ident("index") || meta.path.is_ident("unique") {
                    let name = meta.value()?.parse()?;
                    read.indexes.push((name, meta.path.is_ident("unique")));
                    Ok(())
                } else {
                    Err(meta.error(OF_FIELD))
                }
            })?;
        }
        Ok(read)
    }
}

/// The last part of a type's path, and the types in angle brackets that follow it.
fn named(kind: &Type) -> Option<(&Ident, Vec<&Type>)> {
    let Type::Path(path) = kind else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return Some((&last.ident, Vec::new()));
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(kind) => Some(kind),
        _ => None,
    });
    Some((&last.ident, types.collect()))
}

/// The type within an `Option`.
fn within_option(kind: &Type) -> Option<&Type> {
    let (ident, types) = named(kind)?;
    if ident == "Option" { types.first().copied() } else { None }
}

/// Returns whether a type is text or bytes of any length, judged by its name.
fn wants_max(kind: &Type) -> bool {
    let Some((ident, types)) = named(kind) else { return false };
    let byte = |kind: &&Type| named(kind).is_some_and(|(ident, _)| ident == "u8");
    ident == "String" || (ident == "Vec" && types.first().is_some_and(byte))
}

/// The error of a type of the language that no column has. Of other types the compiler says it.
fn instead_of(kind: &Type) -> Option<String> {
    let (ident, _) = named(kind)?;
    let instead = match ident.to_string().as_str() {
        "f32" => "f64",
        "usize" => "u64",
        "isize" => "i64",
        "u128" | "i128" => "[u8; 16]",
        "char" => "String",
        _ => return None,
    };
    Some(format!("no column has the type `{ident}`; take `{instead}`"))
}

/// `JobOfQueue` is `job_of_queue`, `HTTPLog` is `http_log`.
fn snake_case(ident: &Ident) -> String {
    let letters: Vec<char> = ident.unraw().to_string().chars().collect();
    let mut name = String::new();
    for (place, letter) in letters.iter().enumerate() {
        let before = place.checked_sub(1).map(|place| letters[place]);
        let next = letters.get(place + 1);
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| {
                before != '_'
                    && (!before.is_uppercase() || next.is_some_and(|next| next.is_lowercase()))
            });
        if begins {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

#[cfg(test)]
mod tests;
