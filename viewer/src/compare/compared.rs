//! The other session, and what is known of it in a frame.

use super::counterparts::Counterparts;
use super::reading::{Read, Reading};
use super::reference::{Aligned, References, world_of};
use super::steps::Steps;
use super::table::Table;
use crate::model::{Action, Hovered, Opened, PickedInstance, View, Window};
use crate::picture::Named;
use crate::picture::Subject;
use crate::picture::painter::SpanFilter;
use crate::theme::Theme;
use crate::timeline::gallery::{Gallery, Seen};
use crate::timeline::gutter::lane_title;
use crate::timeline::instance::Instances;
use crate::timeline::layout::RowKind;
use egui::{Context, Rect};
use rankscope_formats::index::LaneKind;
use rankscope_formats::session::Session;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// What the mouse points at of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pointed {
    /// A span of B.
    Span {
        /// Position of the rank in A below which it is drawn.
        rank: u32,
        /// Rank and lane are positions in B.
        hovered: Hovered,
    },
    /// Steps of a rank of A, and what B has of them: their positions in [`Steps`].
    Steps {
        /// Position of the rank in A.
        rank: u32,
        /// First of the steps.
        first: usize,
        /// First beyond.
        beyond: usize,
    },
}

/// A row that is seen, and where.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// What it shows.
    pub kind: RowKind,
    /// Where it is drawn.
    pub rect: Rect,
}

/// What the open session is compared with. B's pictures, indices and filter are its own, and nothing of it is kept when the
/// window closes.
pub struct Compared {
    /// B.
    pub other: Arc<Opened>,
    /// What people call B: its run's directory.
    pub name: String,
    /// Which rank of B belongs to which of A.
    pub counterparts: Counterparts,
    /// The two in numbers.
    pub table: Table,
    /// It is shown.
    pub table_open: bool,
    /// Under the mouse.
    pub pointed: Option<Pointed>,
    /// The instance of B that was picked.
    pub picked: Option<PickedInstance>,
    pub(super) instances: Instances,
    gallery: Gallery,
    reading: Reading,
    references: References,
    /// Per world of A, in this frame.
    aligned: Vec<Option<Aligned>>,
    /// World of the first rank that is seen.
    first_world: usize,
    seen: Vec<Seen>,
    no_marks: Arc<BTreeSet<u64>>,
    is_exact: bool,
}

impl Compared {
    /// Of the open session and another one that was read from a directory.
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
            seen: Vec::new(),
            no_marks: Arc::default(),
            is_exact: false,
            counterparts,
            other,
        }
    }

    /// The run that is compared went on, and is another session now: what was known of the two is known no more.
    pub fn go_on(&mut self, own: &Arc<Opened>, ctx: &Context) {
        let wake = ctx.clone();
        self.counterparts = Counterparts::of_sessions(&own.session, &self.other.session);
        self.reading = Reading::start(own, &self.other, move || wake.request_repaint());
        self.references = References::of(own, &self.counterparts);
        self.table = Table::start(own, &self.other, &self.counterparts, ctx);
        self.aligned = vec![None; own.session.worlds.len() + 1];
        self.pointed = None;
    }

    /// True if all that is seen of it is there, and as exact as pixels can be.
    pub fn is_exact(&self) -> bool {
        self.is_exact
            && self.gallery.is_exact()
            && !self.instances.is_busy()
            && (!self.table_open || !self.table.is_busy())
    }

    /// How B's pictures look from now on.
    pub fn set_look(&mut self, theme: Theme, filter: Option<&SpanFilter>) {
        // Marks are instances of A: the same numbers are others in B.
        self.gallery.set_look(theme, &self.no_marks, filter);
    }

    /// Aligns what is seen in a window of A, and asks for B's pictures of it.
    pub fn update(&mut self, ctx: &Context, own: &Opened, window: Window, width: f32, visible: &[Placed]) {
        self.reading.update();
        self.aligned.fill(None);
        self.seen.clear();
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
                    self.is_exact &= !matches!(read, Read::Coming);
                }
                RowKind::OtherComing(_) => {
                    let of = self.counterparts.of(rank).unwrap_or(u32::MAX);
                    self.is_exact &= !matches!(self.other.view_soon(of), View::Coming);
                }
                RowKind::Other { of, lane, .. } => match self.aligned[world] {
                    Some(aligned) => self.seen.push(Seen {
                        rank: of,
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
        self.gallery.update(ctx, window, width, &self.seen);
        self.instances.update(&self.other, self.picked, ctx);
    }

    /// B's rows that are seen, with their pictures' names.
    pub fn seen(&self) -> impl Iterator<Item = (&Seen, &[Named])> {
        self.seen.iter().map(|row| (row, self.gallery.named(row)))
    }

    pub(super) fn gallery(&self) -> &Gallery {
        &self.gallery
    }

    /// How the first world that is seen is aligned.
    pub fn aligned(&self) -> Option<Aligned> {
        self.aligned.get(self.first_world).copied().flatten()
    }

    /// How the world of a rank of A is aligned.
    pub fn aligned_of(&self, own: &Opened, rank: u32) -> Option<Aligned> {
        self.aligned.get(world_of(own, rank)).copied().flatten()
    }

    /// Steps of a rank of A, if they were read.
    pub fn steps_of(&self, rank: u32) -> Option<&Arc<Steps>> {
        self.reading.read_of(rank)
    }

    /// What a row of the comparison is called; `None` of A's own rows.
    pub fn title(&self, kind: RowKind) -> Option<String> {
        match kind {
            RowKind::Difference(_) => Some("step time, B − A".to_owned()),
            RowKind::Alone(_) => Some("B".to_owned()),
            RowKind::OtherComing(rank) => {
                let of = self.counterparts.of(rank)?;
                Some(format!("B {}", self.other.name_of(of)))
            }
            RowKind::Other { of, kind, layer, .. } => Some(match kind {
                LaneKind::Parts { .. } => format!("B {}", self.other.name_of(of)),
                // It goes on with what overlaps the row above.
                _ if layer > 0 => String::new(),
                _ => format!("B {}", lane_title(&self.other.session, of, kind, layer)),
            }),
            RowKind::Host(_)
            | RowKind::Rank { .. }
            | RowKind::Lane { .. }
            | RowKind::InFlight { .. }
            | RowKind::Coming(_) => None,
        }
    }

    /// What is at a place of a row: `share` of the window, `pixel_ns` a pixel, and what is at most `near_ns` away.
    pub fn point(
        &mut self,
        own: &Opened,
        kind: RowKind,
        window: Window,
        share: f64,
        (pixel_ns, near_ns): (i64, i64),
    ) {
        self.pointed = match kind {
            RowKind::Difference(rank) => self.point_at_steps(rank, window.at(share), pixel_ns),
            RowKind::Other {
                rank, of, lane, kind, ..
            } => self.aligned_of(own, rank).and_then(|aligned| {
                let ns = aligned.anchor.other_window(window).at(share);
                let View::Open(view) = self.other.view(of) else {
                    return None;
                };
                let span = view.lane(lane)?.span_at(ns, near_ns)?;
                let hovered = Hovered {
                    rank: of,
                    lane,
                    kind,
                    span,
                };
                Some(Pointed::Span { rank, hovered })
            }),
            _ => None,
        };
    }

    fn point_at_steps(&self, rank: u32, ns: i64, pixel_ns: i64) -> Option<Pointed> {
        let steps = self.steps_of(rank)?;
        let mut within = steps.within(ns, ns.saturating_add(1));
        // What is thinner than a pixel is told with what shares it.
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

    /// Shows what is pointed at as large as it goes: on a double click.
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

/// The run's directory, or the session's where that has a name of its own.
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
