//! The scale of a picture with its values and its unit, and the other cell styles.

use super::content::Picture;
use super::text::{LINE, line, note_line};
use crate::figures::tick;
use crate::heatmap::cividis;
use crate::heatmap::font;
use crate::heatmap::scale::{Scale, Spread};
use crate::heatmap::scene::{Anchor, LABEL, Letters, Mark, Paint, Scene, wrap};
use crate::prose::Prose;

/// Width of the scale: one pixel per colour.
const RAMP: u32 = cividis::COLOURS as u32;
const RAMP_HEIGHT: u32 = 12;

/// Adds the scale, its values and its unit, and below it the other cell styles. `inner` is the width of the picture
/// without margins. Returns the position of the next item.
pub fn legend(
    scene: &mut Scene,
    picture: &Picture,
    scale: &Scale,
    (left, top): (u32, u32),
    inner: u32,
    has_missing: bool,
) -> u32 {
    let bar_right = scale_bar(scene, scale, (left, top));
    let mut y = top + RAMP_HEIGHT + 20;
    let words = match scale.spread {
        Spread::Linear => picture.quantity.clone(),
        Spread::Log => format!("{}, logarithmic", picture.quantity),
    };
    let after = bar_right + 14.0;
    if font::width(&words, LABEL) <= f64::from(left + inner) - after {
        scene.text(
            (after.ceil(), f64::from(top + 10)),
            Anchor::Start,
            Letters::Label,
            words.as_str(),
        );
    } else {
        for words in wrap(&words, Letters::Label, f64::from(inner)) {
            y += LINE;
            line(scene, (left, y), Letters::Label, words);
        }
    }
    if scale.spread == Spread::Log && scale.zeros > 0 {
        y = key(scene, (left, y), inner, Paint::Value(0), "0");
    }
    if has_missing {
        y = key(scene, (left, y), inner, Paint::Missing, &picture.missing);
    }
    y + 8
}

/// Adds a cell style with its meaning. Returns the lower edge.
fn key(scene: &mut Scene, (left, mut y): (u32, u32), inner: u32, paint: Paint, words: &str) -> u32 {
    let lines = wrap(words, Letters::Label, f64::from(inner) - 20.0);
    for (at, words) in lines.into_iter().enumerate() {
        y += LINE;
        if at == 0 {
            scene.rect([left, y - 14, 12, 12], paint, Prose::default());
        }
        line(scene, (left + 18, y), Letters::Label, note_line(words));
    }
    y
}

/// Adds the colours of the scale with the labels of values. Returns the right edge of the last label.
fn scale_bar(scene: &mut Scene, scale: &Scale, (left, top): (u32, u32)) -> f64 {
    // Half of the first label is to the left of the scale.
    let first = scale.unit.shown(scale.bottom);
    let x = left + (font::width(&first, LABEL) / 2.0).ceil() as u32 + 1;
    scene.marks.push(Mark::Field {
        at: (x, top),
        cell: (1, RAMP_HEIGHT),
        columns: RAMP as usize,
        cells: (0..cividis::COLOURS as u8).map(Some).collect(),
    });
    let last = if scale.above > 0 {
        format!("≥ {}", scale.unit.shown(scale.top))
    } else {
        scale.unit.shown(scale.top)
    };
    let last_width = font::width(&last, LABEL);
    let last_from = f64::from(x + RAMP) - last_width / 2.0;
    // The ends always have a label. The labels between them appear if they fit.
    let mut labels = Labels {
        x,
        y: top + RAMP_HEIGHT,
        occupied_until: f64::NEG_INFINITY,
    };
    labels.add(scene, 0.0, &first);
    for (value, share) in scale.ticks() {
        if share >= 0.999 {
            continue;
        }
        // On a logarithmic scale the first colour is 0, and the positive values start after it.
        let share = match scale.spread {
            Spread::Linear => share,
            Spread::Log => (1.0 + share * f64::from(RAMP - 2)) / f64::from(RAMP - 1),
        };
        let label = scale.unit.shown(value);
        if labels.is_free(share, &label, last_from) {
            labels.add(scene, share, &label);
        }
    }
    labels.add(scene, 1.0, &last);
    f64::from(x + RAMP) + last_width / 2.0
}

/// Labels below the scale, added from left to right.
struct Labels {
    /// Left edge of the scale.
    x: u32,
    /// Lower edge of the scale.
    y: u32,
    /// Right edge of the last label.
    occupied_until: f64,
}

impl Labels {
    /// Returns true if a label at this share of the scale touches neither the previous label nor the last one.
    fn is_free(&self, share: f64, label: &str, last_from: f64) -> bool {
        let (middle, half) = (self.middle(share), font::width(label, LABEL) / 2.0);
        middle - half >= self.occupied_until + 8.0 && middle + half + 8.0 <= last_from
    }

    fn add(&mut self, scene: &mut Scene, share: f64, label: &str) {
        let middle = self.middle(share);
        self.occupied_until = middle + font::width(label, LABEL) / 2.0;
        scene.rect(
            [middle.round() as u32, self.y, 1, 4],
            Paint::Faint,
            Prose::default(),
        );
        scene.text(
            (middle.round(), f64::from(self.y + 15)),
            Anchor::Middle,
            Letters::Label,
            tick(label),
        );
    }

    fn middle(&self, share: f64) -> f64 {
        f64::from(self.x) + share * f64::from(RAMP - 1)
    }
}
