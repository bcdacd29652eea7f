//! Heat maps: rank × rank, rank × step, operation × size. The same pictures in the report and as files.
//!
//! In the order in which the data flows: [`steps`], [`traffic`] and [`bandwidth`] take values from a session as they are
//! (nothing is computed here that METRICS.md would define) into a [`grid`]; [`scale`] gives values colours of
//! [`cividis`], [`picture`] a layout in the colours of a [`theme`] with the letters of [`font`]; the [`scene`] that comes
//! out is written by [`svg`] and [`png`].
//!
//! A picture can be read back: cells lie on whole pixels, a colour tells a value within one of 255 steps, places without
//! a value have a look of their own, and what was done where several cells share a place stands in the picture.

pub mod bandwidth;
pub mod cividis;
mod font;
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
use rankscope_formats::session::{Session, TableError, TableReader, TrafficRow, part_path};
use serde::Serialize;
use std::path::Path;
use steps::{Chosen, StepQuantity};
use traffic::TrafficValue;

/// A heat map of a session.
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
    /// Every kind, in the order of the report.
    pub const ALL: [Self; 7] = [
        Self::Wait,
        Self::Communication,
        Self::StepTime,
        Self::Delay,
        Self::Busbw,
        Self::Traffic,
        Self::TrafficBandwidth,
    ];

    /// The name of its file, without an ending.
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

    /// What a step's cell shows; `None` of maps without steps.
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

/// A picture, or why there is none, with sources.
pub type Reasoned = Result<Picture, Prose>;

/// A picture, or why there is none.
pub type Made = Result<Picture, String>;

/// The rows of the table `traffic`; none where the session is of a version that had no such table.
pub fn read_traffic(directory: &Path) -> Result<Vec<TrafficRow>, TableError> {
    let path = part_path::<TrafficRow>(directory);
    if path.is_file() {
        TableReader::read_all(&path)
    } else {
        Ok(Vec::new())
    }
}

/// The pictures of a session from its tables. `most_columns`: steps that are told apart at most.
pub fn pictures(
    directory: &Path,
    session: &Session,
    kinds: &[Kind],
    chosen: &Chosen,
    most_columns: usize,
) -> Result<Vec<(Kind, Made)>, TableError> {
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
            let made: Reasoned = match kind {
                Kind::Traffic | Kind::TrafficBandwidth => {
                    of_traffic(session, &moved, &chosen.ranks_of(session), kind)
                }
                Kind::Busbw => of_bandwidth(session),
                _ => match no_steps(session) {
                    Some(reason) => Err(reason),
                    None => grids.next().map_or_else(
                        || Err("no step was read".into()),
                        |grid| {
                            of_step_grid(kind, grid, "none of the chosen ranks has one of the chosen steps")
                        },
                    ),
                },
            };
            (kind, made.map_err(|reason| reason.plain()))
        })
        .collect())
}

/// A picture from the summary alone, as the report has it; `moved` is the table `traffic`.
pub fn of_summary(session: &Session, moved: &[TrafficRow], kind: Kind) -> Reasoned {
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
                    "the session was written by a version that did not compute it",
                ),
            }
        }
    }
}

/// Why there is nothing per step.
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

fn of_step_grid(kind: Kind, grid: Grid, reason: &str) -> Reasoned {
    if grid.cells.is_empty() {
        return Err(reason.into());
    }
    let (title, quantity, note) = match kind {
        Kind::Communication => (
            "Exposed communication per rank and step",
            "exposed communication per step",
            "Bright: in this step this rank could not go on for long because of communication, waiting for peers included.",
        ),
        Kind::StepTime => (
            "Step time per rank and step",
            "time of the step",
            "Bright: this step took this rank long.",
        ),
        Kind::Delay => (
            "Own delay per rank and step",
            "own delay per step, against the median of the peers",
            "Bright: this rank came late by itself, and others waited for it. Who only passes on a delay is not bright.",
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

fn of_bandwidth(session: &Session) -> Reasoned {
    let grid = bandwidth::grid(session);
    if grid.cells.is_empty() {
        let mut classes = session.operations.iter().enumerate();
        let reason = classes.find_map(|(at, class)| {
            let reason = class.bus_bytes_per_s.reason.as_ref()?;
            Some(quoted(reason, format!("/operations/{at}/bus_bytes_per_s/reason")).into())
        });
        return Err(reason.unwrap_or_else(|| "no operation was recorded".into()));
    }
    Ok(Picture {
        title: "Bus bandwidth per operation and size".to_owned(),
        quantity: "bus bandwidth, median".to_owned(),
        notes: vec![of_awaited("Of launches that waited for at most ")],
        missing: "no value: not called with this size, or always waited for longer".to_owned(),
        grids: vec![grid],
        prefers_log: true,
        square: false,
        numbers: true,
    })
}

/// Which launches a bandwidth is of (METRICS.md, section 2).
fn of_awaited(what: &str) -> Prose {
    prose![what, rule("20 %"), " of their time."]
}

fn of_traffic(session: &Session, moved: &[TrafficRow], ranks: &[u32], kind: Kind) -> Reasoned {
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
            "Not in it: ",
            counted(left_out.operations, "instance", "/pairs/left_out/operations"),
            " (",
            Prose::join(
                names.map(|(at, name)| quoted(name, format!("/pairs/left_out/names/{at}"))),
                ", "
            ),
            ") of which it is not known between whom."
        ]
    });
    if grids.is_empty() {
        let reason = if moved.is_empty() {
            "nothing that went from rank to rank is in the session; one that an older version merged has no such table, merge again"
        } else if value == TrafficValue::Bandwidth {
            "of nothing that went from rank to rank it is known how long it took"
        } else {
            "of nothing it is known between which of these ranks it went"
        };
        let parts = [Some(reason.into()), what_is_left_out];
        return Err(Prose::join(parts.into_iter().flatten(), ". "));
    }
    let mut notes: Vec<Prose> = vec![
        "From the rank of the row to that of the column, over the whole run: messages as the program called them, of \
         collectives the bytes that their ring or tree carries."
            .into(),
    ];
    if traffic::has_proxies(moved) {
        notes.push(
            "Where NCCL's proxies measured a pair, it is what they moved on the wire; what goes by shared memory or directly \
             between devices they do not see."
                .into(),
        );
    }
    if value == TrafficValue::Bandwidth {
        notes.push(of_awaited(
            "Bandwidth: bytes over the sum of the transfers in which they went, of launches that waited for at most ",
        ));
    }
    notes.extend(what_is_left_out);
    let (title, quantity, missing) = match value {
        TrafficValue::Bytes => (
            "Bytes from rank to rank",
            "bytes sent",
            "nothing of this kind between these two",
        ),
        TrafficValue::Bandwidth => (
            "Bandwidth from rank to rank",
            "bytes per second of transfer",
            "no transfer between these two of which the time is known",
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
