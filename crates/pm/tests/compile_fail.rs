//! A program of its own: it runs the compiler.
//!
//! Illegal order does not compile: what publishes an object wants the receipt that it is durable,
//! and receipts cannot be copied, used twice or made by hand.
//!
//! Each program in `compile_fail` breaks one of these rules; the compiler's words are in the file
//! next to it.

#[test]
fn receipts_cannot_be_forged_copied_or_used_too_early() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
