//! The structure of the job in sentences and rows: the same on the terminal and on the page.

use super::reasons::Reasons;
use super::units;
use super::words::{Line, rank_name, share_of, some_of};
use rankscope_formats::session::{Pipeline, RoleGroup, Session, WorldStructure};

/// Ranks that are named in a cell.
const MOST_NAMED: usize = 8;

/// What the job consists of: attempts, worlds, hosts, roles, pipelines. Nothing where all ranks do the same in one world.
pub fn sentences(session: &Session) -> Vec<Line> {
    let is_plain = |structure: &WorldStructure| {
        structure.groups.is_empty() && structure.pipelines.is_empty() && structure.no_pipeline.is_none()
    };
    if session.worlds.len() < 2 && session.attempts.len() < 2 && session.structure.iter().all(is_plain) {
        return Vec::new();
    }
    let mut out = vec![Line::plain(whole(session))];
    let several = session.structure.len() > 1;
    for structure in &session.structure {
        let of_world = if several {
            format!("world {}: ", structure.world)
        } else {
            String::new()
        };
        if !structure.groups.is_empty() {
            let groups: Vec<String> = structure.groups.iter().map(group).collect();
            out.push(Line::plain(format!("{of_world}{}", groups.join(", "))));
        }
        for pipeline in &structure.pipelines {
            out.push(Line::plain(format!("{of_world}{}", self::pipeline(pipeline))));
        }
        if let Some(reason) = &structure.no_pipeline {
            out.push(Line::plain(format!("{of_world}no pipeline is told: {reason}")));
        }
    }
    out
}

fn whole(session: &Session) -> String {
    let mut parts = Vec::new();
    if session.attempts.len() > 1 {
        parts.push(units::counted(session.attempts.len() as u64, "attempt"));
    }
    parts.push(units::counted(session.worlds.len() as u64, "world"));
    parts.push(units::counted(session.hosts.len() as u64, "host"));
    parts.push(units::counted(session.ranks.len() as u64, "rank"));
    parts.push(units::counted(session.communicators.len() as u64, "communicator"));
    parts.join(", ")
}

fn group(group: &RoleGroup) -> String {
    let count = group.communicators.len();
    let what = match (group.role.as_str(), count) {
        ("sub-group", 1) => "1 sub-group of no known role".to_owned(),
        ("sub-group", _) => format!("{count} sub-groups of no known role"),
        (role, 1) => format!("1 {role} group"),
        (role, _) => format!("{count} {role} groups"),
    };
    format!(
        "{what} of {} ranks{}",
        group.size,
        match group.role_source.as_str() {
            "name" => " (by name)",
            "operations" => " (by what they are used for)",
            _ => "",
        }
    )
}

fn pipeline(pipeline: &Pipeline) -> String {
    let mut text = format!(
        "a pipeline of {} stages in {}",
        pipeline.stages.len(),
        units::counted(pipeline.chains.len() as u64, "chain")
    );
    match pipeline.micro_batches.get() {
        Ok(1) => text.push_str(", 1 micro-batch a step"),
        Ok(micro) => text.push_str(&format!(", {micro} micro-batches a step")),
        Err(reason) => text.push_str(&format!(", micro-batches a step: – ({reason})")),
    }
    let told: Vec<f64> = pipeline
        .stages
        .iter()
        .filter_map(|stage| stage.bubble.value.map(|bubble| bubble.share()))
        .collect();
    if let (Some(least), Some(most)) = (
        told.iter().copied().reduce(f64::min),
        told.iter().copied().reduce(f64::max),
    ) {
        text.push_str(&format!(
            "; its stages wait {} to {} of their step time in receives",
            units::percent(least),
            units::percent(most)
        ));
    }
    if let Some(ideal) = pipeline.ideal_bubble.value {
        text.push_str(&format!(", an ideal pipeline {}", units::percent(ideal.share())));
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

/// One row per stage of all pipelines.
pub fn stage_rows(session: &Session, reasons: &mut Reasons) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for structure in &session.structure {
        for pipeline in &structure.pipelines {
            for (number, stage) in pipeline.stages.iter().enumerate() {
                let rank_steps = i64::try_from(stage.steps).unwrap_or(i64::MAX) * stage.ranks.len() as i64;
                let each = |ns: i64| units::time(ns / rank_steps.max(1));
                let name = format!("{number} of {}", pipeline.stages.len());
                let rest = stage.window_rank_ns - stage.own_rank_ns - stage.bubble_rank_ns;
                let of_step = |ns: i64| share_of(ns, stage.window_rank_ns);
                rows.push(vec![
                    if session.structure.len() > 1 {
                        format!("{name}, world {}", structure.world)
                    } else {
                        name
                    },
                    named(session, &stage.ranks),
                    if rank_steps > 0 {
                        each(stage.window_rank_ns)
                    } else {
                        "–".to_owned()
                    },
                    if rank_steps > 0 {
                        format!("{} ({})", each(stage.own_rank_ns), of_step(stage.own_rank_ns))
                    } else {
                        "–".to_owned()
                    },
                    reasons.figure(&stage.bubble, |ratio| units::percent(ratio.share())),
                    reasons.figure(&pipeline.ideal_bubble, |ratio| units::percent(ratio.share())),
                    of_step(rest),
                ]);
            }
        }
    }
    rows
}

fn named(session: &Session, ranks: &[u32]) -> String {
    let names: Vec<String> = ranks.iter().map(|&rank| rank_name(session, rank)).collect();
    some_of(&names, MOST_NAMED)
}

/// Headings of the groups.
pub const GROUP_COLUMNS: [&str; 7] = [
    "role",
    "known by",
    "groups",
    "ranks in each",
    "distance",
    "scope",
    "world",
];

/// One row per family of communicators with the same shape.
pub fn group_rows(session: &Session) -> Vec<Vec<String>> {
    let of = |structure: &WorldStructure, group: &RoleGroup| {
        vec![
            group.role.clone(),
            group.role_source.clone(),
            group.communicators.len().to_string(),
            group.size.to_string(),
            group
                .stride
                .map_or_else(|| "uneven".to_owned(), |stride| stride.to_string()),
            group.scope.clone(),
            structure.world.to_string(),
        ]
    };
    let worlds = session.structure.iter();
    worlds
        .flat_map(|structure| structure.groups.iter().map(move |group| of(structure, group)))
        .collect()
}

/// Headings of the peers.
pub const PEER_COLUMNS: [&str; 3] = ["position", "known by", "peers"];

/// One row per position that several ranks hold, where not all ranks hold the same one.
pub fn peer_rows(session: &Session) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for structure in session
        .structure
        .iter()
        .filter(|structure| structure.peers.len() > 1)
    {
        for (position, peers) in structure.peers.iter().enumerate() {
            rows.push(vec![
                position.to_string(),
                structure.peers_source.clone(),
                named(session, peers),
            ]);
        }
    }
    rows
}
