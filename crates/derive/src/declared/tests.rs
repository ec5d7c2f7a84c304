//! A struct that declares no table gets errors that say what to write, one for each wrong place.

use super::*;

fn errors(source: &str) -> Vec<String> {
    let input: DeriveInput = syn::parse_str(source).unwrap();
    let error = Declared::read(&input).err();
    error.into_iter().flatten().map(|error| error.to_string()).collect()
}

#[test]
fn a_struct_that_declares_a_table_has_no_error() {
    assert_eq!(errors("struct Job { #[table(key)] id: u64 }"), [""; 0]);
    let all = "#[table(name = \"jobs\", key(region, id), index(\"by_due\", due, id), inline)]
        struct Job { region: u32, id: u64, #[table(max = 80, unique = \"by_name\")] name: String,
            #[table(default = 0)] due: Option<i64> }";
    assert_eq!(errors(all), [""; 0]);
}

#[test]
fn only_structs_with_named_fields_are_tables() {
    for source in ["struct Job(u64);", "struct Nothing;", "enum State { Waiting }"] {
        assert_eq!(errors(source), [NAMED], "{source}");
    }
}

#[test]
fn fields_own_what_they_hold() {
    let source = "struct Job<'a> { #[table(key)] id: u64, #[table(max = 80)] name: &'a str }";
    let [error] = &errors(source)[..] else { panic!("one error") };
    assert!(error.starts_with("a row of a table has no parameters"), "{error}");
}

#[test]
fn a_key_is_marked_once_and_not_null() {
    assert_eq!(errors("struct Job { id: u64 }"), [NO_KEY]);
    assert_eq!(errors("struct Job { #[table(key)] id: Option<u64> }"), [NULL_KEY]);
    let no_field = "#[table(key(region, number))] struct Job { region: u32, id: u64 }";
    assert_eq!(errors(no_field), ["there is no field `number`"]);
    let both = "#[table(key(region))] struct Job { region: u32, #[table(key)] id: u64 }";
    assert_eq!(
        errors(both),
        ["the primary key stands at the fields or at the struct, not at both"]
    );
}

#[test]
fn a_type_that_no_column_has_names_another_one() {
    let source = "struct Job { #[table(key)] id: u64, weight: f32, size: Option<usize> }";
    let expected =
        ["no column has the type `f32`; take `f64`", "no column has the type `usize`; take `u64`"];
    assert_eq!(errors(source), expected);
}

#[test]
fn text_and_bytes_have_a_maximum() {
    let source = "struct Job { #[table(key)] id: u64, text: String, bytes: Option<Vec<u8>> }";
    assert_eq!(errors(source), [NO_MAX; 2]);
}

#[test]
fn unknown_and_repeated_attributes_are_refused() {
    let unknown =
        "#[table(primary(id))] struct Job { #[table(key)] id: u64, #[table(indexed)] due: u64,
        #[table(max = 80, max = 90)] name: String }";
    assert_eq!(errors(unknown), [OF_STRUCT, OF_FIELD, "this stands here twice"]);
    let indexes = "#[table(index(\"by_due\", state, late))] struct Job { #[table(key)] id: u64,
        #[table(index = \"by_state\")] state: u8, #[table(index = \"by_state\")] due: u64 }";
    let found = errors(indexes);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], "there is no field `late`");
    assert!(found[1].starts_with("another index is called so"), "{found:?}");
}

#[test]
fn a_table_is_called_like_its_struct_in_snake_case() {
    let name = |name: &str| snake_case(&Ident::new(name, Span::call_site()));
    assert_eq!(name("Job"), "job");
    assert_eq!(name("JobOfQueue"), "job_of_queue");
    assert_eq!(name("HTTPLog"), "http_log");
    assert_eq!(name("Top10"), "top10");
    assert_eq!(name("Old_Job"), "old_job");
}
