//! Artificial sessions with indices, and filters of all forms.

use super::expression::{Communicator, Comparison, Filter, Kind, NumberRange, ROLES, Ranges, Test};
use crate::model::{Opened, View};
use proptest::prelude::*;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{
    Footer, LaneKind, Layers, Name, Span, ViewFile, ViewWriter, call, operation, overhead, view_path, work,
};
use rankscope_formats::session::Scope;
use rankscope_formats::session::Session;
use rankscope_ranklog::Operation;
use std::sync::Arc;

/// Number of ranks of the session.
pub const RANKS: u32 = 4;

/// Returns the positions of all ranks.
pub fn ranks() -> impl Iterator<Item = RankIndex> {
    (0..RANKS).map(RankIndex)
}

/// A session of four ranks on two hosts.
///
/// All ranks are in communicator 0, the world. The first two share communicator 1 (role data). The others share
/// communicator 2 (roles tensor and context, across hosts).
pub struct Made {
    pub opened: Arc<Opened>,
    _folder: tempfile::TempDir,
}

/// A span of a rank. For a step, `bytes` is its number.
#[derive(Clone, Debug)]
pub struct Planned {
    pub rank: RankIndex,
    pub kind: LaneKind,
    pub name: Name,
    pub span: Span,
}

impl Made {
    /// Creates a session with these spans.
    pub fn with(planned: &[Planned]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let session = session();
        for rank in ranks() {
            let mut writer = ViewWriter::create(&view_path(folder.path(), rank.0)).expect("create");
            let mut layers = Layers::default();
            let mut own: Vec<&Planned> = planned.iter().filter(|planned| planned.rank == rank).collect();
            own.sort_by_key(|planned| planned.span.start_ns);
            for planned in own {
                let mut span = planned.span;
                span.name = match planned.kind {
                    LaneKind::Steps => planned.name.bytes.unwrap_or_default() as u32,
                    LaneKind::Parts { .. } => 0,
                    _ => writer.name(planned.name.clone()),
                };
                layers.push(&mut writer, planned.kind, span).expect("push");
            }
            let footer = Footer {
                session_written_unix_ns: session.written_unix_ns,
                rank: rank.0,
                ..Footer::default()
            };
            writer.finish(footer).expect("finish");
        }
        Self {
            opened: Arc::new(Opened::new(folder.path(), session)),
            _folder: folder,
        }
    }

    /// Creates a session with a few spans of each kind.
    ///
    /// Each rank has five all-reduces at intervals of 100 µs, 10 µs later than those of the previous rank. The first
    /// one is accompanied by a call, a kernel, a stall, a mark and a step.
    pub fn new() -> Self {
        Self::with(&little())
    }

    /// Returns the index of a rank.
    pub fn view(&self, rank: RankIndex) -> &Arc<ViewFile> {
        match self.opened.view(rank) {
            View::Open(view) => view,
            _ => panic!("rank {rank} has no index"),
        }
    }
}

fn little() -> Vec<Planned> {
    let mut out = Vec::new();
    for rank in ranks() {
        let at = i64::from(rank.0) * 10_000;
        let mut push = |kind, text: &str, bytes, span| {
            let text = text.to_owned();
            let name = Name { text, bytes };
            out.push(Planned {
                rank,
                kind,
                name,
                span,
            });
        };
        for number in 0..5 {
            let span = Span {
                start_ns: at + number * 100_000,
                end_ns: at + number * 100_000 + 50_000,
                wait_ns: 10_000 * number,
                class: if number == 4 {
                    operation::FAILED
                } else {
                    operation::TRANSFER
                },
                instance: Some(number as u64),
                ..Span::default()
            };
            let communicator = Some(0);
            push(
                LaneKind::Operations { communicator },
                "all-reduce",
                Some(1 << (18 + number)),
                span,
            );
        }
        let span = |class| Span {
            start_ns: at,
            end_ns: at + 60_000,
            class,
            ..Span::default()
        };
        let communicator = Some(1 + rank.0 / 2);
        push(
            LaneKind::Operations { communicator },
            "send",
            None,
            span(operation::TRANSFER),
        );
        push(
            LaneKind::Calls { thread_id: 77 },
            "cudaLaunchKernel",
            None,
            span(call::LAUNCH),
        );
        push(LaneKind::Marks { thread_id: 77 }, "Forward Pass", None, span(0));
        push(
            LaneKind::Overhead { thread_id: 77 },
            "buffer flush",
            None,
            span(overhead::RECORDER),
        );
        push(
            LaneKind::Works { stream: Some(0) },
            "void gemm(int)",
            None,
            span(work::COMPUTE),
        );
        push(LaneKind::Stalls, "late peer: rank 3", None, span(0));
        push(LaneKind::Pauses, "checkpoint", None, span(0));
        push(LaneKind::Parts { device: false }, "", None, span(3));
        push(LaneKind::Steps, "", Some(12), span(0));
    }
    out
}

fn session() -> Session {
    let job = rankscope_fixtures::sessions::Job {
        hosts: 2,
        ..rankscope_fixtures::sessions::Job::new(RANKS, 6)
    };
    let mut session = job.session();
    session.counters = rankscope_fixtures::sessions::structured().counters;
    for (index, (role, scope, members)) in [
        ("data", Scope::InsideHost, [0, 1]),
        ("tensor+context", Scope::AcrossHosts, [2, 3]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut communicator = session.communicators[0].clone();
        communicator.index = index as u32 + 1;
        communicator.name = format!("Group {role}");
        communicator.role = role.to_owned();
        communicator.scope = scope;
        communicator.members = members.map(Some).to_vec();
        session.communicators.push(communicator);
    }
    session
}

/// Generates spans of all kinds. Names and classes have few possible values, so that filters match some of them.
pub fn spans() -> impl Strategy<Value = Vec<Planned>> {
    let kind = prop_oneof![
        Just(LaneKind::Steps),
        Just(LaneKind::Parts { device: false }),
        Just(LaneKind::Stalls),
        (7u32..9).prop_map(|thread_id| LaneKind::Calls { thread_id }),
        (7u32..9).prop_map(|thread_id| LaneKind::Marks { thread_id }),
        (7u32..9).prop_map(|thread_id| LaneKind::Overhead { thread_id }),
        Just(LaneKind::Pauses),
        proptest::option::of(0u32..3).prop_map(|communicator| LaneKind::Operations { communicator }),
        Just(LaneKind::Works { stream: None }),
    ];
    let name = prop_oneof![
        "[abAB]{1,3}",
        Just("all-reduce".to_owned()),
        Just("send".to_owned())
    ];
    let span = (
        0u32..RANKS,
        kind,
        name,
        proptest::option::of(0u64..6),
        (0i64..2_000, 0i64..200, 0i64..200, 0u8..7),
    );
    let span = span.prop_map(|(rank, kind, text, bytes, (start_ns, duration, wait, class))| {
        // Operations need a communicator of which the rank is a member, and only operations wait.
        let kind = match kind {
            LaneKind::Operations {
                communicator: Some(1..),
            } => LaneKind::Operations {
                communicator: Some(1 + rank / 2),
            },
            kind => kind,
        };
        let waits = matches!(kind, LaneKind::Operations { .. });
        Planned {
            rank: RankIndex(rank),
            kind,
            name: Name { text, bytes },
            span: Span {
                start_ns,
                end_ns: start_ns + duration,
                wait_ns: if waits { wait.min(duration) } else { 0 },
                class,
                ..Span::default()
            },
        }
    });
    proptest::collection::vec(span, 0..60)
}

fn ranges(below: u32) -> impl Strategy<Value = Ranges> {
    let range = (0..below, 0..below, any::<bool>()).prop_map(|(one, other, is_open)| NumberRange {
        first: one.min(other),
        last: if is_open { u32::MAX } else { one.max(other) },
    });
    proptest::collection::vec(range, 1..3).prop_map(Ranges)
}

fn comparison() -> impl Strategy<Value = Comparison> {
    proptest::sample::select(vec![
        Comparison::Less,
        Comparison::AtMost,
        Comparison::Equal,
        Comparison::AtLeast,
        Comparison::More,
    ])
}

/// Generates filters in the form that the parser returns. `names` is the pattern of names.
pub fn filters(names: &'static str) -> impl Strategy<Value = Filter> {
    let text = || names.prop_map(|text: String| text.to_lowercase());
    let some_text = move || text().prop_filter("names are not blank", |text| !text.trim().is_empty());
    let class = proptest::sample::select(vec![
        "in",
        "waiting",
        "memory",
        "exposed-wait",
        "failed",
        "c",
        "idle",
    ]);
    let operation = proptest::sample::select(vec![Operation::AllReduce, Operation::Send, Operation::GatherV]);
    let test = prop_oneof![
        text().prop_map(Test::Name),
        ranges(5).prop_map(Test::Rank),
        some_text().prop_map(Test::Host),
        (0u32..4).prop_map(|number| Test::Communicator(Communicator::Number(number))),
        some_text().prop_map(|text| Test::Communicator(Communicator::Name(text))),
        proptest::sample::select(ROLES.to_vec()).prop_map(|role| Test::Role(role.to_owned())),
        proptest::sample::select(Scope::ALL).prop_map(Test::Scope),
        ranges(12).prop_map(Test::Thread),
        operation.prop_map(Test::Operation),
        proptest::sample::select(Kind::ALL.to_vec()).prop_map(Test::Kind),
        class.prop_map(|class| Test::Class(class.to_owned())),
        (comparison(), 0u64..6).prop_map(|(is, bytes)| Test::Size(is, bytes)),
        (comparison(), 0i64..200).prop_map(|(is, ns)| Test::Duration(is, ns)),
        (comparison(), 0i64..200).prop_map(|(is, ns)| Test::Wait(is, ns)),
        (comparison(), 0.0f64..100.0).prop_map(|(is, percent)| Test::WaitShare(is, percent)),
        ranges(8).prop_map(Test::Step),
    ];
    test.prop_map(Filter::Is).prop_recursive(4, 24, 3, |inner| {
        let several = proptest::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            several.clone().prop_map(Filter::And),
            several.prop_map(Filter::Or),
            inner.prop_map(|part| Filter::Not(Box::new(part))),
        ]
    })
}
