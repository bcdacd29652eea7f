//! Queries on a session's findings.
//!
//! `every_rule_has_a_trigger_and_a_near_miss` in `findings.rs` searches the tests for calls of [`only`] and
//! [`is_silent`]. It thereby checks that each rule fires somewhere and is silent somewhere.

#![allow(dead_code, reason = "each test uses its part")]

use rankscope_formats::session::{Finding, Session};

/// Returns all findings of a kind.
pub fn of_kind<'a>(session: &'a Session, kind: &str) -> Vec<&'a Finding> {
    session
        .findings
        .iter()
        .filter(|finding| finding.kind == kind)
        .collect()
}

/// Returns the kinds of the findings.
pub fn kinds(session: &Session) -> Vec<&str> {
    session
        .findings
        .iter()
        .map(|finding| finding.kind.as_str())
        .collect()
}

/// Returns the only finding of a kind.
pub fn only<'a>(session: &'a Session, kind: &str) -> &'a Finding {
    match of_kind(session, kind)[..] {
        [finding] => finding,
        _ => panic!("{kind}: {:?}", kinds(session)),
    }
}

/// Asserts that there is no finding of a kind.
pub fn is_silent(session: &Session, kind: &str) {
    assert!(of_kind(session, kind).is_empty(), "{:?}", of_kind(session, kind));
}
