//! CUPTI's activity interface, as far as rankscope uses it. Nothing here links to CUPTI or needs it.
//!
//! | module | content |
//! |---|---|
//! | [`bindings`] | records, numbers and signatures: `generate.sh` generates them from the headers of one version and asserts their layout. Enums are named numbers, so values of a later version are not undefined behaviour |
//! | [`table`] | functions of the library that the process has loaded; each of them may be missing |
//! | [`functions`] | numbers of functions in the lists of the driver and of the runtime library, by version |
//! | [`record`] | content of an activity record, in terms that all versions since 11.8 have |
//! | [`dump`] | records as a library wrote them, saved to a file that tests replay |
//!
//! One set of bindings reads all versions, because each record begins as its predecessor and no number ever changed its
//! meaning. `generate.sh --check` proves both against the headers of nine versions.

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated; the names are CUPTI's"
)]
#[rustfmt::skip]
pub mod bindings;
pub mod dump;
pub mod functions;
pub mod record;
pub mod table;
