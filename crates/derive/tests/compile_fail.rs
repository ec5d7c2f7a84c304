//! A program of its own: it runs the compiler.
//!
//! A struct that declares no table does not compile, and the error says what to write.
//!
//! Each program in `compile_fail` is wrong in one way or a few; the compiler's output is a file
//! next to it.

#[test]
fn a_struct_that_declares_no_table_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
