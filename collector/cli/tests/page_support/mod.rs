//! Comparison of a page with the JSON of the same session.

#![allow(dead_code, reason = "each test uses its part")]

pub mod browser;
mod readings;
mod sources;

use serde_json::Value;
use std::collections::BTreeMap;

/// A marked part of the page, as a browser reads it.
#[derive(Clone, Debug)]
pub struct Marked {
    /// Form in which it was written.
    pub form: String,
    /// Source of the value.
    pub source: String,
    /// Text as it is read.
    pub text: String,
    /// Whether it is part of a picture.
    pub is_drawn: bool,
}

/// Numbers that are part of definitions. A new one must be added here by hand.
const RULES: [&str; 9] = [
    "20 %",
    "p90",
    "1 ms",
    "100",
    "transfer, p99",
    "p99",
    "95 %",
    "5th",
    "95th",
];

/// Everything that the page shows.
#[derive(Clone, Debug, Default)]
pub struct Walked {
    /// Parts that name their source.
    pub marked: Vec<Marked>,
    /// Texts with digits that do not.
    pub loose: Vec<String>,
}

/// Script that walks the page as the browser has it. It includes texts that appear only under the pointer and texts
/// that are collapsed.
pub const WALK: &str = r#"(() => {
  const marked = [...document.querySelectorAll('[data-as]')].map(e => ({
    form: e.dataset.as, source: e.dataset.from ?? '', text: e.textContent, drawn: !!e.closest('svg')}));
  const loose = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (/\p{Nd}/u.test(text.data) && !text.parentElement.closest('[data-as]')) loose.push(text.data);
  }
  for (const e of document.querySelectorAll('[aria-label],[title],[alt]'))
    for (const name of ['aria-label', 'title', 'alt'])
      if (/\p{Nd}/u.test(e.getAttribute(name) ?? '')) loose.push(e.getAttribute(name));
  return {marked, loose};
})()"#;

/// Script that returns the letters with too little contrast to their background (WCAG 2.2, 1.4.3), and the page's
/// colour.
pub const CONTRAST: &str = r#"(() => {
  const parts = colour => colour.match(/[\d.]+/g).map(Number);
  const light = colour => {
    const [r, g, b] = parts(colour).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = e => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (parts(colour)[3] !== 0) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const faint = new Set();
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    // What is written on a coloured cell has the cell behind it, of which the letters' own test knows.
    if (!own || e.closest('title') || e.matches('.on-dark, .on-light, .on-dark *, .on-light *')) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(e.closest('svg') ? style.fill : style.color), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.add(e.tagName + '.' + e.className.baseVal ?? e.className);
  }
  return {faint: [...faint], paper: getComputedStyle(document.body).backgroundColor};
})()"#;

impl Walked {
    /// Reads the answer of [`WALK`].
    pub fn of(answer: &Value) -> Self {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let all = |name: &str| answer[name].as_array().expect("a list").clone();
        Self {
            marked: all("marked")
                .iter()
                .map(|of| Marked {
                    form: text(&of["form"]),
                    source: text(&of["source"]),
                    text: text(&of["text"]),
                    is_drawn: of["drawn"] == true,
                })
                .collect(),
            loose: all("loose").iter().map(text).collect(),
        }
    }

    /// Does the same without a browser.
    pub fn of_document(document: &roxmltree::Document) -> Self {
        let mut walked = Self::default();
        let is_named = |node: &roxmltree::Node, name: &str| node.has_tag_name(name);
        let body = document
            .descendants()
            .find(|node| is_named(node, "body"))
            .expect("a body");
        for node in body.descendants() {
            if let Some(form) = node.attribute("data-as") {
                let texts = node.descendants().filter(roxmltree::Node::is_text);
                walked.marked.push(Marked {
                    form: form.to_owned(),
                    source: node.attribute("data-from").unwrap_or_default().to_owned(),
                    text: texts.filter_map(|text| text.text()).collect(),
                    is_drawn: node.ancestors().any(|above| is_named(&above, "svg")),
                });
            }
            let is_marked = node.ancestors().any(|above| above.has_attribute("data-as"));
            let digits = |text: &str| text.contains(|letter: char| letter.is_ascii_digit());
            if node.is_text() && !is_marked {
                walked
                    .loose
                    .extend(node.text().filter(|text| digits(text)).map(str::to_owned));
            }
            for name in ["aria-label", "title", "alt"] {
                let label = node.attribute(name).filter(|text| digits(text));
                walked.loose.extend(label.map(str::to_owned));
            }
        }
        walked
    }

    /// Returns the differences from the JSON, a line each. An empty result means that every number of the page is that
    /// of the JSON.
    pub fn differences(&self, json: &Value) -> Vec<String> {
        let mut wrong: Vec<String> = self
            .loose
            .iter()
            .map(|text| format!("a number that does not say where it comes from: '{text}'"))
            .collect();
        for marked in &self.marked {
            let Marked {
                form,
                source,
                text,
                is_drawn,
            } = marked;
            let verdict = match (form.as_str(), source.is_empty()) {
                // The page computes what it draws from measured values, and such marks stay in their place.
                ("tick", true) if *is_drawn => Ok(()),
                ("drawn", true) => Ok(()),
                ("rule", true) if RULES.contains(&text.as_str()) => Ok(()),
                (_, true) => Err("it has no source".to_owned()),
                ("tick" | "drawn" | "rule", false) => Err("it has a source".to_owned()),
                (form, false) => {
                    sources::find(json, source).and_then(|found| readings::check(form, text, &found))
                }
            };
            if let Err(what) = verdict {
                wrong.push(format!("'{text}' as {form} of {source}: {what}"));
            }
        }
        wrong
    }

    /// Counts the parts of each form.
    pub fn forms(&self) -> BTreeMap<&str, usize> {
        let mut forms = BTreeMap::new();
        for marked in &self.marked {
            *forms.entry(marked.form.as_str()).or_default() += 1;
        }
        forms
    }
}

/// Reports that something is not tested here, and why. In CI that is a failure.
pub fn skip(reason: &str) {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "CI=true, and yet to be skipped: {reason}"
    );
    eprintln!("skipped: {reason}");
}
