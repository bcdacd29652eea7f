//! Layout of a picture: title, notes, the scale with its unit, and one or more grids.

mod content;
mod legend;
mod panel;
mod text;

pub use content::{Drawn, Picture, PictureStyle, Placed};

use super::scale::Scale;
use super::scene::{Letters, Scene, wrap};
use crate::figures::{drawn, tick};
use crate::prose::{Prose, prose};
use legend::legend;
use panel::{Measured, measure, panel};
use text::{LINE, line, note_line};

/// Width of the narrowest picture, in pixels.
const NARROWEST: u32 = 520;

/// Draws a picture. Returns nothing without rows and columns.
pub fn draw(picture: &Picture, style: &PictureStyle) -> Option<Drawn> {
    let unit = picture.grids.first()?.unit;
    let measured: Vec<Measured> = picture
        .grids
        .iter()
        .filter(|grid| !grid.rows.items.is_empty() && !grid.columns.items.is_empty())
        .map(|grid| measure(grid, picture, style))
        .collect();
    if measured.is_empty() {
        return None;
    }
    let values = || {
        measured
            .iter()
            .flat_map(|grid| grid.fitted.values.iter().copied())
    };
    let scale = Scale::of(
        values().flatten(),
        unit,
        style.spread,
        picture.prefers_log,
        style.clips,
    );
    let widest = measured.iter().map(Measured::width).max().unwrap_or(0);
    let beside: u32 = measured.iter().map(Measured::width).sum();
    // Grids are side by side if that is no wider than a grid may be.
    let is_beside = beside <= style.most.0.max(widest) + 120;
    let inner = if is_beside { beside } else { widest }.max(NARROWEST);
    let mut scene = Scene {
        width: inner + 2 * style.margin,
        height: 0,
        description: format!("{}, as a heat map", picture.title),
        marks: Vec::new(),
    };
    let title = style.with_words.then_some(picture.title.as_str());
    let notes = notes(picture, &measured, &scale, style.with_words);
    let mut y = heading(&mut scene, title, &notes, style.margin, inner) + 6;
    let has_missing = values().any(|value| value.is_none());
    y = legend(&mut scene, picture, &scale, (style.margin, y), inner, has_missing);
    let mut placed = Vec::with_capacity(measured.len());
    let (mut x, mut lowest) = (style.margin, y);
    for grid in &measured {
        placed.push(panel(&mut scene, picture, grid, &scale, (x, y), style));
        lowest = lowest.max(y + grid.height());
        if is_beside {
            x += grid.width();
        } else {
            y += grid.height();
        }
    }
    scene.height = lowest + style.margin;
    Some(Drawn {
        scene,
        scale,
        placed,
        values: measured.into_iter().map(|grid| grid.fitted.values).collect(),
    })
}

/// Adds the title and the notes. Returns the lower edge.
fn heading(scene: &mut Scene, title: Option<&str>, notes: &[Prose], margin: u32, inner: u32) -> u32 {
    let mut y = margin;
    for words in title
        .into_iter()
        .flat_map(|title| wrap(title, Letters::Title, f64::from(inner)))
    {
        y += LINE + 2;
        line(scene, (margin, y), Letters::Title, words);
    }
    for words in notes
        .iter()
        .flat_map(|note| wrap(&note.plain(), Letters::Note, f64::from(inner)))
    {
        y += LINE;
        line(scene, (margin, y), Letters::Note, note_line(words));
    }
    y
}

/// Returns the notes: those of the picture, and those on how it was reduced to the cells that fit.
fn notes(picture: &Picture, measured: &[Measured], scale: &Scale, with_words: bool) -> Vec<Prose> {
    let mut notes = if with_words {
        picture.notes.clone()
    } else {
        Vec::new()
    };
    let mut reduced: Vec<Prose> = measured
        .iter()
        .filter_map(|grid| grid.grid.note(&grid.fitted))
        .collect();
    reduced.dedup();
    notes.append(&mut reduced);
    if scale.above > 0 {
        notes.push(prose![
            match scale.above {
                1 => prose!["One cell is"],
                count => prose![drawn(count.to_string()), " cells are"],
            },
            " beyond the scale, up to ",
            tick(scale.unit.shown(scale.largest)),
            ", in the last colour."
        ]);
    }
    notes
}
