//! What a session's findings are asked. That each rule fires somewhere and is silent somewhere is read from calls of [`only`] and
//! [`is_silent`] (`every_rule_has_a_trigger_and_a_near_miss` in `findings.rs`).

#![allow(dead_code, reason = "each test uses its part")]

use rankscope_formats::session::{Finding, Session};

/// All findings of a kind.
pub fn of_kind<'a>(session: &'a Session, kind: &str) -> Vec<&'a Finding> {
    session
        .findings
        .iter()
        .filter(|finding| finding.kind == kind)
        .collect()
}

/// Of which kinds the findings are.
pub fn kinds(session: &Session) -> Vec<&str> {
    session
        .findings
        .iter()
        .map(|finding| finding.kind.as_str())
        .collect()
}

/// The only finding of a kind.
pub fn only<'a>(session: &'a Session, kind: &str) -> &'a Finding {
    match of_kind(session, kind)[..] {
        [finding] => finding,
        _ => panic!("{kind}: {:?}", kinds(session)),
    }
}

/// There is no finding of a kind.
pub fn is_silent(session: &Session, kind: &str) {
    assert!(of_kind(session, kind).is_empty(), "{:?}", of_kind(session, kind));
}
