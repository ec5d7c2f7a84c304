//! The `impl` that a declaration stands for.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use crate::declared::{Column, Declared, Index};

/// The `impl` of `perdura::TableRow`, and the checks of the fields' types.
pub(crate) fn implementation(declared: &Declared) -> TokenStream {
    let Declared { ident, columns, key, .. } = declared;
    let checks = columns.iter().enumerate().map(|(place, column)| {
        let (kind, max) = (&column.kind, max(column));
        let in_key = key.contains(&place);
        quote_spanned! {at(kind)=>
            const _: () = ::perdura::derived::check::<#kind>(#max, #in_key);
        }
    });
    let key_types = key.iter().map(|place| {
        let kind = &columns[*place].kind;
        quote_spanned!(at(kind)=> <#kind as ::perdura::Field>::Given<'k>)
    });
    let parts: Vec<_> = (0..key.len()).map(|number| format_ident!("part_{number}")).collect();
    // A key of one column is that column's value, not a tuple of one.
    let (key_type, pattern) = match parts.as_slice() {
        [part] => (quote!(#(#key_types)*), quote!(#part)),
        _ => (quote!((#(#key_types),*)), quote!((#(#parts),*))),
    };
    let values = columns.iter().map(|column| {
        let (ident, kind) = (&column.ident, &column.kind);
        quote_spanned!(at(kind)=> <#kind as ::perdura::Field>::value(&self.#ident))
    });
    let fields = columns.iter().enumerate().map(|(place, column)| {
        let (ident, kind) = (&column.ident, &column.kind);
        quote_spanned!(at(kind)=> #ident: ::perdura::derived::field::<#kind>(row, #place)?)
    });
    let schema = schema(declared);
    quote! {
        #(#checks)*

        #[automatically_derived]
        impl ::perdura::TableRow for #ident {
            type Key<'k> = #key_type;

            fn schema() -> ::perdura::TableSchema {
                #schema
            }

            fn values(&self) -> impl ::core::convert::AsRef<[::perdura::Value<'_>]> {
                [#(#values),*]
            }

            fn key_values<'k>(
                key: Self::Key<'k>,
            ) -> impl ::core::convert::AsRef<[::perdura::Value<'k>]> {
                let #pattern = key;
                [#(::core::convert::Into::<::perdura::Value<'k>>::into(#parts)),*]
            }

            fn from_row(
                row: &::perdura::Row,
            ) -> ::core::result::Result<Self, ::perdura::RowError> {
                ::core::result::Result::Ok(Self { #(#fields),* })
            }
        }
    }
}

/// The expression of the table's schema.
fn schema(declared: &Declared) -> TokenStream {
    let Declared { name, columns, key, indexes, inline, .. } = declared;
    let names = |places: &[usize]| {
        let names = places.iter().map(|place| &columns[*place].name);
        quote!(&[#(#names),*])
    };
    let added = columns.iter().map(|column| {
        let (kind, name, max) = (&column.kind, &column.name, max(column));
        let default = match &column.default {
            None => quote!(::core::option::Option::None),
            Some(default) => quote!(::core::option::Option::Some(#default)),
        };
        quote_spanned! {at(kind)=>
            let table = ::perdura::derived::column::<#kind>(table, #name, #max, #default);
        }
    });
    let indexes = indexes.iter().map(|Index { name, columns, unique }| {
        let columns = names(columns);
        match unique {
            false => quote!(.index(#name, #columns)),
            true => quote!(.unique_index(#name, #columns)),
        }
    });
    let inline = inline.then(|| quote!(.inline_columns()));
    let key = names(key);
    quote! {
        let table = ::perdura::TableSchema::new(#name);
        #(#added)*
        table.key(#key) #(#indexes)* #inline
    }
}

/// The place of a field's type, for errors about it. Names are looked up where the macro is called.
fn at(kind: &Type) -> Span {
    kind.span().resolved_at(Span::call_site())
}

/// The longest value that a column's attribute gives, as an option.
fn max(column: &Column) -> TokenStream {
    match &column.max {
        None => quote!(::core::option::Option::None),
        Some(max) => quote!(::core::option::Option::Some(#max)),
    }
}
