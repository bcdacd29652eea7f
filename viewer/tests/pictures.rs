//! Tests of the window over a real recording and over traces of other jobs: pictures, clicks, drags, wheel and keys.
//!
//! The pictures are compared with those next to this file. `UPDATE_SNAPSHOTS=1` writes them again; inspect each of
//! them.

#[path = "support/rasterised.rs"]
mod rasterised;
mod support;

use egui::accesskit::Role;
use egui::{Key, Modifiers, Pos2, pos2, vec2};
use egui_kittest::kittest::Queryable;
use rankscope_analysis::{MergeOptions, index, merge};
use rankscope_fixtures::logs::Ddp;
use rankscope_fixtures::logs::pipeline::{MS, Pipelined};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{LaneKind, Span};
use rankscope_formats::session::Session;
use rankscope_tests::artefacts::root;
use rankscope_viewer::app::Start;
use rankscope_viewer::model::{GroupIndex, Grouping, PanelTab, Window};
use rankscope_viewer::timeline::layout::{MAX_COUNTERS, RowKind};
use rasterised::Driven;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SIZE: (f32, f32) = (1000.0, 640.0);

/// Merges a recording of PyTorch over Gloo in which rank 2 of four is slow.
fn recorded(folder: &Path) -> PathBuf {
    let options = MergeOptions {
        directories: vec![root().join("tests/fixtures/ddp_gloo")],
        output: folder.join("session"),
        ..MergeOptions::of_run(folder)
    };
    let session = merge(&options, &mut |_| {}).expect("merged");
    index::ensure(&options.output, &session, 0..4, &mut |_, _| {}).expect("indexed");
    folder.to_path_buf()
}

/// Imports torch.profiler traces of a training on two GPUs.
fn imported(folder: &Path) -> PathBuf {
    support::imported(folder, &["two_ranks_rank0.json.gz", "two_ranks_rank1.json.gz"])
}

fn dark() -> Start {
    Start {
        light: Some(false),
        ..Start::default()
    }
}

fn open(make: fn(&Path) -> PathBuf, start: Start) -> (TempDir, Driven) {
    let folder = tempfile::Builder::new()
        .prefix("run")
        .tempdir()
        .expect("a folder");
    // The pictures show this name, so it must be constant.
    let path = folder.path().join("run");
    std::fs::create_dir(&path).expect("made");
    let driven = Driven::open(vec![make(&path)], start, SIZE);
    (folder, driven)
}

/// Returns the place of a time in the middle of the first row that matches.
fn place(driven: &mut Driven, ns: i64, is_meant: impl Fn(RowKind) -> bool) -> Pos2 {
    let workspace = driven.workspace();
    let rect = workspace.timeline.rows_rect;
    let window = workspace.state.window();
    let scroll = workspace.state.view.scroll;
    let rows = workspace.timeline.rows();
    let row = rows.iter().find(|row| is_meant(row.kind)).expect("a row");
    let x = rect.left() + (window.share_of(ns) * f64::from(rect.width())) as f32;
    pos2(x, rect.top() + (row.top + row.bottom()) / 2.0 - scroll)
}

fn is_operations(kind: RowKind) -> bool {
    matches!(
        kind,
        RowKind::Lane {
            kind: LaneKind::Operations { .. },
            ..
        }
    )
}

/// Returns the longest operation of a rank on its first communicator.
fn long_operation(driven: &mut Driven, rank: RankIndex) -> Span {
    let opened = driven.workspace().opened.clone();
    let view = opened.open_view(rank).expect("an index");
    let mut lanes = view.lanes_of(|kind| matches!(kind, LaneKind::Operations { .. }));
    let (_, lane) = lanes.next().expect("operations");
    let mut longest = Span::default();
    lane.spans_in(i64::MIN, i64::MAX, |span| {
        if span.end_ns - span.start_ns > longest.end_ns - longest.start_ns {
            longest = *span;
        }
        true
    });
    longest
}

#[test]
fn a_recorded_run() {
    let (_folder, mut driven) = open(recorded, dark());
    driven.snapshot("recorded-whole");
    driven.press(Modifiers::NONE, Key::T);
    driven.press(Modifiers::NONE, Key::Num5);
    driven.snapshot("recorded-light-heat-maps");
}

#[test]
fn a_step_of_a_recorded_run_and_an_instance_on_all_ranks() {
    let (_folder, mut driven) = open(recorded, dark());
    let span = long_operation(&mut driven, RankIndex(0));
    let around = Window::between(span.start_ns, span.end_ns).with_margin(0.6);
    driven.workspace().state.view.window = Some(around);
    driven.settle();
    let at = place(&mut driven, (span.start_ns + span.end_ns) / 2, is_operations);
    driven.click(at);
    driven.leave();
    let picked = driven.workspace().state.picked.expect("it was picked");
    assert_eq!(Some(picked.instance), span.instance);
    driven.snapshot("recorded-instance");
    // The next instance of the same communicator, and back.
    driven.press(Modifiers::NONE, Key::Period);
    let next = driven.workspace().state.picked.expect("picked");
    assert_ne!(next.instance, picked.instance);
    driven.press(Modifiers::NONE, Key::Comma);
    let back = driven.workspace().state.picked.expect("picked");
    assert_eq!(back.instance, picked.instance);
    driven.press(Modifiers::NONE, Key::Escape);
    assert_eq!(driven.workspace().state.picked, None);
}

/// A job of 264 ranks on 33 hosts of eight.
fn on_many_hosts(folder: &Path) -> PathBuf {
    let job = Ddp {
        ranks: 264,
        hosts: 33,
        steps: 6,
        slow: Some((12, 900_000)),
        ..Ddp::default()
    };
    support::of(folder, &job)
}

#[test]
fn with_many_ranks_rows_of_hosts_come_first_and_ranks_on_demand() {
    let (_folder, mut driven) = open(on_many_hosts, dark());
    let first = kinds(&mut driven);
    assert_eq!(first.len(), 33);
    assert!(first.iter().all(|kind| matches!(kind, RowKind::Group(_))));
    // The picture of the second host shows the late rank among its eight.
    driven.snapshot("hosts");
    let second = driven.workspace().timeline.rows()[1];
    let rect = driven.workspace().timeline.rows_rect;
    driven.click(pos2(60.0, rect.top() + (second.top + second.bottom()) / 2.0));
    let opened = kinds(&mut driven);
    assert_eq!(opened.len(), 33 + 8);
    let ranks: Vec<u32> = opened
        .iter()
        .filter_map(|kind| kind.rank())
        .map(|rank| rank.0)
        .collect();
    assert_eq!(ranks, [8, 9, 10, 11, 12, 13, 14, 15]);
    driven.leave();
    driven.snapshot("hosts_one_open");
}

fn kinds(driven: &mut Driven) -> Vec<RowKind> {
    let rows = driven.workspace().timeline.rows();
    rows.iter().map(|row| row.kind).collect()
}

/// Returns the titles of the groups that have rows.
fn titles(driven: &mut Driven) -> Vec<String> {
    let kinds = kinds(driven);
    let groupings = &driven.workspace().opened.groupings;
    let title = |kind| match kind {
        RowKind::Group(id) => groupings.group(id).map(|group| group.title()),
        _ => None,
    };
    kinds.into_iter().filter_map(title).collect()
}

/// A job of 264 ranks on one host: 33 replicas of a pipeline whose third stage of eight is slow.
fn in_many_stages(folder: &Path) -> PathBuf {
    let mut forward_ns = vec![MS; 8];
    forward_ns[2] = 2 * MS;
    let job = Pipelined {
        stages: 8,
        replicas: 33,
        micro: 4,
        steps: 4,
        forward_ns,
        ..Pipelined::default()
    };
    support::pipelined(folder, &job)
}

#[test]
fn rows_of_pipeline_stages_are_chosen_and_a_search_opens_the_group_of_its_rank() {
    let (_folder, mut driven) = open(in_many_stages, dark());
    // All ranks are on one host, so there are no groups at first.
    assert_eq!(kinds(&mut driven).len(), 264);
    driven.harness().get_by_value("by rank").click();
    driven.settle();
    driven.snapshot("groups_choice");
    driven.harness().get_by_label("pipeline stage").click();
    driven.settle();
    assert_eq!(driven.workspace().state.view.grouping, Grouping::Stage);
    let expected: Vec<String> = (0..8).map(|stage| format!("stage {stage} · 33 ranks")).collect();
    assert_eq!(titles(&mut driven), expected);
    assert_eq!(kinds(&mut driven).len(), 8);
    // The full name is next to the mouse.
    let third = place(
        &mut driven,
        0,
        |kind| matches!(kind, RowKind::Group(id) if id.group == GroupIndex(2)),
    );
    driven.point(pos2(60.0, third.y));
    driven.harness().run_steps(4);
    driven.harness().get_by_label("stage 2 of 8 · 33 ranks");
    driven.leave();
    driven.snapshot("groups");
    driven.press(Modifiers::NONE, Key::Slash);
    driven.write("rank:10 op:send");
    driven.press(Modifiers::NONE, Key::Enter);
    driven.press(Modifiers::NONE, Key::Escape);
    // Rank 10 is the third stage of the second replica.
    assert_eq!(driven.workspace().state.rank, Some(RankIndex(10)));
    let rows = kinds(&mut driven);
    assert_eq!(rows.len(), 8 + 33);
    assert!(matches!(rows[3], RowKind::Rank { rank, .. } if rank.0 == 2));
    assert!(matches!(rows[4], RowKind::Rank { rank, .. } if rank.0 == 10));
    driven.snapshot("groups_one_open");
}

#[test]
fn a_key_goes_to_the_next_grouping_and_keeps_the_current_rank_visible() {
    let (_folder, mut driven) = open(in_many_stages, dark());
    driven.press(Modifiers::NONE, Key::ArrowDown);
    assert_eq!(driven.workspace().state.rank, Some(RankIndex(0)));
    // From no groups to the first grouping.
    driven.press(Modifiers::NONE, Key::R);
    assert_eq!(driven.workspace().state.view.grouping, Grouping::Stage);
    assert_eq!(kinds(&mut driven).len(), 8 + 33);
    driven.press(Modifiers::NONE, Key::ArrowDown);
    assert_eq!(driven.workspace().state.rank, Some(RankIndex(8)));
    // The choice is kept until the next start.
    let app = driven.harness().state_mut().as_mut().expect("a window");
    let (_, kept) = app.kept().views.last().expect("a view");
    assert_eq!(kept.grouping, Grouping::Stage);
    assert_eq!(kept.closed_groups.len(), 7);
    // All open, then all closed.
    driven.press(Modifiers::SHIFT, Key::R);
    assert_eq!(kinds(&mut driven).len(), 8 + 264);
    driven.press(Modifiers::SHIFT, Key::R);
    assert_eq!(kinds(&mut driven).len(), 8);
}

#[test]
fn a_rank_of_a_finding_opens_its_group_every_time() {
    let (_folder, mut driven) = open(on_many_hosts, dark());
    for _ in 0..2 {
        let link = driven.harness().get_by_role_and_label(Role::Link, "rank 12");
        link.click_accesskit();
        driven.settle();
        assert_eq!(driven.workspace().state.rank, Some(RankIndex(12)));
        assert_eq!(kinds(&mut driven).len(), 33 + 8);
        // Close the group again.
        let second = place(
            &mut driven,
            0,
            |kind| matches!(kind, RowKind::Group(id) if id.group == GroupIndex(1)),
        );
        driven.click(pos2(60.0, second.y));
        assert_eq!(kinds(&mut driven).len(), 33);
    }
}

#[test]
fn the_palette_chooses_the_next_grouping() {
    let (_folder, mut driven) = open(on_many_hosts, dark());
    driven.press(Modifiers::COMMAND, Key::P);
    driven.write("group ranks");
    driven.press(Modifiers::NONE, Key::Enter);
    assert_eq!(driven.workspace().state.view.grouping, Grouping::Rank);
    assert_eq!(kinds(&mut driven).len(), 264);
}

#[test]
fn low_rows_show_more_ranks() {
    let (_folder, mut driven) = open(recorded, dark());
    let height = |driven: &mut Driven| {
        let rows = driven.workspace().timeline.rows();
        (rows.len(), rows.last().expect("rows").bottom())
    };
    let (count, high) = height(&mut driven);
    driven.press(Modifiers::NONE, Key::Z);
    let (same, low) = height(&mut driven);
    assert_eq!(count, same);
    assert!(low < 0.8 * high, "{low} of {high}");
}

#[test]
fn traces_of_two_gpus() {
    let (_folder, mut driven) = open(imported, dark());
    driven.snapshot("imported-whole");
    let whole = driven.workspace().state.whole;
    driven.workspace().state.view.window = Some(whole.zoomed(0.04, 0.5));
    driven.settle();
    driven.snapshot("imported-close");
}

#[test]
fn a_drag_on_the_ruler_selects_a_range_for_every_panel() {
    let (_folder, mut driven) = open(recorded, dark());
    let (rect, window) = {
        let workspace = driven.workspace();
        (workspace.timeline.rows_rect, workspace.state.window())
    };
    let ruler = rect.top() - 8.0;
    let x = |share: f32| rect.left() + share * rect.width();
    driven.drag(pos2(x(0.4), ruler), pos2(x(0.6), ruler));
    let range = driven.workspace().state.view.range.expect("a range");
    let pixel = window.length_ns() / rect.width() as i64;
    assert!((range.from_ns - window.at(0.4)).abs() <= 2 * pixel, "{range:?}");
    assert!((range.to_ns - window.at(0.6)).abs() <= 2 * pixel, "{range:?}");
    driven.press(Modifiers::NONE, Key::Num2);
    assert_eq!(driven.workspace().state.view.tab, PanelTab::Operations);
    driven.leave();
    driven.snapshot("recorded-range");
    // A click on the ruler clears the selection.
    driven.click(pos2(x(0.5), ruler));
    assert_eq!(driven.workspace().state.view.range, None);
}

#[test]
fn the_wheel_scrolls_and_zooms_and_a_drag_pans() {
    let (_folder, mut driven) = open(recorded, dark());
    let rect = driven.workspace().timeline.rows_rect;
    let whole = driven.workspace().state.window();
    let at = rect.center();
    let before = whole.at(0.5);
    driven.wheel(at, vec2(0.0, 200.0), Modifiers::COMMAND);
    let near = driven.workspace().state.window();
    assert!(near.length_ns() < whole.length_ns() / 2, "{near:?}");
    // The time under the mouse stays there.
    assert!((near.at(0.5) - before).abs() < whole.length_ns() / 500);
    driven.drag(at, at + vec2(-120.0, 0.0));
    let moved = driven.workspace().state.window();
    let by = (moved.from_ns - near.from_ns) as f64 / near.length_ns() as f64;
    assert!((by - 120.0 / f64::from(rect.width())).abs() < 0.01, "{by}");
    assert_eq!(moved.length_ns(), near.length_ns());
    driven.wheel(at, vec2(0.0, -300.0), Modifiers::NONE);
    let scrolled = driven.workspace().state.view.scroll;
    let height = driven.workspace().timeline.rows().last().expect("rows").bottom();
    let most = (height - rect.height() + 40.0).max(0.0);
    assert!((scrolled - most.min(300.0)).abs() < 1.0, "{scrolled} of {most}");
    driven.press(Modifiers::COMMAND, Key::Z);
    driven.press(Modifiers::NONE, Key::Num0);
    assert_eq!(driven.workspace().state.window(), whole);
}

#[test]
fn a_rank_is_collapsed_hidden_and_shown_again() {
    let (_folder, mut driven) = open(recorded, dark());
    let count = |driven: &mut Driven| driven.workspace().timeline.rows().len();
    let all = count(&mut driven);
    let title = place(&mut driven, 0, |kind| {
        matches!(
            kind,
            RowKind::Rank {
                rank: RankIndex(1),
                ..
            }
        )
    });
    let title = pos2(40.0, title.y);
    driven.click(title);
    assert_eq!(driven.workspace().state.rank, Some(RankIndex(1)));
    let closed = count(&mut driven);
    assert!(closed < all);
    driven.press(Modifiers::NONE, Key::H);
    assert_eq!(count(&mut driven), closed - 1);
    driven.press(Modifiers::SHIFT, Key::H);
    assert_eq!(count(&mut driven), closed);
    driven.click(title);
    assert_eq!(count(&mut driven), all);
}

#[test]
fn keys_and_the_palette_execute_commands() {
    let (_folder, mut driven) = open(recorded, dark());
    driven.press(Modifiers::NONE, Key::Questionmark);
    driven.snapshot("help");
    driven.press(Modifiers::NONE, Key::Escape);
    driven.press(Modifiers::COMMAND, Key::P);
    driven.write("low rows");
    driven.press(Modifiers::NONE, Key::Enter);
    assert!(driven.workspace().state.view.dense);
    driven.press(Modifiers::NONE, Key::Slash);
    driven.write("op:broadcast");
    driven.snapshot("search");
}

/// Typed letters become a note and are not commands. Going to a step keeps the filter.
#[test]
fn a_note_is_written_and_a_step_is_shown() {
    let (folder, mut driven) = open(recorded, dark());
    let notes = folder.path().join("run/view-notes.json");
    let before = driven.workspace().state.window();
    driven.press(Modifiers::NONE, Key::N);
    for letter in ["s", "l", "o", "w"] {
        driven.write(letter);
    }
    assert!(!notes.exists(), "no file exists before the first note");
    driven.press(Modifiers::NONE, Key::Enter);
    assert_eq!(driven.workspace().state.window(), before);
    driven.press(Modifiers::NONE, Key::Escape);
    // A background thread writes the file.
    let begin = std::time::Instant::now();
    let text = loop {
        match std::fs::read_to_string(&notes) {
            Ok(text) => break text,
            Err(_) => assert!(begin.elapsed().as_secs() < 20, "no note"),
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert!(text.contains("\"slow\""), "{text}");

    driven.workspace().state.view.filter = "wait>5ms".to_owned();
    driven.settle();
    driven.press(Modifiers::NONE, Key::G);
    driven.write("step 3");
    assert_eq!(driven.workspace().state.view.filter, "wait>5ms");
    driven.press(Modifiers::NONE, Key::Enter);
    assert_eq!(driven.workspace().state.view.filter, "wait>5ms");
    let steps = driven.workspace().state.window();
    assert!(steps.length_ns() < before.length_ns() / 4, "{steps:?}");
}

#[test]
fn the_tooltip_counts_operations_in_flight() {
    let (_folder, mut driven) = open(recorded, dark());
    let span = long_operation(&mut driven, RankIndex(2));
    let is_count = |kind| {
        matches!(
            kind,
            RowKind::InFlight {
                rank: RankIndex(2),
                ..
            }
        )
    };
    if !driven
        .workspace()
        .timeline
        .rows()
        .iter()
        .any(|row| is_count(row.kind))
    {
        panic!("DDP's buckets overlap");
    }
    let rank = place(&mut driven, span.start_ns, is_count);
    driven.workspace().state.view.scroll = (rank.y - 300.0).max(0.0);
    driven.settle();
    let at = place(&mut driven, (span.start_ns + span.end_ns) / 2, is_count);
    driven.point(at);
    driven.settle();
    use egui_kittest::kittest::Queryable;
    assert!(
        driven.harness().query_by_label_contains("in flight").is_some(),
        "a tooltip"
    );
}

fn counted(folder: &Path) -> PathBuf {
    support::counted(folder, 0)
}

/// Returns the counters that have rows, by rank and name.
fn counter_rows(driven: &mut Driven) -> Vec<(RankIndex, String)> {
    let workspace = driven.workspace();
    let rows = workspace.timeline.rows().iter();
    rows.filter_map(|row| match row.kind {
        RowKind::Counter { rank, counter } => {
            let view = workspace.opened.open_view(rank)?;
            Some((rank, view.footer().counters[counter].name.clone()))
        }
        _ => None,
    })
    .collect()
}

/// Removes everything but the timeline and the drawer, and scrolls to the counters of rank 0.
fn show_counters(driven: &mut Driven) {
    let workspace = driven.workspace();
    workspace.state.view.findings = false;
    let rows = workspace.timeline.rows().iter();
    let first = rows
        .into_iter()
        .find(|row| matches!(row.kind, RowKind::Counter { .. }));
    workspace.state.view.scroll = first.expect("a counter").top - 60.0;
    driven.settle();
}

#[test]
fn counters_have_rows_and_a_table() {
    let (_folder, mut driven) = open(counted, dark());
    let names = ["balance", "loss", "queue_bytes"];
    let of = |rank: u32| names.map(|name| (RankIndex(rank), name.to_owned()));
    assert_eq!(counter_rows(&mut driven), [of(0), of(1)].concat());
    show_counters(&mut driven);
    driven.press(Modifiers::NONE, Key::Num6);
    assert_eq!(driven.workspace().state.view.tab, PanelTab::Counters);
    driven.snapshot("counters-whole");
    let whole = driven.workspace().state.whole;
    driven.workspace().state.view.window = Some(whole.zoomed(0.02, 0.4));
    driven.press(Modifiers::NONE, Key::T);
    driven.snapshot("counters-close-light");
}

#[test]
fn counters_are_hidden_by_a_key_and_by_collapsing() {
    let (_folder, mut driven) = open(counted, dark());
    let all = driven.workspace().timeline.rows().len();
    driven.press(Modifiers::NONE, Key::V);
    assert_eq!(counter_rows(&mut driven).len(), 6, "all are of the program");
    driven.press(Modifiers::NONE, Key::V);
    assert_eq!(counter_rows(&mut driven), []);
    assert_eq!(driven.workspace().timeline.rows().len(), all - 6);
    driven.press(Modifiers::COMMAND, Key::P);
    driven.write("counters of the program");
    driven.press(Modifiers::NONE, Key::Enter);
    assert_eq!(counter_rows(&mut driven).len(), 6);
    driven.press(Modifiers::SHIFT, Key::C);
    assert_eq!(counter_rows(&mut driven), []);
}

#[test]
fn the_tooltip_of_a_counter_has_its_value_and_those_of_the_pixel() {
    use egui_kittest::kittest::Queryable;
    let (_folder, mut driven) = open(counted, dark());
    show_counters(&mut driven);
    let is_queue = |kind| {
        matches!(
            kind,
            RowKind::Counter {
                rank: RankIndex(0),
                counter: 2
            }
        )
    };
    let middle = driven.workspace().state.whole.at(0.5);
    let at = place(&mut driven, middle, is_queue);
    driven.point(at);
    for label in [
        "queue_bytes",
        "value",
        "since",
        "in this pixel",
        "min",
        "mean",
        "max",
    ] {
        let found = driven.harness().query_all_by_label(label).count();
        assert!(found > 0, "{label}");
    }
    // The loss has few samples, so it is described by its value alone.
    let is_loss = |kind| {
        matches!(
            kind,
            RowKind::Counter {
                rank: RankIndex(0),
                counter: 1
            }
        )
    };
    let at = place(&mut driven, middle / 8, is_loss);
    driven.point(at);
    assert!(driven.harness().query_by_label("since").is_some());
    assert!(driven.harness().query_by_label("in this pixel").is_none());
}

/// Rows of the system's counters come after those of the program, on request or if they match the filter.
#[test]
fn counters_of_the_system_have_rows_on_request() {
    let system = |folder: &Path| support::counted_with_system(folder);
    let (_folder, mut driven) = open(system, dark());
    let names = |driven: &mut Driven| -> Vec<String> {
        let rows = counter_rows(driven).into_iter();
        rows.filter(|row| row.0 == RankIndex(0))
            .map(|row| row.1)
            .collect()
    };
    let of_program = ["balance", "loss", "queue_bytes"].map(str::to_owned);
    let with_memory = [&of_program[..], &["process_resident_memory_bytes".to_owned()]].concat();
    assert_eq!(names(&mut driven), of_program);
    driven.workspace().state.view.filter = "resident".to_owned();
    driven.settle();
    assert_eq!(names(&mut driven), with_memory);
    for filter in ["loss", "rank:0", "-op:barrier", "-loss"] {
        driven.workspace().state.view.filter = filter.to_owned();
        driven.settle();
        assert_eq!(names(&mut driven), of_program, "{filter}");
    }
    driven.workspace().state.view.filter = String::new();
    driven.press(Modifiers::NONE, Key::V);
    assert_eq!(names(&mut driven), with_memory);
    driven.press(Modifiers::NONE, Key::V);
    assert_eq!(names(&mut driven), [""; 0]);
    driven.press(Modifiers::NONE, Key::V);
    assert_eq!(names(&mut driven), of_program);
}

/// A filter by name chooses which of many counters have rows. The number of the others is shown.
#[test]
fn many_counters_have_a_limited_number_of_rows() {
    let many = |folder: &Path| support::counted(folder, 40);
    let (_folder, mut driven) = open(many, dark());
    let more = |driven: &mut Driven| -> Vec<u32> {
        let rows = driven.workspace().timeline.rows().iter();
        rows.filter_map(|row| match row.kind {
            RowKind::MoreCounters { count, .. } => Some(count),
            _ => None,
        })
        .collect()
    };
    assert_eq!(counter_rows(&mut driven).len(), 2 * MAX_COUNTERS);
    assert_eq!(more(&mut driven), [43 - MAX_COUNTERS as u32; 2]);
    let last = (RankIndex(0), "queue_bytes".to_owned());
    assert!(!counter_rows(&mut driven).contains(&last));
    driven.workspace().state.view.filter = "queue_bytes or more_39".to_owned();
    driven.settle();
    let filtered = counter_rows(&mut driven);
    assert_eq!(filtered.len(), 2 * MAX_COUNTERS);
    assert_eq!(filtered[0].1, "more_39");
    assert_eq!(filtered[1], last);
    show_counters(&mut driven);
    driven.snapshot("counters-filter");
    // Low rows, with the number of the counters that have none.
    driven.press(Modifiers::NONE, Key::Z);
    let workspace = driven.workspace();
    let mut rows = workspace.timeline.rows().iter();
    let more = rows.find(|row| matches!(row.kind, RowKind::MoreCounters { .. }));
    workspace.state.view.scroll = more.expect("a row").top - 200.0;
    driven.settle();
    driven.snapshot("counters-more");
}

/// A followed run gets a new session several times. Its counters may be others.
#[test]
fn a_newer_session_has_its_own_counters() {
    let (folder, mut driven) = open(counted, dark());
    show_counters(&mut driven);
    let newer = support::counted(&folder.path().join("newer"), 1).join("session");
    let session = Session::read(&newer).expect("a session");
    let ctx = driven.harness().ctx.clone();
    driven.workspace().replace_session(&newer, session, &ctx);
    driven.settle();
    let names: Vec<String> = counter_rows(&mut driven).into_iter().map(|row| row.1).collect();
    let expected = ["balance", "loss", "more_00", "queue_bytes"];
    assert_eq!(names, [expected, expected].concat());
}

#[test]
fn a_damaged_table_is_reported() {
    let (folder, driven) = open(recorded, dark());
    drop(driven);
    let session = folder.path().join("run/session");
    let table = session.join("operations/rank=1.parquet");
    let bytes = std::fs::read(&table).expect("read");
    std::fs::write(&table, &bytes[..bytes.len() / 2]).expect("cut");
    // Remove the index as well. The viewer builds it again from what can be read.
    let index = rankscope_formats::index::view_path(&session, 1);
    std::fs::remove_file(&index).expect("removed");
    let mut driven = Driven::open(vec![folder.path().join("run")], dark(), SIZE);
    let problems = driven.workspace().opened.problems();
    assert!(
        problems.iter().any(|problem| problem.contains("rank 1")),
        "{problems:?}"
    );
    let other = driven.workspace().opened.open_view(RankIndex(0)).is_some();
    assert!(other, "the other ranks are drawn");
}
