//! Heat maps: rank × rank, rank × step, operation × size. The report and files show the same pictures.
//!
//! The data passes through these modules in order:
//! - [`steps`], [`traffic`] and [`bandwidth`] copy values of a session into a [`grid`]. They compute no metric of
//!   METRICS.md.
//! - [`scale`] maps values to colours of [`cividis`].
//! - [`picture`] makes the layout, in the colours of a [`theme`] and the letters of [`font`]. The result is a
//!   [`scene`].
//! - [`svg`] and [`png`] write the scene.
//!
//! A picture can be converted back to values. Cells have whole pixels, a colour gives a value within one of 255 steps,
//! and positions without a value have a distinct pattern. If several values share a cell, the picture names the rule.

pub mod bandwidth;
pub mod cividis;
pub(crate) mod font;
pub mod grid;
pub mod grouping;
pub mod picture;
pub mod png;
pub mod scale;
pub mod scene;
pub mod steps;
pub mod svg;
pub mod theme;
pub mod ticks;
pub mod traffic;

use crate::figures::{counted, quoted, rule};
use crate::prose::{Prose, prose};
use grid::Grid;
use picture::Picture;
use rankscope_formats::files;
use rankscope_formats::session::{Session, TableError, TableReader, TrafficRow, part_path};
use serde::Serialize;
use std::path::Path;
use steps::{Chosen, StepQuantity};
use traffic::TrafficValue;

/// Kind of heat map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Bytes from rank to rank.
    Traffic,
    /// Bandwidth from rank to rank.
    TrafficBandwidth,
    /// Exposed wait per rank and step.
    Wait,
    /// Exposed communication per rank and step.
    Communication,
    /// Step time per rank and step.
    StepTime,
    /// Own delay per rank and step.
    Delay,
    /// Bus bandwidth per operation and size.
    Busbw,
}

impl Kind {
    /// All kinds, in the order of the report.
    pub const ALL: [Self; 7] = [
        Self::Wait,
        Self::Communication,
        Self::StepTime,
        Self::Delay,
        Self::Busbw,
        Self::Traffic,
        Self::TrafficBandwidth,
    ];

    /// Returns the name of the file, without extension.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traffic => "traffic",
            Self::TrafficBandwidth => "traffic-bandwidth",
            Self::Wait => "wait",
            Self::Communication => "communication",
            Self::StepTime => "step-time",
            Self::Delay => "delay",
            Self::Busbw => "busbw",
        }
    }

    /// Returns the quantity of a step's cell; `None` for maps without steps.
    pub fn of_steps(self) -> Option<StepQuantity> {
        match self {
            Self::Wait => Some(StepQuantity::Wait),
            Self::Communication => Some(StepQuantity::Communication),
            Self::StepTime => Some(StepQuantity::Duration),
            Self::Delay => Some(StepQuantity::Delay),
            Self::Traffic | Self::TrafficBandwidth | Self::Busbw => None,
        }
    }
}

/// Picture, or the reason why there is none, with sources.
pub type PictureOrProse = Result<Picture, Prose>;

/// Picture, or the reason why there is none.
pub type PictureOrReason = Result<Picture, String>;

/// Reads the table `traffic`. Returns no rows if the session is from a version without this table.
pub fn read_traffic(directory: &Path) -> Result<Vec<TrafficRow>, TableError> {
    let path = part_path::<TrafficRow>(directory);
    if files::may_exist(&path) {
        TableReader::read_all(&path)
    } else {
        Ok(Vec::new())
    }
}

/// Draws the pictures of a session from its tables. `most_columns` is the maximum number of distinct steps.
pub fn pictures(
    directory: &Path,
    session: &Session,
    kinds: &[Kind],
    chosen: &Chosen,
    most_columns: usize,
) -> Result<Vec<(Kind, PictureOrReason)>, TableError> {
    let of_steps: Vec<StepQuantity> = kinds.iter().filter_map(|kind| kind.of_steps()).collect();
    let mut grids = if of_steps.is_empty() || no_steps(session).is_some() {
        Vec::new()
    } else {
        steps::from_tables(directory, session, &of_steps, chosen, most_columns)?
    }
    .into_iter();
    let needs_traffic = |kind: &Kind| matches!(kind, Kind::Traffic | Kind::TrafficBandwidth);
    let moved = if kinds.iter().any(needs_traffic) {
        read_traffic(directory)?
    } else {
        Vec::new()
    };
    Ok(kinds
        .iter()
        .map(|&kind| {
            let made: PictureOrProse = match kind {
                Kind::Traffic | Kind::TrafficBandwidth => {
                    of_traffic(session, &moved, &chosen.ranks_of(session), kind)
                }
                Kind::Busbw => of_bandwidth(session),
                _ => match no_steps(session) {
                    Some(reason) => Err(reason),
                    None => grids.next().map_or_else(
                        || Err("no step was read".into()),
                        |grid| of_step_grid(kind, grid, "none of the chosen ranks has a chosen step"),
                    ),
                },
            };
            (kind, made.map_err(|reason| reason.plain()))
        })
        .collect())
}

/// Draws a picture from the summary alone, as in the report; `moved` is the table `traffic`.
pub fn of_summary(session: &Session, moved: &[TrafficRow], kind: Kind) -> PictureOrProse {
    match kind {
        Kind::Traffic | Kind::TrafficBandwidth => {
            let all: Vec<u32> = session.ranks.iter().map(|rank| rank.index).collect();
            of_traffic(session, moved, &all, kind)
        }
        Kind::Busbw => of_bandwidth(session),
        Kind::Wait | Kind::Communication | Kind::StepTime | Kind::Delay => {
            let quantity = kind.of_steps().unwrap_or(StepQuantity::Wait);
            match no_steps(session) {
                Some(reason) => Err(reason),
                None => of_step_grid(
                    kind,
                    steps::from_matrix(session, quantity),
                    "the session was written by a version that did not compute this",
                ),
            }
        }
    }
}

/// Returns the reason why there are no values per step.
fn no_steps(session: &Session) -> Option<Prose> {
    session
        .waits
        .steps
        .is_empty()
        .then(|| match &session.waits.reason {
            Some(reason) => quoted(reason, "/waits/reason").into(),
            None => "there are no steps".into(),
        })
}

fn of_step_grid(kind: Kind, grid: Grid, reason: &str) -> PictureOrProse {
    if grid.cells.is_empty() {
        return Err(reason.into());
    }
    let (title, quantity, note) = match kind {
        Kind::Communication => (
            "Exposed communication per rank and step",
            "exposed communication per step",
            "Bright: communication blocked this rank for a long time in this step, waiting for peers included.",
        ),
        Kind::StepTime => (
            "Step time per rank and step",
            "duration of the step",
            "Bright: this step was long on this rank.",
        ),
        Kind::Delay => (
            "Own delay per rank and step",
            "own delay per step, against the median of the peers",
            "Bright: this rank was late by itself, and others waited for it. A rank that only passes on a delay is \
             not bright.",
        ),
        _ => (
            "Exposed wait per rank and step",
            "exposed wait per step",
            "Bright: this rank waited for others in this step.",
        ),
    };
    let mut notes: Vec<Prose> = vec![note.into()];
    let mut columns = grid.columns.items.iter().map(|item| &item.label);
    if let Some(steps) = columns.find(|label| label.plain().starts_with("steps")) {
        notes.push(prose![
            "A column is a mean over several steps, the first ",
            steps.clone(),
            "."
        ]);
    }
    Ok(Picture {
        title: title.to_owned(),
        quantity: quantity.to_owned(),
        notes,
        missing: if kind == Kind::Delay {
            "no value: the rank or a peer lacks the step, or there are no peers".to_owned()
        } else {
            "no value: the rank lacks the step".to_owned()
        },
        grids: vec![grid],
        prefers_log: false,
        square: false,
        numbers: false,
    })
}

fn of_bandwidth(session: &Session) -> PictureOrProse {
    let grid = bandwidth::grid(session);
    if grid.cells.is_empty() {
        let mut classes = session.operations.iter().enumerate();
        let reason = classes.find_map(|(at, class)| {
            let reason = class.bus_bytes_per_s.reason.as_ref()?;
            Some(quoted(reason, format!("/operations/{at}/bus_bytes_per_s/reason")).into())
        });
        return Err(reason.unwrap_or_else(|| "no operations were recorded".into()));
    }
    Ok(Picture {
        title: "Bus bandwidth per operation and size".to_owned(),
        quantity: "bus bandwidth, median".to_owned(),
        notes: vec![of_awaited("Launches with a wait share of at most ")],
        missing: "no value: no call with this size, or all launches waited longer".to_owned(),
        grids: vec![grid],
        prefers_log: true,
        square: false,
        numbers: true,
    })
}

/// Returns which launches a bandwidth refers to (METRICS.md, section 2).
fn of_awaited(what: &str) -> Prose {
    prose![what, rule("20 %"), "."]
}

fn of_traffic(session: &Session, moved: &[TrafficRow], ranks: &[u32], kind: Kind) -> PictureOrProse {
    let value = if kind == Kind::TrafficBandwidth {
        TrafficValue::Bandwidth
    } else {
        TrafficValue::Bytes
    };
    let grids = traffic::grids(session, &traffic::pairs(moved), ranks, value);
    let left_out = traffic::left_out(moved);
    let what_is_left_out = (left_out.operations > 0).then(|| {
        let names = left_out.names.iter().enumerate();
        prose![
            "Not included: ",
            counted(left_out.operations, "instance", "/pairs/left_out/operations"),
            " (",
            Prose::join(
                names.map(|(at, name)| quoted(name, format!("/pairs/left_out/names/{at}"))),
                ", "
            ),
            ") between unknown ranks."
        ]
    });
    if grids.is_empty() {
        let reason = if moved.is_empty() {
            "the session has no traffic between ranks; sessions of older versions lack this table, so merge the run \
             again"
        } else if value == TrafficValue::Bandwidth {
            "the duration of the traffic between ranks is not known"
        } else {
            "the traffic between these ranks is not known"
        };
        let parts = [Some(reason.into()), what_is_left_out];
        return Err(Prose::join(parts.into_iter().flatten(), ". "));
    }
    let mut notes: Vec<Prose> = vec![
        "From the rank of the row to the rank of the column, over the whole run. Messages are as called by the \
         program. Collectives are the bytes that their ring or tree carries."
            .into(),
    ];
    if traffic::has_proxies(moved) {
        notes.push(
            "If NCCL's proxies measured a pair, its value is their traffic on the wire. They do not see shared \
             memory or transfers directly between devices."
                .into(),
        );
    }
    if value == TrafficValue::Bandwidth {
        notes.push(of_awaited(
            "Bandwidth: bytes over the sum of their transfer times, in launches with a wait share of at most ",
        ));
    }
    notes.extend(what_is_left_out);
    let (title, quantity, missing) = match value {
        TrafficValue::Bytes => (
            "Bytes from rank to rank",
            "bytes sent",
            "no traffic of this kind between these two",
        ),
        TrafficValue::Bandwidth => (
            "Bandwidth from rank to rank",
            "bytes per second of transfer",
            "no transfer with a known time between these two",
        ),
    };
    Ok(Picture {
        title: title.to_owned(),
        quantity: quantity.to_owned(),
        notes,
        missing: missing.to_owned(),
        grids,
        prefers_log: true,
        square: true,
        numbers: false,
    })
}
