//! Structure of the job in sentences and rows, shared by the terminal and the HTML page.

use super::figures::{self, count, counted, percent, plain, quoted, time};
use super::prose::{Prose, prose};
use super::reasons::Reasons;
use super::source::{self, less, number, times};
use crate::sentences::{Line, share_of, some_prose};
use rankscope_formats::session::{Pipeline, RoleGroup, Session, WorldStructure};

/// Maximum number of ranks named in a cell.
const MAX_NAMED: usize = 8;

/// Describes the structure of the job: attempts, worlds, hosts, roles, pipelines. Returns nothing if all ranks do the
/// same in one world.
pub fn sentences(session: &Session) -> Vec<Line> {
    let is_plain = |structure: &WorldStructure| {
        structure.groups.is_empty() && structure.pipelines.is_empty() && structure.no_pipeline.is_none()
    };
    if session.worlds.len() < 2 && session.attempts.len() < 2 && session.structure.iter().all(is_plain) {
        return Vec::new();
    }
    let mut out = vec![Line::plain(whole(session))];
    let several = session.structure.len() > 1;
    for (at, structure) in session.structure.iter().enumerate() {
        let from = format!("/structure/{at}");
        let of_world =
            || several.then(|| prose!["world ", plain(structure.world, format!("{from}/world")), ": "]);
        if !structure.groups.is_empty() {
            let groups = structure.groups.iter().enumerate();
            let groups = groups.map(|(place, of)| group(of, &format!("{from}/groups/{place}")));
            out.push(Line::plain(prose![of_world(), Prose::join(groups, ", ")]));
        }
        for (place, of) in structure.pipelines.iter().enumerate() {
            let stages = pipeline(of, &format!("{from}/pipelines/{place}"));
            out.push(Line::plain(prose![of_world(), stages]));
        }
        if let Some(reason) = &structure.no_pipeline {
            let reason = quoted(reason, format!("{from}/no_pipeline"));
            out.push(Line::plain(prose![
                of_world(),
                "no pipeline was detected: ",
                reason
            ]));
        }
    }
    out
}

fn whole(session: &Session) -> Prose {
    let mut parts = Vec::new();
    let mut add = |of: usize, thing: &str, all: &str| parts.push(counted(of as u64, thing, number(all)));
    if session.attempts.len() > 1 {
        add(session.attempts.len(), "attempt", "/attempts/*");
    }
    add(session.worlds.len(), "world", "/worlds/*");
    add(session.hosts.len(), "host", "/hosts/*");
    add(session.ranks.len(), "rank", "/ranks/*");
    add(session.communicators.len(), "communicator", "/communicators/*");
    Prose::join(parts, ", ")
}

fn group(group: &RoleGroup, from: &str) -> Prose {
    let of = |field: &str| format!("{from}/{field}");
    let all = group.communicators.len() as u64;
    let number_of = count(all, number(of("communicators/*")));
    let plural = if all == 1 { "" } else { "s" };
    prose![
        match group.role.as_str() {
            "sub-group" => prose![number_of, format!(" sub-group{plural} of unknown role")],
            role => prose![
                number_of,
                " ",
                quoted(role, of("role")),
                format!(" group{plural}")
            ],
        },
        " of ",
        plain(group.size, of("size")),
        " ranks",
        match group.role_source.as_str() {
            "name" => " (by name)",
            "operations" => " (by use)",
            _ => "",
        }
    ]
}

fn pipeline(pipeline: &Pipeline, from: &str) -> Prose {
    let of = |field: &str| format!("{from}/{field}");
    let mut text = prose![
        "a pipeline of ",
        count(pipeline.stages.len() as u64, number(of("stages/*"))),
        " stages in ",
        // A chain is a list. It is counted by its first rank.
        counted(pipeline.chains.len() as u64, "chain", number(of("chains/*/0"))),
    ];
    text.push(match pipeline.micro_batches.get() {
        Ok(&micro) => {
            let plural = if micro == 1 { "" } else { "es" };
            prose![
                ", ",
                plain(micro, of("micro_batches/value")),
                format!(" micro-batch{plural} per step")
            ]
        }
        Err(reason) => prose![
            ", micro-batches per step: – (",
            quoted(reason, of("micro_batches/reason")),
            ")"
        ],
    });
    let (shares, sources): (Vec<f64>, Vec<String>) = pipeline
        .stages
        .iter()
        .enumerate()
        .filter_map(|(place, stage)| {
            let bubble = of(&format!("stages/{place}/bubble/value"));
            let source = source::share(format!("{bubble}/numerator"), format!("{bubble}/denominator"));
            Some((stage.bubble.value?.share(), source))
        })
        .unzip();
    if let (Some(least), Some(most)) = (
        shares.iter().copied().reduce(f64::min),
        shares.iter().copied().reduce(f64::max),
    ) {
        let sources = sources.join(",");
        text.push(prose![
            "; its stages wait ",
            percent(least, source::min(&sources)),
            " to ",
            percent(most, source::max(&sources)),
            " of their step time in receives"
        ]);
    }
    if let Some(ideal) = &pipeline.ideal_bubble.value {
        let ideal = figures::share(ideal, &of("ideal_bubble/value"));
        text.push(prose![", an ideal pipeline ", ideal]);
    }
    text
}

/// Headings of the stages.
pub const STAGE_COLUMNS: [&str; 7] = [
    "stage",
    "ranks",
    "step",
    "own time",
    "bubble",
    "ideal",
    "other waiting and transfer",
];

/// Returns one row per stage of all pipelines.
pub fn stage_rows(session: &Session, reasons: &mut Reasons) -> Vec<Vec<Prose>> {
    let mut rows = Vec::new();
    for (world, structure) in session.structure.iter().enumerate() {
        for (at, pipeline) in structure.pipelines.iter().enumerate() {
            let from = format!("/structure/{world}/pipelines/{at}");
            for (position, stage) in pipeline.stages.iter().enumerate() {
                let of = |field: &str| format!("{from}/stages/{position}/{field}");
                let rank_steps = i64::try_from(stage.steps).unwrap_or(i64::MAX) * stage.ranks.len() as i64;
                let each = |ns: i64, field: &str| {
                    let rank_steps_from = times(of("steps"), number(of("ranks/*")));
                    (rank_steps > 0).then(|| time(ns / rank_steps, source::share(of(field), rank_steps_from)))
                };
                let window = of("window_rank_ns");
                let of_step = |ns: i64, part: &str| share_of(ns, stage.window_rank_ns, part, &window);
                let dash = || Prose::from("–");
                let name = prose![
                    position_in(&format!("{from}/stages"), position, "/steps"),
                    " of ",
                    count(pipeline.stages.len() as u64, number(format!("{from}/stages/*"))),
                    (session.structure.len() > 1).then(|| {
                        let number = plain(structure.world, format!("/structure/{world}/world"));
                        prose![", world ", number]
                    })
                ];
                let rest = stage.window_rank_ns - stage.own_rank_ns - stage.bubble_rank_ns;
                let rest_from = less(less(&window, of("own_rank_ns")), of("bubble_rank_ns"));
                rows.push(vec![
                    name,
                    named(session, &stage.ranks),
                    each(stage.window_rank_ns, "window_rank_ns").map_or_else(dash, Prose::from),
                    each(stage.own_rank_ns, "own_rank_ns").map_or_else(dash, |own| {
                        let own_share = of_step(stage.own_rank_ns, &of("own_rank_ns"));
                        prose![own, " (", own_share, ")"]
                    }),
                    reasons.figure(&stage.bubble, &of("bubble"), |ratio, from| {
                        figures::share(ratio, &from)
                    }),
                    reasons.figure(
                        &pipeline.ideal_bubble,
                        &format!("{from}/ideal_bubble"),
                        |ratio, from| figures::share(ratio, &from),
                    ),
                    of_step(rest, &rest_from),
                ]);
            }
        }
    }
    rows
}

/// Formats a position in a list of the JSON, counted from 0, as the number of elements before it. `each` is a field
/// that every element has once.
fn position_in(list: &str, position: usize, each: &str) -> figures::Shown {
    count(position as u64, number(format!("{list}/0:{position}{each}")))
}

fn named(session: &Session, ranks: &[u32]) -> Prose {
    some_prose(ranks.iter().map(|&rank| figures::rank(session, rank)), MAX_NAMED)
}

/// Headings of the groups.
pub const GROUP_COLUMNS: [&str; 7] = [
    "role",
    "source",
    "groups",
    "ranks in each",
    "distance",
    "scope",
    "world",
];

/// Returns one row per family of communicators with the same shape.
pub fn group_rows(session: &Session) -> Vec<Vec<Prose>> {
    let mut rows = Vec::new();
    for (world, structure) in session.structure.iter().enumerate() {
        for (at, group) in structure.groups.iter().enumerate() {
            let of = |field: &str| format!("/structure/{world}/groups/{at}/{field}");
            rows.push(vec![
                quoted(&group.role, of("role")).into(),
                quoted(&group.role_source, of("role_source")).into(),
                count(group.communicators.len() as u64, number(of("communicators/*"))).into(),
                plain(group.size, of("size")).into(),
                match group.stride {
                    Some(stride) => plain(stride, of("stride")).into(),
                    None => "uneven".into(),
                },
                quoted(group.scope, of("scope")).into(),
                plain(structure.world, format!("/structure/{world}/world")).into(),
            ]);
        }
    }
    rows
}

/// Headings of the peers.
pub const PEER_COLUMNS: [&str; 3] = ["position", "source", "peers"];

/// Returns one row per position that several ranks have, unless all ranks have the same position.
pub fn peer_rows(session: &Session) -> Vec<Vec<Prose>> {
    let mut rows = Vec::new();
    for (world, structure) in session.structure.iter().enumerate() {
        if structure.peers.len() < 2 {
            continue;
        }
        let from = format!("/structure/{world}");
        for (position, peers) in structure.peers.iter().enumerate() {
            rows.push(vec![
                position_in(&format!("{from}/peers"), position, "/0").into(),
                quoted(&structure.peers_source, format!("{from}/peers_source")).into(),
                named(session, peers),
            ]);
        }
    }
    rows
}
