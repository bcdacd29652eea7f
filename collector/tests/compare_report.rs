//! A comparison as people and machines read it.
//!
//! `REPORT_OUT=DIR cargo test -p rankscope --test compare_report` also writes texts and pages there, to be looked at.

mod compare_report_support;

use compare_report_support::{examples, slow_rank};
use rankscope_collector::report::Look;
use rankscope_collector::report::compare::{Listed, comparison_text};
use std::fs;
use std::path::PathBuf;

/// Puts something where somebody can look at it.
fn shown(name: &str, content: &str) {
    if let Some(out) = std::env::var_os("REPORT_OUT").map(PathBuf::from) {
        fs::write(out.join(name), content).expect("written");
    }
}

#[test]
fn texts() {
    for (name, comparison) in examples() {
        for width in [80, 140] {
            let text = comparison_text(&comparison, Listed::Telling, &Look::plain(width));
            shown(&format!("{name}-{width}.txt"), &text);
            if width == 140 {
                insta::assert_snapshot!(format!("text-{name}"), text);
            }
        }
    }
}

#[test]
fn a_narrow_terminal_gets_narrow_lines() {
    for width in [80, 110, 160] {
        for (name, comparison) in examples() {
            for listed in [Listed::Telling, Listed::All] {
                let text = comparison_text(&comparison, listed, &Look::plain(width));
                for line in text.lines().filter(|line| !line.contains('/')) {
                    assert!(line.chars().count() <= width, "{name} at {width}: {line}");
                }
            }
        }
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    let plain = comparison_text(&slow_rank(), Listed::All, &Look::plain(110));
    let colours = Look {
        width: 110,
        colours: true,
    };
    let painted = comparison_text(&slow_rank(), Listed::All, &colours);
    assert!(painted.contains("\x1b[") && !plain.contains('\x1b'));
    let mut bare = String::new();
    let mut rest = painted.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        bare.push_str(before);
        rest = after.split_once('m').expect("a whole sequence").1;
    }
    bare.push_str(rest);
    assert_eq!(bare, plain);
}
