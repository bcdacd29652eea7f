//! Tests the summary as people see it, and a page that opens anywhere.
//!
//! `REPORT_OUT=DIR cargo test -p rankscope --test report` also writes the pages to DIR for visual inspection.

use rankscope_fixtures::sessions::{Job, damaged, structured, traffic};
use rankscope_formats::session::Session;
use rankscope_report::summary_text;
use rankscope_report::{Places, TextLayout, page};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

fn sessions() -> Vec<(&'static str, Session)> {
    let slow = |ranks, steps, slow, hosts| {
        Job {
            ranks,
            steps,
            slow: Some(slow),
            hosts,
        }
        .session()
    };
    vec![
        ("2-ranks", Job::new(2, 40).session()),
        ("4-ranks-slow", slow(4, 200, 2, 1)),
        ("8-ranks-slow", slow(8, 60, 5, 2)),
        ("64-ranks-slow", slow(64, 3_000, 17, 8)),
        ("1000-ranks", slow(1_000, 300, 777, 125)),
        ("damaged", damaged()),
        ("structured", structured()),
        ("1-rank", Job::new(1, 5).session()),
    ]
}

fn places() -> Places {
    Places {
        session: PathBuf::from("/scratch/runs/resnet/session"),
        trace: Some(PathBuf::from("/scratch/runs/resnet/trace.pftrace")),
        report: Some(PathBuf::from("/scratch/runs/resnet/report.html")),
    }
}

#[test]
fn summaries() {
    for (name, session) in sessions() {
        insta::assert_snapshot!(name, summary_text(&session, &places(), &TextLayout::plain(110)));
    }
}

#[test]
fn a_narrow_terminal_gets_narrow_lines() {
    for width in [60, 80, 110] {
        for (name, session) in sessions() {
            let text = summary_text(&session, &places(), &TextLayout::plain(width));
            for line in text
                .lines()
                .filter(|line| line.contains(' ') && !line.contains('/'))
            {
                assert!(line.chars().count() <= width, "{name} at {width}: {line}");
            }
        }
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    let (_, session) = sessions().remove(1);
    let plain = summary_text(&session, &places(), &TextLayout::plain(110));
    let painted = summary_text(
        &session,
        &places(),
        &TextLayout {
            width: 110,
            colours: true,
        },
    );
    assert!(painted.contains("\x1b[") && !plain.contains('\x1b'));
    let mut bare = String::new();
    let mut rest = painted.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        bare.push_str(before);
        rest = after.split_once('m').expect("a whole sequence").1;
    }
    bare.push_str(rest);
    let bars = |text: &str| text.replace(['▒', '░', '·'], "█");
    assert_eq!(bars(&bare), bars(&plain));
}

#[test]
fn the_page_is_self_contained_and_names_every_rank() {
    for (name, session) in sessions() {
        let html = page(&session, &traffic(&session));
        if let Some(out) = std::env::var_os("REPORT_OUT").map(PathBuf::from) {
            fs::write(out.join(format!("{name}.html")), &html).expect("written");
        }
        let options = ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        let document =
            Document::parse_with_options(&html, options).unwrap_or_else(|error| panic!("{name}: {error}"));
        nothing_is_loaded(&document, name);
        let text: String = document
            .descendants()
            .filter_map(|node| node.text())
            .collect::<Vec<_>>()
            .join("\n");
        let words: BTreeSet<&str> = text.split(['\n', ',', ':']).map(str::trim).collect();
        for rank in session.ranks.iter().take(500) {
            assert!(
                words.contains(rank.name.as_str()),
                "{name}: {} is nowhere",
                rank.name
            );
        }
        assert!(html.len() < 4 << 20, "{name}: {} bytes", html.len());
        assert!(
            text.contains("modelled: by the ring or tree of the algorithm"),
            "{name}"
        );
        let first_words = &text[..text.find("Where each rank").expect("the breakdown")];
        assert!(
            first_words.contains("Coverage") && first_words.contains("Losses"),
            "{name}"
        );
    }
}

/// The page has no script and no link. Its only address is the name of the SVG namespace, which is never fetched.
/// Pictures in the page contain their own bytes.
fn nothing_is_loaded(document: &Document, name: &str) {
    for node in document.descendants().filter(Node::is_element) {
        let tag = node.tag_name().name();
        assert!(
            !matches!(tag, "script" | "link" | "img" | "iframe" | "object" | "use"),
            "{name}: <{tag}>"
        );
        for attribute in node.attributes() {
            let (key, value) = (attribute.name(), attribute.value());
            if (tag, key) == ("image", "href") {
                assert!(value.starts_with("data:image/png;base64,"), "{name}: {value}");
                continue;
            }
            assert!(
                !matches!(key, "src" | "href" | "srcset" | "action" | "data"),
                "{name}: <{tag} {key}>"
            );
            assert!(!key.starts_with("on"), "{name}: <{tag} {key}>");
            assert!(!value.contains("://"), "{name}: <{tag} {key}=\"{value}\">");
        }
    }
    let style = document
        .descendants()
        .find(|node| node.has_tag_name("style"))
        .and_then(|node| node.text());
    let style = style.expect("a style sheet");
    assert!(!style.contains("url(") && !style.contains("@import"), "{name}");
}

/// Labels of one line of a picture must not touch each other or leave the picture.
#[test]
fn labels_are_readable() {
    const LETTER_WIDTH: f64 = 6.0;
    for (name, session) in sessions() {
        let html = page(&session, &traffic(&session));
        let options = ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(&html, options).expect("well-formed");
        for svg in document.descendants().filter(|node| node.has_tag_name("svg")) {
            let number =
                |node: Node, key: &str| node.attribute(key).and_then(|text| text.parse::<f64>().ok());
            let (width, height) = (
                number(svg, "width").expect("a width"),
                number(svg, "height").expect("a height"),
            );
            let mut labels: Vec<(i64, f64, f64, String)> = Vec::new();
            for node in svg.descendants().filter(|node| node.has_tag_name("text")) {
                let text = node.text().unwrap_or_default().to_owned();
                let (x, y) = (number(node, "x").expect("x"), number(node, "y").expect("y"));
                let length = text.chars().count() as f64 * LETTER_WIDTH;
                let left = match node.attribute("text-anchor") {
                    Some("middle") => x - length / 2.0,
                    Some("end") => x - length,
                    _ => x,
                };
                assert!(
                    left >= 0.0 && left + length <= width && y <= height,
                    "{name}: '{text}' leaves the picture"
                );
                labels.push((y.round() as i64, left, left + length, text));
            }
            labels.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).expect("numbers"));
            for pair in labels.windows(2) {
                let overlap = pair[0].0 == pair[1].0 && pair[0].2 > pair[1].1;
                assert!(!overlap, "{name}: '{}' touches '{}'", pair[0].3, pair[1].3);
            }
            let rows: BTreeSet<i64> = labels.iter().map(|label| label.0).collect();
            let rows: Vec<i64> = rows.into_iter().collect();
            for pair in rows.windows(2).filter(|pair| pair[1] - pair[0] < 9) {
                let at = |y: i64| labels.iter().filter(move |label| label.0 == y);
                for (above, below) in at(pair[0]).flat_map(|a| at(pair[1]).map(move |b| (a, b))) {
                    let touch = above.1 < below.2 && below.1 < above.2;
                    assert!(!touch, "{name}: '{}' is too near '{}'", above.3, below.3);
                }
            }
        }
    }
}
