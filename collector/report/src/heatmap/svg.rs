//! SVG writer for pictures: a file that follows light and dark mode by itself, or an element of the report, whose style
//! sheet has the same classes.

use super::cividis;
use super::png;
use super::scene::{Anchor, LABEL, Letters, Mark, NUMBER, Paint, Scene, TITLE};
use super::theme::{DARK, LIGHT, ON_DARK, ON_LIGHT, Palette, Rgb, STRIPE, Theme};
use crate::markup;
use crate::markup::escape;
use crate::prose::Prose;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write as _;

/// Returns the element for a page, which needs [`shared`] once.
pub fn element(scene: &Scene) -> String {
    let mut out = String::new();
    open(&mut out, scene, "");
    marks(&mut out, scene, markup::element);
    out.push_str("</svg>");
    format!(r#"<div class="picture">{out}</div>"#)
}

/// Returns the shared definitions for all elements of a page. They are invisible; they hold the pattern of cells
/// without a value.
pub fn shared() -> String {
    let mut out = String::from(r#"<svg width="0" height="0" style="position:absolute" aria-hidden="true">"#);
    pattern(&mut out);
    out.push_str("</svg>");
    out
}

/// Returns a separate file.
pub fn file(scene: &Scene, theme: Theme) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    open(&mut out, scene, r#" xmlns="http://www.w3.org/2000/svg""#);
    out.push_str("<style>");
    match theme {
        Theme::Light => variables(&mut out, &LIGHT),
        Theme::Dark => variables(&mut out, &DARK),
        Theme::Auto => {
            variables(&mut out, &LIGHT);
            out.push_str("@media (prefers-color-scheme:dark){");
            variables(&mut out, &DARK);
            out.push('}');
        }
    }
    let _ = write!(
        out,
        "text{{font:{LABEL}px \"DejaVu Sans\",Verdana,system-ui,sans-serif;fill:var(--ink)}}\
         text.title{{font-size:{TITLE}px}}text.note{{fill:var(--faint)}}\
         text.on-dark,text.on-light{{font-size:{NUMBER}px}}text.on-dark{{fill:{}}}text.on-light{{fill:{}}}\
         rect{{shape-rendering:crispEdges}}.ink{{fill:var(--ink)}}.faint-fill{{fill:var(--faint)}}\
         .no-value{{fill:var(--missing)}}.stripe{{fill:var(--stripe)}}.paper{{fill:var(--paper)}}</style>",
        hex(ON_DARK),
        hex(ON_LIGHT)
    );
    pattern(&mut out);
    let _ = write!(
        out,
        "<rect width=\"{}\" height=\"{}\" class=\"paper\"/>",
        scene.width, scene.height
    );
    marks(&mut out, scene, markup::bare_element);
    out.push_str("</svg>\n");
    out
}

/// Writes the pattern of cells without a value.
fn pattern(out: &mut String) {
    let _ = write!(
        out,
        "<defs><pattern id=\"no-value\" width=\"{s}\" height=\"{s}\" patternUnits=\"userSpaceOnUse\">\
         <rect width=\"{s}\" height=\"{s}\" class=\"no-value\"/>",
        s = STRIPE
    );
    for x in 0..STRIPE {
        let y = (STRIPE - x) % STRIPE;
        let _ = write!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"1\" height=\"1\" class=\"stripe\"/>"
        );
    }
    out.push_str("</pattern></defs>");
}

fn variables(out: &mut String, palette: &Palette) {
    let _ = write!(
        out,
        ":root{{--paper:{};--ink:{};--faint:{};--missing:{};--stripe:{}}}",
        hex(palette.paper),
        hex(palette.ink),
        hex(palette.faint),
        hex(palette.missing),
        hex(palette.stripe)
    );
}

fn open(out: &mut String, scene: &Scene, namespace: &str) {
    let _ = write!(
        out,
        r#"<svg{namespace} width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label="{}">"#,
        escape(&scene.description),
        w = scene.width,
        h = scene.height
    );
}

/// Function that writes text as an element, from its tag, its attributes, the text, and the tag of figures in it.
type WriteText = fn(&str, &str, &Prose, &str) -> String;

fn marks(out: &mut String, scene: &Scene, element: WriteText) {
    for mark in &scene.marks {
        match mark {
            Mark::Rect {
                at: [x, y, width, height],
                paint,
                tooltip,
            } => {
                let paint = match paint {
                    Paint::Value(number) => format!(r#"fill="{}""#, hex(cividis::colour(*number))),
                    Paint::Ink => r#"class="ink""#.to_owned(),
                    Paint::Faint => r#"class="faint-fill""#.to_owned(),
                    Paint::Missing => r##"fill="url(#no-value)""##.to_owned(),
                };
                let _ = write!(
                    out,
                    r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" {paint}"#
                );
                if tooltip.is_empty() {
                    out.push_str("/>");
                } else {
                    let _ = write!(out, ">{}</rect>", element("title", "", tooltip, "span"));
                }
            }
            Mark::Text {
                at: (x, y),
                anchor,
                letters,
                text,
            } => {
                let class = match letters {
                    Letters::Label => "",
                    Letters::Note => r#" class="note""#,
                    Letters::Title => r#" class="title""#,
                    Letters::OnDark => r#" class="on-dark""#,
                    Letters::OnLight => r#" class="on-light""#,
                };
                let anchor = match anchor {
                    Anchor::Start => "",
                    Anchor::Middle => r#" text-anchor="middle""#,
                    Anchor::End => r#" text-anchor="end""#,
                };
                let attributes = format!(r#" x="{x}" y="{y}"{class}{anchor}"#);
                out.push_str(&element("text", &attributes, text, "tspan"));
            }
            Mark::Field {
                at: (x, y),
                cell: (width, height),
                columns,
                cells,
            } => {
                let columns = (*columns).max(1);
                // Writing to memory fails only for sizes that no picture has.
                let Ok(field) = png::write_field(columns, cells) else {
                    continue;
                };
                let _ = write!(
                    out,
                    r#"<image x="{x}" y="{y}" width="{}" height="{}" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,{}"/>"#,
                    columns as u64 * u64::from(*width),
                    (cells.len() / columns) as u64 * u64::from(*height),
                    STANDARD.encode(field)
                );
            }
        }
    }
}

fn hex([r, g, b]: Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}
