//! The other session of a comparison, and its state in the current frame.

pub mod colour;
pub mod comparison_tooltip;
pub mod drawing;
pub mod figures;
pub mod table;

use crate::compare::counterparts::Counterparts;
use crate::compare::reading::{Read, Reading};
use crate::compare::reference::{Aligned, References, world_of};
use crate::compare::steps::Steps;
use crate::model::{Action, Hovered, Opened, PickedInstance, View, Window};
use crate::picture::Named;
use crate::picture::Subject;
use crate::picture::painter::HighlightFilter;
use crate::theme::Theme;
use crate::timeline::compared::table::Table;
use crate::timeline::gallery::{Gallery, PictureRow};
use crate::timeline::gutter::lane_title;
use crate::timeline::instance_members::Instances;
use crate::timeline::layout::RowKind;
use egui::{Context, Rect};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::LaneKind;
use rankscope_formats::session::Session;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// What the mouse points at in a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pointed {
    /// A span of B.
    Span {
        /// Position in A of the rank below which the span is drawn.
        rank: RankIndex,
        /// The span. Its rank and lane are positions in B.
        hovered: Hovered,
    },
    /// Steps of a rank of A with their counterparts in B, as positions in [`Steps`].
    Steps {
        /// Position of the rank in A.
        rank: RankIndex,
        /// Position of the first step.
        first: usize,
        /// Position after the last step.
        beyond: usize,
    },
}

/// Precision of the mouse.
#[derive(Clone, Copy, Debug)]
pub struct PointerPrecision {
    /// Duration of a point of the screen, in nanoseconds.
    pub point_ns: i64,
    /// Maximum distance of a span, in nanoseconds.
    pub near_ns: i64,
}

/// A visible row and its place.
#[derive(Clone, Copy, Debug)]
pub struct PlacedRow {
    /// Content of the row.
    pub kind: RowKind,
    /// Place of the row.
    pub rect: Rect,
}

/// The session that the open one is compared with. B has its own pictures, indices and filter. Nothing of it is kept
/// when the window closes.
pub struct Compared {
    /// Session B.
    pub other: Arc<Opened>,
    /// Displayed name of B: its run directory.
    pub name: String,
    /// Which rank of B corresponds to which rank of A.
    pub counterparts: Counterparts,
    /// Table of both sessions.
    pub table: Table,
    /// Whether the table is visible.
    pub table_open: bool,
    /// What the mouse points at.
    pub pointed: Option<Pointed>,
    /// The instance of B that was picked.
    pub picked: Option<PickedInstance>,
    pub(crate) instances: Instances,
    gallery: Gallery,
    reading: Reading,
    references: References,
    /// Alignment in this frame, per world of A.
    aligned: Vec<Option<Aligned>>,
    /// World of the first visible rank.
    first_world: usize,
    picture_rows: Vec<PictureRow>,
    no_marks: Arc<BTreeSet<u64>>,
    is_exact: bool,
}

impl Compared {
    /// Compares the open session with one that was read from `path`.
    pub fn new(own: &Arc<Opened>, path: &Path, session: Session, ctx: &Context) -> Self {
        let other = Arc::new(Opened::new(path, session));
        let wake = ctx.clone();
        other.start_indexing(move || wake.request_repaint());
        let counterparts = Counterparts::of_sessions(&own.session, &other.session);
        let wake = ctx.clone();
        let worlds = own.session.worlds.len() + 1;
        Self {
            name: run_name(path),
            gallery: Gallery::new(&other, ctx),
            reading: Reading::start(own, &other, move || wake.request_repaint()),
            references: References::of(own, &counterparts),
            table: Table::start(own, &other, &counterparts, ctx),
            table_open: true,
            pointed: None,
            picked: None,
            instances: Instances::default(),
            aligned: vec![None; worlds],
            first_world: 0,
            picture_rows: Vec::new(),
            no_marks: Arc::default(),
            is_exact: false,
            counterparts,
            other,
        }
    }

    /// Takes over a newer session of the followed run A. Discards everything that was derived from both sessions.
    pub fn replace_session(&mut self, own: &Arc<Opened>, ctx: &Context) {
        let wake = ctx.clone();
        self.counterparts = Counterparts::of_sessions(&own.session, &self.other.session);
        self.reading = Reading::start(own, &self.other, move || wake.request_repaint());
        self.references = References::of(own, &self.counterparts);
        self.table = Table::start(own, &self.other, &self.counterparts, ctx);
        self.aligned = vec![None; own.session.worlds.len() + 1];
        self.pointed = None;
    }

    /// Returns true if all visible parts of B have loaded and are as exact as pixels allow.
    pub fn is_exact(&self) -> bool {
        self.is_exact
            && self.gallery.is_exact()
            && !self.instances.is_busy()
            && (!self.table_open || !self.table.is_busy())
    }

    /// Sets the theme and filter of B's pictures.
    pub fn set_options(&mut self, theme: Theme, filter: Option<&HighlightFilter>) {
        // No marks: they are instances of A, and the same numbers are different instances in B.
        self.gallery.set_options(theme, &self.no_marks, filter);
    }

    /// Aligns what is visible in a window of A, and requests B's pictures of it.
    pub fn update(&mut self, ctx: &Context, own: &Opened, window: Window, width: f32, visible: &[PlacedRow]) {
        self.reading.update();
        self.aligned.fill(None);
        self.picture_rows.clear();
        self.is_exact = true;
        let mut first_world = None;
        for row in visible {
            let Some(rank) = row.kind.rank() else { continue };
            if self.counterparts.of(rank).is_none() {
                continue;
            }
            let world = world_of(own, rank);
            first_world.get_or_insert(world);
            if self.aligned[world].is_none() {
                self.aligned[world] = self.references.aligned(
                    own,
                    &self.other,
                    &self.counterparts,
                    &mut self.reading,
                    (rank, window),
                );
            }
            match row.kind {
                RowKind::Difference(_) => {
                    let read = self.reading.of(own, &self.other, &self.counterparts, rank);
                    self.is_exact &= !matches!(read, Read::Pending);
                }
                RowKind::OtherPending(_) => {
                    let view = self.counterparts.of(rank).map(|of| self.other.view_soon(of.0));
                    self.is_exact &= !matches!(view, Some(View::Pending));
                }
                RowKind::Other { of, lane, .. } => match self.aligned[world] {
                    Some(aligned) => self.picture_rows.push(PictureRow {
                        rank: of.0,
                        subject: Subject::Lane(lane),
                        rect: row.rect,
                        window: aligned.anchor.other_window(window),
                        blur_px: 0,
                    }),
                    None => self.is_exact = false,
                },
                _ => {}
            }
        }
        self.first_world = first_world.unwrap_or(self.first_world);
        self.gallery.update(ctx, window, width, &self.picture_rows);
        self.instances.update(&self.other, self.picked, ctx);
    }

    /// Returns the visible rows of B with the names on their pictures.
    pub fn picture_rows(&self) -> impl Iterator<Item = (&PictureRow, &[Named])> {
        self.picture_rows.iter().map(|row| (row, self.gallery.named(row)))
    }

    pub(super) fn gallery(&self) -> &Gallery {
        &self.gallery
    }

    /// Returns the alignment of the first visible world.
    pub fn aligned(&self) -> Option<Aligned> {
        self.aligned.get(self.first_world).copied().flatten()
    }

    /// Returns the alignment of the world of a rank of A.
    pub fn aligned_of(&self, own: &Opened, rank: RankIndex) -> Option<Aligned> {
        self.aligned.get(world_of(own, rank)).copied().flatten()
    }

    /// Returns the steps of a rank of A if they were read.
    pub fn steps_of(&self, rank: RankIndex) -> Option<&Arc<Steps>> {
        self.reading.read_of(rank)
    }

    /// Returns the title of a row of the comparison; `None` for A's own rows.
    pub fn title(&self, kind: RowKind) -> Option<String> {
        match kind {
            RowKind::Difference(_) => Some("step time, B − A".to_owned()),
            RowKind::Unmatched(_) => Some("B".to_owned()),
            RowKind::OtherPending(rank) => {
                let of = self.counterparts.of(rank)?;
                Some(format!("B {}", self.other.name_of(of.0)))
            }
            RowKind::Other { of, kind, layer, .. } => Some(match kind {
                LaneKind::Parts { .. } => format!("B {}", self.other.name_of(of.0)),
                // This row continues the one above with spans that overlap there.
                _ if layer > 0 => String::new(),
                _ => format!("B {}", lane_title(&self.other.session, of.0, kind, layer)),
            }),
            RowKind::Group(_)
            | RowKind::Rank { .. }
            | RowKind::Lane { .. }
            | RowKind::InFlight { .. }
            | RowKind::Counter { .. }
            | RowKind::MoreCounters { .. }
            | RowKind::Pending(_) => None,
        }
    }

    /// Updates what the mouse points at. `share` is the place in the window.
    pub fn point(
        &mut self,
        own: &Opened,
        kind: RowKind,
        window: Window,
        share: f64,
        reach: PointerPrecision,
    ) {
        self.pointed = match kind {
            RowKind::Difference(rank) => self.point_at_steps(rank, window.at(share), reach.point_ns),
            RowKind::Other {
                rank, of, lane, kind, ..
            } => self.aligned_of(own, rank).and_then(|aligned| {
                let ns = aligned.anchor.other_window(window).at(share);
                let View::Open(view) = self.other.view(of.0) else {
                    return None;
                };
                let span = view.lane(lane)?.span_at(ns, reach.near_ns)?;
                let hovered = Hovered {
                    rank: of.0,
                    lane,
                    kind,
                    span,
                };
                Some(Pointed::Span { rank, hovered })
            }),
            _ => None,
        };
    }

    fn point_at_steps(&self, rank: RankIndex, ns: i64, pixel_ns: i64) -> Option<Pointed> {
        let steps = self.steps_of(rank)?;
        let mut within = steps.within(ns, ns.saturating_add(1));
        // A step thinner than a pixel is reported together with all steps that share the pixel.
        let is_thin = steps
            .all()
            .get(within.start)
            .is_none_or(|step| step.to_ns.saturating_sub(step.from_ns) < pixel_ns);
        if within.is_empty() || is_thin {
            let half = pixel_ns / 2;
            within = steps.within(ns.saturating_sub(half), ns.saturating_add(half).saturating_add(1));
        }
        (!within.is_empty()).then_some(Pointed::Steps {
            rank,
            first: within.start,
            beyond: within.end,
        })
    }

    /// Zooms to what the mouse points at. A double click does this.
    pub fn show_pointed(&self, own: &Opened, actions: &mut Vec<Action>) {
        let window = match self.pointed {
            Some(Pointed::Span { rank, hovered }) => {
                let Some(aligned) = self.aligned_of(own, rank) else {
                    return;
                };
                let span = Window::between(hovered.span.start_ns, hovered.span.end_ns);
                aligned.anchor.own_window(span)
            }
            Some(Pointed::Steps { rank, first, beyond }) => {
                let Some(steps) = self.steps_of(rank) else { return };
                let of = |position: usize| steps.all().get(position);
                let (Some(first), Some(last)) = (of(first), of(beyond.saturating_sub(1))) else {
                    return;
                };
                Window::between(first.from_ns, last.to_ns)
            }
            None => return,
        };
        actions.push(Action::Show(window.with_margin(0.25)));
    }
}

impl Drop for Compared {
    fn drop(&mut self) {
        self.other.close();
    }
}

/// Returns the name of the run directory, or of the session's directory if that has its own name.
pub fn run_name(path: &Path) -> String {
    let named = path
        .parent()
        .filter(|_| path.ends_with("session"))
        .unwrap_or(path);
    named.file_name().map_or_else(
        || named.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}
