use super::*;
use crate::model::ViewState;
use crate::panels::test_support::{Made, Stage, keep, of, run_until};
use egui::{Event, Key, Modifiers, OutputCommand, PointerButton, Pos2, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::{NodeT, Queryable};
use rankscope_fixtures::sessions::Job;
use rankscope_formats::ids::{CommunicatorId, RankIndex, StepIndex};
use rankscope_formats::index::{Footer, LaneKind, Span, ViewWriter, part, view_path};
use rankscope_formats::session::{
    DeviceActivity, Figure, InstanceRow, InstanceState, Pipeline, Selection, Session, Stage as PipelineStage,
    StallCause, StallRow, TableWriter, WaitClass, WorldStructure, part_path, rank_path,
};
use rankscope_ranklog::Operation;
use rankscope_report::selection_rows::table_of;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

const MS: i64 = 1_000_000;
/// Length of the pieces of a rank's time, in nanoseconds.
const PIECE: i64 = 10 * MS;

fn activity(rank: u32, stalls: u64) -> DeviceActivity {
    let unknown = serde_json::json!({ "value": null, "reason": "made up" });
    serde_json::from_value(serde_json::json!({
        "rank": rank, "cupti": "12.9", "reason": null, "streams": [], "kernels": 1, "communication_kernels": 0,
        "copies": 0, "sets": 0, "graphs": 0, "lost": 0, "with_launch": 0, "launches_without_work": 0,
        "without_call": 0, "covered_ns": 1000, "covered_communication_ns": 1000, "yielded_ns": 0,
        "delivered_until_ns": null, "shortest_launch_ns": unknown, "shortest_wait_ns": unknown, "window": "run",
        "window_ns": 1000, "compute_only_ns": 0, "overlapped_ns": 0, "exposed_communication_ns": 0,
        "exposed_wait_ns": 0, "exposed_memory_ns": 0, "idle_ns": 1000, "overlap": unknown, "idle_by_cause": [],
        "device_stalls": { "count": stalls, "ns": 0, "by_cause": [], "by_late_rank": [] },
        "top": [], "adds_up": true,
    }))
    .expect("as it is written")
}

fn instance(number: u64, start_ns: i64, ranks: u32) -> InstanceRow {
    // Pseudo-random numbers.
    let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let operation = [
        Operation::AllReduce,
        Operation::AllReduce,
        Operation::AllGather,
        Operation::Barrier,
    ][(number % 4) as usize];
    let has_size = operation != Operation::Barrier;
    let spread = 1.0 + (seed % 1000) as f64 / 1000.0 * ((seed / 1000) % 7) as f64 / 3.0;
    let transfer_ns = (((number % 4 + 1) * 900_000) as f64 * spread) as i64;
    let bytes = (4 << 20) << (number % 2 * 4);
    let rate = has_size.then(|| bytes as f64 / transfer_ns as f64 * 1e9);
    InstanceRow {
        instance: number,
        communicator: CommunicatorId(0),
        operation,
        tag: 0,
        sequence: number as u32,
        members: ranks,
        seen: ranks,
        state: if number % 50 == 49 {
            InstanceState::Incomplete
        } else {
            InstanceState::Complete
        },
        start_ns,
        end_ns: start_ns + transfer_ns + 200_000,
        first_arrival_ns: start_ns,
        last_arrival_ns: start_ns + 200_000,
        last_rank: Some(RankIndex((seed % u64::from(ranks)) as u32)),
        size_bytes: has_size.then_some(bytes),
        transfer_ns: Some(transfer_ns),
        shortest_duration: false,
        exposed_wait_rank_ns: Some(200_000 * i64::from(ranks - 1)),
        hidden_wait_rank_ns: Some(10_000),
        algorithm_bytes_per_s: rate,
        bus_bytes_per_s: rate.map(|rate| rate * 1.75),
        class: WaitClass::TransferBound,
        launch: None,
        step: None,
    }
}

/// Builds a run with this many ranks, with operations, stalls and breakdowns. Later ranks wait less.
fn made(ranks: u32, with_stages: bool) -> Made {
    let mut session = Job {
        ranks,
        steps: 20,
        slow: None,
        hosts: if ranks > 3 { 2 } else { 1 },
    }
    .session();
    let end_ns = session.axis.end_ns;
    let stalls_of = |rank: u32| if rank < 8 { 10 + u64::from(rank) } else { 0 };
    session.activity = (0..ranks).map(|rank| activity(rank, stalls_of(rank))).collect();
    if with_stages {
        session.structure = vec![WorldStructure {
            pipelines: vec![Pipeline {
                chains: Vec::new(),
                micro_batches: Figure::known(4),
                messages_per_micro_batch: 1,
                ideal_bubble: Figure::unknown("made up"),
                imbalance_per_step_ns: Figure::unknown("made up"),
                stages: (0..2)
                    .map(|stage| PipelineStage {
                        ranks: (0..ranks).filter(|rank| rank % 2 == stage).collect(),
                        steps: 0,
                        window_rank_ns: 0,
                        own_rank_ns: 0,
                        bubble_rank_ns: 0,
                        bubble: Figure::unknown("made up"),
                    })
                    .collect(),
            }],
            ..WorldStructure::default()
        }];
    }
    let made = of(session);
    let (directory, session) = (&made.opened.path, &made.opened.session);
    let mut rows: Vec<InstanceRow> = (0..)
        .map(|number| instance(number, number as i64 * 7 * MS, ranks))
        .take_while(|row| row.end_ns < end_ns)
        .collect();
    let mut table = TableWriter::create(&part_path::<InstanceRow>(directory), 4096).expect("table");
    table.write(&mut rows).expect("rows");
    table.finish().expect("written");
    for rank in 0..ranks {
        write_stalls(&made, rank, stalls_of(rank));
        let mut writer = ViewWriter::create(&view_path(directory, rank)).expect("index");
        let host = writer.lane(LaneKind::Parts { device: false }, 0);
        let device = writer.lane(LaneKind::Parts { device: true }, 0);
        let on_host = [
            part::OWN,
            part::OVERLAPPED,
            part::EXPOSED_WAIT,
            part::OTHER_BLOCKED,
        ];
        let on_device = [
            part::OWN,
            part::OVERLAPPED,
            part::EXPOSED_TRANSFER,
            part::EXPOSED_WAIT,
            part::EXPOSED_MEMORY,
            part::IDLE,
        ];
        let mut from_ns = 0;
        for piece in 0..(end_ns / PIECE) {
            // The first rank waits longest.
            let shift = i64::from(rank) * MS / i64::from(ranks.max(1));
            let to_ns = (from_ns
                + if piece % 3 == 2 {
                    3 * MS + shift
                } else {
                    2 * PIECE - shift
                })
            .min(end_ns);
            for (lane, classes) in [(host, &on_host[..]), (device, &on_device[..])] {
                let class = classes[piece as usize % classes.len()];
                let span = Span {
                    start_ns: from_ns,
                    end_ns: to_ns,
                    class,
                    ..Span::default()
                };
                if to_ns > from_ns {
                    writer.push(lane, span).expect("span");
                }
            }
            from_ns = to_ns;
        }
        let footer = Footer {
            rank,
            session_written_unix_ns: session.written_unix_ns,
            ..Footer::default()
        };
        writer.finish(footer).expect("index");
    }
    made
}

fn write_stalls(made: &Made, rank: u32, count: u64) {
    if count == 0 {
        return;
    }
    let mut rows: Vec<StallRow> = (0..count as i64)
        .map(|at| StallRow {
            start_ns: 50 * MS + at * 90 * MS + i64::from(rank) * MS,
            end_ns: 50 * MS + at * 90 * MS + i64::from(rank) * MS + (at % 7 + 2) * 3 * MS,
            step: Some(StepIndex(at as u32)),
            communication_ns: 0,
            memory_ns: 0,
            compute_ns: 0,
            not_launched_ns: None,
            wait_ns: MS,
            slow_transfer_ns: 0,
            late_rank: (at % 3 > 0).then_some(RankIndex(1)),
            cause: StallCause::ALL[at as usize % StallCause::ALL.len()],
        })
        .collect();
    let mut table =
        TableWriter::create(&rank_path::<StallRow>(&made.opened.path, rank), 4096).expect("table");
    table.write(&mut rows).expect("rows");
    table.finish().expect("written");
}

fn whole(made: &Made) -> Window {
    made.state().whole
}

fn selection_of(made: &Made, window: Window) -> Selection {
    Summed::compute(&made.opened, window, &AtomicBool::new(false))
        .expect("summed up")
        .selection
}

/// Returns a selection for the tests of rows.
pub fn made_selection() -> (Selection, Session) {
    let made = made(6, true);
    (selection_of(&made, whole(&made)), made.opened.session.clone())
}

type Panels<'a> = Harness<'a, Stage<SelectionPanels>>;

fn harness<'a>(made: Made, tab: PanelTab, size: Vec2) -> Panels<'a> {
    let mut stage = Stage::of(SelectionPanels::default(), made);
    stage.state.view.tab = tab;
    let mut harness = Harness::builder().with_size(size).build_ui_state(
        |ui, stage: &mut Stage<SelectionPanels>| {
            let opened = stage.made.opened.clone();
            stage.panel.show(ui, &opened, &stage.state, &mut stage.actions);
            // Apply marks as the window does. The actions stay in the list.
            for action in &stage.actions {
                if let Action::Mark(instances) = action {
                    stage.state.marked = instances.clone();
                }
            }
        },
        stage,
    );
    ready(&mut harness);
    harness
}

fn ready(harness: &mut Panels<'_>) {
    run_until(harness, "the numbers", |stage| stage.panel.is_ready(&stage.state));
}

const SIZE: Vec2 = egui::vec2(1200.0, 420.0);

/// Returns the accessibility labels of the rows from top to bottom.
fn first_words(harness: &Panels<'_>) -> Vec<String> {
    let rows = harness.query_all_by_role(egui::Role::Row);
    let mut rows: Vec<(f32, String)> = rows
        .filter_map(|row| Some((row.rect().top(), row.accesskit_node().label()?)))
        .collect();
    rows.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    rows.into_iter().map(|(_, label)| label).collect()
}

#[test]
fn the_table_has_the_figures_of_the_selection() {
    let made = made(4, false);
    let selection = selection_of(&made, whole(&made));
    let session = made.opened.session.clone();
    for (tab, which) in [
        (PanelTab::Time, Which::Parts),
        (PanelTab::Lateness, Which::Lateness),
        (PanelTab::Operations, Which::Operations),
    ] {
        let harness = harness(self::made(4, false), tab, SIZE);
        let table = table_of(&selection, &session, which);
        assert!(!table.rows.is_empty());
        let shown = first_words(&harness);
        assert_eq!(shown.len(), table.rows.len());
        for (row, label) in table.rows.iter().zip(shown) {
            for (cell, heading) in row.iter().zip(&table.headings) {
                let reported = if heading.is_number {
                    format!("{} {}", heading.shown, cell.text)
                } else {
                    cell.text.clone()
                };
                assert!(label.contains(&reported), "{reported} is not in {label}");
            }
        }
    }
}

#[test]
fn a_click_on_a_heading_sorts_and_a_second_reverses() {
    let mut harness = harness(made(4, false), PanelTab::Lateness, SIZE);
    let made = &harness.state().made;
    let selection = selection_of(made, whole(made));
    let mut last_in: Vec<u64> = selection.lateness.iter().map(|rank| rank.last_arrivals).collect();
    let of_rows = |harness: &Panels<'_>| -> Vec<u64> {
        let labels = first_words(harness);
        let number = |label: &String| {
            let text = label.split("last in ").nth(1)?.split(", ").next()?;
            text.replace(',', "").parse().ok()
        };
        labels.iter().filter_map(number).collect()
    };
    assert_eq!(of_rows(&harness), last_in, "as the library has them");
    harness.get_by_label("last in").click();
    harness.run();
    last_in.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(of_rows(&harness), last_in);
    harness.get_by_label("last in").click();
    harness.run();
    last_in.reverse();
    assert_eq!(of_rows(&harness), last_in);
}

#[test]
fn a_click_on_a_rank_selects_it() {
    let mut harness = harness(made(4, false), PanelTab::Lateness, SIZE);
    harness.get_by_label_contains("rank 2, last in").click();
    harness.run();
    assert_eq!(harness.state().actions, [Action::Rank(Some(RankIndex(2)))]);
}

#[test]
fn keys_alone_reach_a_row() {
    let mut harness = harness(made(4, false), PanelTab::Lateness, SIZE);
    harness.get_by_label_contains("Last arrivals, 4 rows").focus();
    harness.run();
    for key in [Key::ArrowDown, Key::ArrowDown, Key::ArrowUp] {
        harness.key_press(key);
        harness.run();
    }
    harness.get_by_label_contains("Last arrivals, 4 rows: rank 1, ");
    harness.key_press(Key::ArrowDown);
    harness.run();
    harness.key_press(Key::Enter);
    harness.run();
    assert_eq!(harness.state().actions, [Action::Rank(Some(RankIndex(2)))]);
}

#[test]
fn a_click_on_a_stall_shows_it() {
    let mut harness = harness(made(3, false), PanelTab::Stalls, SIZE);
    let made = &harness.state().made;
    let selection = selection_of(made, whole(made));
    let stalls = selection.stalls.get().expect("of devices");
    let longest = stalls.longest[0].clone();
    let rows = harness.query_all_by_role(egui::Role::Row).count();
    assert!(rows > 5);
    let label = first_words(&harness)
        .into_iter()
        .find(|label| label.contains("waited for") || label.contains("begin"))
        .expect("a stall");
    harness.get_by_label(&label).click();
    harness.run();
    let window = Window::between(longest.start_ns, longest.end_ns).with_margin(AROUND_STALL);
    let expected = [Action::Show(window), Action::Rank(Some(RankIndex(longest.rank)))];
    assert_eq!(harness.state().actions, expected);
}

fn press(harness: &mut Panels<'_>, at: Pos2, pressed: bool) {
    harness.event(Event::PointerButton {
        pos: at,
        button: PointerButton::Primary,
        pressed,
        modifiers: Modifiers::default(),
    });
    harness.step();
}

#[test]
fn a_drag_over_bins_marks_them_and_a_click_clears_them() {
    let mut harness = harness(made(4, false), PanelTab::Operations, SIZE);
    let made = &harness.state().made;
    let selection = selection_of(made, whole(made));
    let class = selection.operations[0].clone();
    let label = first_words(&harness).remove(0);
    harness.get_by_label(&label).click();
    harness.run();
    let rect = harness.get_by_label_contains("histogram").rect();
    let all: u64 = class
        .histogram
        .get()
        .expect("known")
        .bins
        .iter()
        .map(|bin| bin.count)
        .sum();
    let y = rect.center().y;
    harness.hover_at(Pos2::new(rect.left() + 3.0, y));
    harness.step();
    press(&mut harness, Pos2::new(rect.left() + 3.0, y), true);
    for share in [0.3, 0.6, 0.99] {
        harness.hover_at(Pos2::new(rect.left() + share * rect.width(), y));
        harness.step();
    }
    press(
        &mut harness,
        Pos2::new(rect.left() + 0.99 * rect.width(), y),
        false,
    );
    run_until(&mut harness, "the marks", |stage| !stage.actions.is_empty());
    let Some(Action::Mark(marked)) = harness.state().actions.last().cloned() else {
        panic!("nothing is marked");
    };
    assert_eq!(marked.len() as u64, all);
    let words = format!("{all} instances are marked");
    harness.get_by_label(&words);
    // The keyboard can clear the marks too.
    harness.get_by_label_contains("histogram").focus();
    harness.run();
    harness.key_press(Key::ArrowRight);
    harness.run();
    harness.key_press(Key::Enter);
    harness.run();
    assert_eq!(
        harness.state().actions.last(),
        Some(&Action::Mark(Arc::default()))
    );
    assert!(harness.query_by_label(&words).is_none());
    harness.key_press(Key::Enter);
    let before = harness.state().actions.len();
    run_until(&mut harness, "one bin", |stage| stage.actions.len() > before);
    let Some(Action::Mark(marked)) = harness.state().actions.last() else {
        panic!("nothing is marked");
    };
    let bins = &class.histogram.get().expect("known").bins;
    assert_eq!(marked.len() as u64, bins[1].count);
}

#[test]
fn the_previous_range_is_named_until_the_new_one_is_computed() {
    let mut harness = harness(made(4, false), PanelTab::Time, SIZE);
    harness.get_by_label_contains("Whole run, ");
    let range = Window::between(100 * MS, 200 * MS);
    harness.state_mut().state.view.range = Some(range);
    harness.step();
    ready(&mut harness);
    harness.get_by_label("0.100\u{2009}0 s … 0.200\u{2009}0 s, 100 ms");
    let made = &harness.state().made;
    let selection = selection_of(made, range);
    let parts = selection.parts[0].parts.get().expect("known");
    assert_eq!(parts.window_ns, 100 * MS);
    let own = units::time(parts.own_ns);
    harness.get_by_label_contains(&format!("rank 0, host, recorded 100 ms, own {own}"));
}

#[test]
fn ranks_are_rolled_up_by_host_and_by_stage() {
    let mut harness = harness(made(4, true), PanelTab::Time, SIZE);
    let made = &harness.state().made;
    let selection = selection_of(made, whole(made));
    let waited = |ranks: &BTreeSet<u32>| -> i64 {
        let parts = selection
            .parts
            .iter()
            .filter(|entry| entry.level == "device" && ranks.contains(&entry.rank));
        parts
            .map(|entry| {
                entry
                    .parts
                    .get()
                    .expect("known")
                    .exposed_wait_ns
                    .value
                    .expect("known")
            })
            .sum()
    };
    harness.get_by_label("host").click();
    harness.run();
    let of_host = units::rank_time(waited(&[0, 1].into()));
    let label = first_words(&harness)
        .into_iter()
        .find(|label| label.contains("device"))
        .expect("a host");
    assert!(label.starts_with("host node0, device, ranks 2"), "{label}");
    assert!(label.contains(&format!("waiting, Σ {of_host}")), "{label}");
    harness.get_by_label("stage").click();
    harness.run();
    let of_stage = units::rank_time(waited(&[1, 3].into()));
    harness.get_by_label_contains("stage 1 of 2, device, ranks 2");
    let label = first_words(&harness)
        .into_iter()
        .find(|label| label.starts_with("stage 1 of 2, device"))
        .expect("a stage");
    assert!(label.contains(&format!("waiting, Σ {of_stage}")), "{label}");
}

#[test]
fn visible_rows_are_copied_in_their_order() {
    let mut harness = harness(made(4, false), PanelTab::Lateness, SIZE);
    harness
        .get_by_role_and_label(egui::Role::ColumnHeader, "rank")
        .click();
    harness.run();
    harness
        .get_by_role_and_label(egui::Role::ColumnHeader, "rank")
        .click();
    harness.run();
    harness.get_by_label("Copy as CSV").click();
    harness.step();
    let copied = harness
        .output()
        .platform_output
        .commands
        .iter()
        .find_map(|command| match command {
            OutputCommand::CopyText(text) => Some(text.clone()),
            _ => None,
        });
    let copied = copied.expect("copied");
    let names: Vec<&str> = copied
        .lines()
        .map(|line| line.split(',').next().unwrap_or(""))
        .collect();
    assert_eq!(names, ["rank", "rank 3", "rank 2", "rank 1", "rank 0"]);
    harness.run();
    harness.get_by_label("Copied 4 rows");
    harness.get_by_label("Save…").click();
    harness.run_steps(2);
    ready(&mut harness);
    let made = &harness.state().made;
    let window = whole(made);
    let parent = made.opened.path.parent().expect("a run");
    let file = parent.join(format!(
        "selection-lateness-{}-{}.csv",
        window.from_ns, window.to_ns
    ));
    assert_eq!(std::fs::read_to_string(&file).expect("written"), copied);
    harness.get_by_label(&format!("Saved {}", file.display()));
}

#[test]
fn only_visible_rows_of_thousands_are_drawn() {
    let mut harness = harness(made(600, false), PanelTab::Time, SIZE);
    let rows = harness.query_all_by_role(egui::Role::Row).count();
    assert!((10..60).contains(&rows), "{rows}");
    let label = "Where the time went, 1200 rows";
    harness.get_by_label_contains(label).focus();
    harness.run();
    for _ in 0..120 {
        harness.key_press(Key::ArrowDown);
        harness.step();
    }
    harness.run();
    // Each rank has two rows. The cursor starts at the first.
    let shown = first_words(&harness);
    assert!(
        shown.iter().any(|label| label.starts_with("rank 60, host")),
        "{shown:?}"
    );
}

#[test]
fn the_reason_for_missing_stalls_is_shown() {
    let made = made(3, false);
    let mut session = made.opened.session.clone();
    session.activity.clear();
    let opened = Arc::new(Opened::new(&made.opened.path, session));
    let mut stage = Stage::of(SelectionPanels::default(), made);
    stage.made.opened = opened;
    stage.state.view.tab = PanelTab::Stalls;
    let mut harness = Harness::builder().with_size(SIZE).build_ui_state(
        |ui, stage: &mut Stage<SelectionPanels>| {
            let opened = stage.made.opened.clone();
            stage.panel.show(ui, &opened, &stage.state, &mut stage.actions);
        },
        stage,
    );
    ready(&mut harness);
    harness.get_by_label_contains("Unknown: stalls need complete device records");
}

#[test]
fn pictures() {
    if std::env::var_os("PANELS_OUT").is_none() {
        return;
    }
    let few = made(8, true);
    let many = made(600, false);
    let size = egui::vec2(1180.0, 270.0);
    picture("time", &few, PanelTab::Time, size, |_| {});
    picture(
        "time-narrow",
        &few,
        PanelTab::Time,
        egui::vec2(700.0, 200.0),
        |_| {},
    );
    picture("time-by-host", &few, PanelTab::Time, size, |panel| {
        panel.by = By::Host
    });
    picture("time-many", &many, PanelTab::Time, size, |panel| {
        panel.shapes = (0..Shape::COUNT).map(|_| OfShape::default()).collect();
    });
    picture("lateness", &few, PanelTab::Lateness, size, |_| {});
    picture("stalls", &few, PanelTab::Stalls, size, |_| {});
    picture("operations", &few, PanelTab::Operations, size, |_| {});
    let selection = selection_of(&few, whole(&few));
    let key = ClassKey::of(&selection.operations[1]);
    picture("operations-times", &few, PanelTab::Operations, size, |panel| {
        panel.class = Some(key.clone())
    });
    picture(
        "operations-narrow",
        &few,
        PanelTab::Operations,
        egui::vec2(700.0, 270.0),
        |panel| panel.class = Some(key.clone()),
    );
}

#[test]
fn pictures_of_common_uses() {
    if std::env::var_os("PANELS_OUT").is_none() {
        return;
    }
    let few = made(8, true);
    let size = egui::vec2(1180.0, 270.0);
    // A range that the user keeps dragging.
    let mut state = few.state();
    let (mut panel, mut frame) = (SelectionPanels::default(), 0);
    keep("selection-dragged", size, |ui| {
        frame += 1;
        if frame > 1 && panel.worker.latest().is_some() {
            state.view.range = Some(Window::between(100 * MS, 200 * MS + frame * MS));
        }
        panel.patterns = Patterns::default();
        panel.show(ui, &few.opened, &state, &mut Vec::new());
        panel.worker.latest().is_some() && frame > 1
    });
    for tab in [PanelTab::Operations, PanelTab::Time] {
        let mut state = few.state();
        state.view.tab = tab;
        let selection = selection_of(&few, whole(&few));
        let mut panel = SelectionPanels::default();
        panel.begin(&few.opened);
        panel.class = Some(ClassKey::of(&selection.operations[1]));
        let mut frame = 0;
        keep(&format!("selection-at-keys-{}", tab.name()), size, |ui| {
            frame += 1;
            let mut actions = Vec::new();
            panel.patterns = Patterns::default();
            panel.show(ui, &few.opened, &state, &mut actions);
            if let Some(Action::Mark(instances)) = actions.pop() {
                state.marked = instances;
            }
            let Some(summed) = panel.worker.latest().cloned() else {
                return false;
            };
            if frame == 5 {
                panel
                    .marking
                    .start(ui.ctx(), &few.opened, &summed, 1, 3 * MS..5 * MS);
            }
            for shape in &mut panel.shapes {
                shape.cursor = Some(3);
                shape.sort = Some(Sort {
                    column: 3,
                    is_descending: true,
                });
            }
            if tab == PanelTab::Time {
                let rows = super::grid::id_of_rows(Which::Parts.title());
                ui.memory_mut(|memory| memory.request_focus(rows));
            }
            frame > 20 && panel.is_ready(&state)
        });
    }
}

fn picture(name: &str, made: &Made, tab: PanelTab, size: Vec2, set: impl Fn(&mut SelectionPanels)) {
    let view = ViewState {
        tab,
        ..ViewState::default()
    };
    let mut state = State::new(whole(made), view);
    state.rank = Some(RankIndex(2));
    let mut current: Option<(bool, SelectionPanels)> = None;
    keep(&format!("selection-{name}"), size, |ui| {
        // Textures belong to an egui context, and each theme has its own context.
        let dark = ui.visuals().dark_mode;
        if current.as_ref().is_none_or(|(of, _)| *of != dark) {
            let mut panel = SelectionPanels::default();
            panel.begin(&made.opened);
            set(&mut panel);
            current = Some((dark, panel));
        }
        let Some((_, panel)) = &mut current else {
            return false;
        };
        panel.show(ui, &made.opened, &state, &mut Vec::new());
        panel.is_ready(&state)
    });
}
