//! Tests a comparison in its forms for people and machines.
//!
//! `REPORT_OUT=DIR cargo test -p rankscope --test compare_report` also writes texts and pages to DIR for visual
//! inspection. With `COMPARISON=FILE` it also writes those of a comparison that `rankscope compare --json` printed.

mod compare_report_support;

use compare_report_support::{examples, large, pictures, printed, slow_rank};
use rankscope_fixtures::page::browser::Browser;
use rankscope_fixtures::page::{CONTRAST, WALK, Walked, skip};
use rankscope_formats::comparison::Comparison;
use rankscope_formats::comparison::GateVerdict;
use rankscope_report::TextLayout;
use rankscope_report::compare::{
    Listed, MAX_CHARACTERS, comparison_junit, comparison_markdown, comparison_page, comparison_text,
    comparison_workflow_commands,
};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Writes a file for visual inspection, if `REPORT_OUT` names a directory.
fn shown(name: &str, content: &str) {
    if let Some(out) = std::env::var_os("REPORT_OUT").map(PathBuf::from) {
        fs::write(out.join(name), content).expect("written");
    }
}

#[test]
fn texts() {
    for (name, comparison) in examples() {
        for width in [80, 140] {
            let text = comparison_text(&comparison, Listed::Notable, &TextLayout::plain(width));
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
            for listed in [Listed::Notable, Listed::All] {
                let text = comparison_text(&comparison, listed, &TextLayout::plain(width));
                for line in text.lines().filter(|line| !line.contains('/')) {
                    assert!(line.chars().count() <= width, "{name} at {width}: {line}");
                }
            }
        }
    }
}

#[test]
fn colours_change_nothing_but_colours() {
    let plain = comparison_text(&slow_rank(), Listed::All, &TextLayout::plain(110));
    let colours = TextLayout {
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

#[test]
fn markdown() {
    for (name, comparison) in examples() {
        let text = comparison_markdown(&comparison);
        shown(&format!("{name}.md"), &text);
        insta::assert_snapshot!(format!("markdown-{name}"), text);
    }
}

#[test]
fn a_comment_is_not_longer_than_github_takes() {
    let mut comparison = large();
    let long = "x|`@someone`<b>".repeat(1_000);
    let of = |all: usize| vec![long.clone(); all];
    comparison.headline.clone_from(&long);
    comparison.reasons = of(300);
    comparison.cautions = of(300);
    comparison.attribution.ranks[7].host.clone_from(&long);
    comparison.base.label = Some(long.clone());
    comparison.method.noise.clone_from(&long);
    for (metric, change) in comparison.metrics.iter_mut().zip(&mut comparison.changes) {
        metric.subject = Some(long.clone());
        change.text.clone_from(&long);
    }
    for run in &mut comparison.new.runs {
        run.name.directory.clone_from(&long);
    }
    comparison.gates = vec![comparison.gates[0].clone(); 400];
    for gate in &mut comparison.gates {
        gate.rule.clone_from(&long);
        gate.reason.clone_from(&long);
    }
    let text = comparison_markdown(&comparison);
    shown("long.md", &text);
    assert!(text.len() <= MAX_CHARACTERS, "{} bytes", text.len());
    assert!(text.contains(" more: `rankscope compare --all` lists them"));
    assert_eq!(
        text.matches("<details>").count(),
        text.matches("</details>").count()
    );
    assert!(text.ends_with("</details>\n"));
}

#[test]
fn workflow_commands() {
    for (name, comparison) in examples() {
        let text = comparison_workflow_commands(&comparison);
        shown(&format!("{name}.commands"), &text);
        assert!(text.lines().all(|line| line.starts_with("::")), "{name}: {text}");
        insta::assert_snapshot!(format!("commands-{name}"), text);
    }
    // GitHub shows ten annotations of each level: the tenth summarises the rest.
    let mut comparison = slow_rank();
    comparison.gates = vec![comparison.gates[0].clone(); 25];
    let text = comparison_workflow_commands(&comparison);
    assert_eq!(text.matches("::error ").count(), 10);
    assert!(text.contains("title=16 more%3A fail::"), "{text}");
}

#[test]
fn junit() {
    for (name, comparison) in examples() {
        let text = comparison_junit(&comparison).expect("XML");
        let document = Document::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let of = |tag: &str| {
            document
                .descendants()
                .filter(|node| node.has_tag_name(tag))
                .count()
        };
        assert_eq!(of("testcase"), comparison.gates.len() + 11, "{name}");
        let failed = comparison
            .gates
            .iter()
            .filter(|gate| gate.verdict == GateVerdict::Fail)
            .count();
        assert_eq!(of("failure"), failed, "{name}");
        insta::assert_snapshot!(format!("junit-{name}"), text);
    }
    // If an inconclusive gate is no failure, nothing is an error.
    let mut comparison = examples().swap_remove(2).1;
    comparison.exit_status = 0;
    let text = comparison_junit(&comparison).expect("XML");
    assert!(text.contains("<skipped") && !text.contains("<error"), "{text}");
}

/// A page, and the JSON of the same comparison.
struct Page {
    name: String,
    html: String,
    json: Value,
}

/// Returns the pages of all examples, each with and without pictures.
fn pages() -> Vec<Page> {
    let page = |name: String, comparison: &Comparison, with_pictures: bool| {
        let pictures = if with_pictures {
            pictures(comparison)
        } else {
            Vec::new()
        };
        Page {
            html: comparison_page(comparison, &pictures),
            json: serde_json::to_value(comparison).expect("JSON"),
            name,
        }
    };
    let mut pages = Vec::new();
    for (name, comparison) in examples() {
        pages.push(page(name.to_owned(), &comparison, false));
        pages.push(page(format!("{name}-pictures"), &comparison, true));
    }
    if let Some(printed) = printed() {
        shown("printed.md", &comparison_markdown(&printed));
        let text = comparison_text(&printed, Listed::Notable, &TextLayout::plain(110));
        shown("printed.txt", &text);
        pages.push(page("printed".to_owned(), &printed, false));
    }
    for page in &pages {
        shown(&format!("{}.html", page.name), &page.html);
    }
    pages
}

fn read(page: &Page) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(&page.html, options).unwrap_or_else(|error| panic!("{}: {error}", page.name))
}

fn expect_no_difference(walked: &Walked, page: &Page) {
    let wrong = walked.differences(&page.json);
    assert!(
        wrong.is_empty(),
        "{}: {} of {} are not as the JSON says, among them\n{}",
        page.name,
        wrong.len(),
        walked.marked.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

#[test]
fn every_number_of_the_page_is_that_of_the_json() {
    for page in pages() {
        expect_no_difference(&Walked::of_document(&read(&page)), &page);
    }
}

/// Checks that the test above can fail: a JSON with one changed number does not match the page.
#[test]
fn a_number_that_differs_is_found() {
    let page = pages().swap_remove(0);
    let walked = Walked::of_document(&read(&page));
    for pointer in [
        "/metrics/0/base",
        "/metrics/0/interval/high",
        "/metrics/0/base_runs/2",
        "/metrics/3/change",
        "/gates/3/runs_needed",
        "/detectable/1/relative/value",
        "/attribution/parts/1/new_ns",
        "/attribution/ranks/3/parts_ns/0",
        "/changes/0/step_ns/value",
        "/base/runs/1/steps",
        "/new/runs/4/step_time/p75",
        "/method/gate_alpha",
        "/method/outlier_effect/value/change_without",
    ] {
        let mut json = page.json.clone();
        let value = json.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}"));
        *value = json!(value.as_f64().expect("a number") * 1.17 + 0.7);
        assert!(!walked.differences(&json).is_empty(), "{pointer} may be anything");
    }
}

#[test]
fn a_page_of_a_thousand_ranks_can_be_mailed() {
    let length = comparison_page(&large(), &[]).len();
    assert!(length < 2_000_000, "{length} bytes");
}

/// The page has no script, link or address. Pictures contain their own bytes and a text for screen readers.
#[test]
fn a_page_needs_no_other_file() {
    for page in pages() {
        let document = read(&page);
        let name = &page.name;
        for node in document.descendants().filter(Node::is_element) {
            let tag = node.tag_name().name();
            assert!(
                !matches!(tag, "script" | "link" | "iframe" | "object" | "use" | "a"),
                "{name}: <{tag}>"
            );
            for attribute in node.attributes() {
                let (key, value) = (attribute.name(), attribute.value());
                assert!(!key.starts_with("on"), "{name}: <{tag} {key}>");
                assert!(!value.contains("://"), "{name}: <{tag} {key}=\"{value}\">");
                if matches!(key, "src" | "href" | "srcset" | "action" | "data") {
                    assert!(value.starts_with("data:image/png;base64,"), "{name}: {value}");
                }
            }
            let text_alternative = match tag {
                "svg" => node.attribute("aria-label"),
                "img" => node.attribute("alt"),
                _ => continue,
            };
            assert!(
                text_alternative.is_some_and(|text| text.len() > 10),
                "{name}: <{tag}>"
            );
        }
        assert!(page.html.contains("default-src 'none'"), "{name}");
    }
}

/// Labels of one line of a picture must not touch each other or leave the picture.
#[test]
fn labels_are_readable() {
    const LETTER_WIDTH: f64 = 6.0;
    for page in pages() {
        let (name, document) = (&page.name, read(&page));
        for svg in document.descendants().filter(|node| node.has_tag_name("svg")) {
            let number =
                |node: Node, key: &str| node.attribute(key).and_then(|text| text.parse::<f64>().ok());
            let (width, height) = (
                number(svg, "width").expect("a width"),
                number(svg, "height").expect("a height"),
            );
            let mut labels: Vec<(i64, f64, f64, String)> = Vec::new();
            for node in svg.descendants().filter(|node| node.has_tag_name("text")) {
                let text: String = node
                    .descendants()
                    .filter_map(|part| part.text().filter(|_| part.is_text()))
                    .collect();
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

/// Sections have a fixed order, independent of which figures are known.
#[test]
fn a_page_starts_with_its_headline_and_the_detectable_change() {
    for page in pages() {
        let place = |text: &str| {
            page.html
                .find(text)
                .unwrap_or_else(|| panic!("{}: no {text}", page.name))
        };
        assert!(place("class=\"headline") < place("<h2>Gates"), "{}", page.name);
        assert!(
            place("This comparison can find") < place("<h2>Gates"),
            "{}",
            page.name
        );
        assert!(place("<h2>Why") < place("<h2>Method"), "{}", page.name);
    }
}

/// Script that lists elements beyond the left or right edge of the screen.
const CUT: &str = r#"(() => {
  const cut = [], width = document.documentElement.clientWidth;
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('svg, .scroll, .picture') || !e.textContent.trim()) continue;
    const place = e.getBoundingClientRect();
    if (place.right > width + 1 || place.left < -1) cut.push(e.tagName + ' ' + e.textContent.slice(0, 40));
  }
  return cut;
})()"#;

#[test]
fn a_browser_shows_the_page_on_wide_and_narrow_screens_and_in_print() {
    let Some(mut browser) = Browser::start() else {
        return skip("there is no Chromium");
    };
    let directory = tempfile::tempdir().expect("a directory");
    for page in pages() {
        let name = &page.name;
        let file = directory.path().join("comparison.html");
        fs::write(&file, &page.html).expect("written");
        browser.emulate("screen", 1_280, "light");
        browser.open(&file);
        let walked = Walked::of(&browser.evaluate(WALK));
        expect_no_difference(&walked, &page);
        assert_eq!(
            walked.forms(),
            Walked::of_document(&read(&page)).forms(),
            "{name}"
        );
        let mut backgrounds = Vec::new();
        for scheme in ["light", "dark"] {
            for width in [1_280, 700] {
                browser.emulate("screen", width, scheme);
                assert_eq!(browser.evaluate(CUT), json!([]), "{name} at {width} px");
                let seen = browser.evaluate(CONTRAST);
                assert_eq!(seen["faint"], json!([]), "{name}, {scheme}");
                backgrounds.push(seen["background"].clone());
            }
        }
        assert_ne!(backgrounds[0], backgrounds[2], "{name}: dark is as light");
        browser.emulate("print", 718, "dark");
        assert_eq!(browser.evaluate(CONTRAST)["background"], backgrounds[0], "{name}");
        assert!(browser.print().len() > 10_000, "{name}");
        assert_eq!(browser.complaints, Vec::<String>::new(), "{name}");
    }
}
