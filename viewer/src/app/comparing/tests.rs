use super::comparison_bar;
use crate::app::workspace::Workspace;
use crate::model::{Action, ViewState, Window};
use crate::panels::test_support::run_until;
use crate::search::fixture::{Made, Planned, ranks};
use crate::timeline::compared::{Compared, Pointed};
use crate::timeline::layout::{Row, RowKind};
use egui::{Event, PointerButton, Pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use rankscope_formats::ids::{RankIndex, StepIndex};
use rankscope_formats::index::{LaneKind, Name, Span, operation, part};
use rankscope_formats::session::{Part, Session, StepKind, StepRow, TableWriter, rank_path};
use std::time::{Duration, Instant};

const MS: i64 = 1_000_000;
const STEPS: u32 = 10;

/// Step times of a rank: all equal. Step 7 is missing in the second session.
struct Plan {
    step_ns: i64,
    begin_ns: i64,
    without: Option<u32>,
}

const A: Plan = Plan {
    step_ns: 100 * MS,
    begin_ns: 5 * MS,
    without: None,
};
const B: Plan = Plan {
    step_ns: 110 * MS,
    begin_ns: 8 * MS,
    without: Some(7),
};

/// Builds consecutive steps. Each has 60 % own time, 30 % exposed wait, 10 % exposed transfer and one operation.
fn made(plan: &Plan) -> Made {
    let mut planned = Vec::new();
    for rank in ranks() {
        let mut push = |kind, text: &str, bytes, span| {
            let name = Name {
                text: text.to_owned(),
                bytes,
            };
            planned.push(Planned {
                rank,
                kind,
                name,
                span,
            });
        };
        for number in 0..STEPS {
            let start_ns = plan.begin_ns + i64::from(number) * plan.step_ns;
            let at = |percent: i64| start_ns + plan.step_ns * percent / 100;
            let span = |from, to, class| Span {
                start_ns: at(from),
                end_ns: at(to),
                class,
                ..Span::default()
            };
            if plan.without != Some(number) {
                push(LaneKind::Steps, "", Some(u64::from(number)), span(0, 100, 0));
            }
            let parts = LaneKind::Parts { device: false };
            push(parts, "", None, span(0, 60, part::OWN));
            push(parts, "", None, span(60, 90, part::EXPOSED_WAIT));
            push(parts, "", None, span(90, 100, part::EXPOSED_TRANSFER));
            push(
                LaneKind::Operations {
                    communicator: Some(0),
                },
                "all-reduce",
                Some(1 << 20),
                Span {
                    wait_ns: plan.step_ns * 30 / 100,
                    instance: Some(u64::from(number)),
                    ..span(60, 100, operation::TRANSFER)
                },
            );
        }
    }
    let made = Made::with(&planned);
    for rank in ranks() {
        let mut rows: Vec<StepRow> = (0..STEPS)
            .filter(|step| plan.without != Some(*step))
            .map(|step| step_row(plan, step))
            .collect();
        let path = rank_path::<StepRow>(&made.opened.path, rank.0);
        let mut table = TableWriter::create(&path, 4096).expect("table");
        table.write(&mut rows).expect("rows");
        table.finish().expect("written");
    }
    made.opened.session.write(&made.opened.path).expect("summary");
    made
}

fn step_row(plan: &Plan, step: u32) -> StepRow {
    let start_ns = plan.begin_ns + i64::from(step) * plan.step_ns;
    StepRow {
        world: 0,
        step: StepIndex(step),
        kind: StepKind::Train,
        start_ns,
        end_ns: start_ns + plan.step_ns,
        host_ns: 0,
        exposed_communication_ns: 0,
        other_blocked_ns: 0,
        communication_ns: 0,
        compute_only_ns: None,
        overlapped_ns: None,
        exposed_memory_ns: None,
        idle_ns: None,
        exposed_wait_ns: 0,
        hidden_wait_ns: 0,
        own_delay_ns: None,
        late: false,
    }
}

/// Builds both sessions, and a window that compares the first with the second.
fn harness<'a>(own: &Made, other: &Made) -> Harness<'a, Option<Workspace>> {
    let path = own.opened.path.clone();
    let mut session = Session::read(&path).expect("A");
    // B contains nothing of rank 3.
    session.ranks[3].world = Some(7);
    let beside = other.opened.path.clone();
    let mut harness = Harness::builder().with_size(vec2(1150.0, 1000.0)).build_ui_state(
        move |ui, state: &mut Option<Workspace>| {
            let workspace = state.get_or_insert_with(|| {
                let view = ViewState {
                    drawer: false,
                    findings: false,
                    ..ViewState::default()
                };
                let mut workspace = Workspace::new(&path, session.clone(), Some(view), ui.ctx());
                workspace.compare_with(beside.clone(), ui.ctx());
                workspace
            });
            workspace.show(ui);
        },
        None,
    );
    wait(&mut harness);
    harness
}

fn wait(harness: &mut Harness<'_, Option<Workspace>>) {
    let begin = Instant::now();
    let is_ready = |state: &Option<Workspace>| {
        state
            .as_ref()
            .is_some_and(|workspace| workspace.is_ready() && workspace.timeline.compared().is_some())
    };
    harness.step();
    while !is_ready(harness.state()) {
        assert!(begin.elapsed() < Duration::from_secs(60), "not in time");
        harness.step();
        std::thread::sleep(Duration::from_millis(2));
    }
    harness.run_steps(3);
}

fn workspace<'a>(harness: &'a mut Harness<'_, Option<Workspace>>) -> &'a mut Workspace {
    harness.state_mut().as_mut().expect("a workspace")
}

fn show(harness: &mut Harness<'_, Option<Workspace>>, from_ns: i64, to_ns: i64) {
    let window = Window::between(from_ns, to_ns);
    workspace(harness).state.apply(Action::Show(window), 0.0);
    wait(harness);
}

fn rows_of(harness: &mut Harness<'_, Option<Workspace>>, rank: RankIndex) -> Vec<Row> {
    let rows = workspace(harness).timeline.rows();
    rows.iter()
        .filter(|row| row.kind.rank() == Some(rank))
        .copied()
        .collect()
}

/// Returns the screen position of a time of A in a row.
fn place(harness: &mut Harness<'_, Option<Workspace>>, row: &Row, ns: i64) -> Pos2 {
    let workspace = workspace(harness);
    let rect = workspace.timeline.rows_rect;
    let share = workspace.state.window().share_of(ns) as f32;
    let top = rect.top() + row.top - workspace.state.view.scroll;
    Pos2::new(rect.left() + share * rect.width(), top + row.height / 2.0)
}

/// Moves the mouse to a position and waits for the tooltip.
fn hover(harness: &mut Harness<'_, Option<Workspace>>, at: Pos2) {
    harness.hover_at(at);
    for _ in 0..40 {
        harness.step();
    }
}

fn aligned(harness: &mut Harness<'_, Option<Workspace>>) -> String {
    let compared = workspace(harness).timeline.compared().expect("compared");
    comparison_bar::aligned_text(compared.aligned().expect("aligned"))
}

fn name(row: &Row, compared: &Compared) -> String {
    compared.title(row.kind).unwrap_or_else(|| match row.kind {
        RowKind::Rank { .. } => "rank".to_owned(),
        RowKind::Lane { kind, .. } => format!("{kind:?}"),
        _ => "else".to_owned(),
    })
}

#[test]
fn ranks_of_two_sessions_are_paired_and_aligned_by_step() {
    let (own, other) = (made(&A), made(&B));
    let mut harness = harness(&own, &other);
    // Rows of A, the difference, rows of B.
    let rows = rows_of(&mut harness, RankIndex(1));
    let compared = workspace(&mut harness).timeline.compared().expect("compared");
    let names: Vec<String> = rows.iter().map(|row| name(row, compared)).collect();
    let below: Vec<&str> = names
        .iter()
        .skip_while(|name| !name.contains("B − A"))
        .map(String::as_str)
        .collect();
    assert_eq!(names[0], "rank");
    assert_eq!(below[..3], ["step time, B − A", "B rank 1", "B steps"]);
    assert!(below[3].starts_with("B gloo world of"), "{below:?}");
    assert_eq!(below.len(), 4);
    let alone = rows_of(&mut harness, RankIndex(3));
    assert!(matches!(
        alone.last().map(|row| row.kind),
        Some(RowKind::Unmatched(RankIndex(3)))
    ));
    harness.get_by_label("1 rank only in A, 1 rank only in B");

    // Step 2 is in the middle of the window. It starts at 205 ms in A and at 228 ms in B.
    show(&mut harness, 230 * MS, 280 * MS);
    assert_eq!(aligned(&mut harness), "B aligned at step 2, +23.0 ms");
    harness.get_by_label("B aligned at step 2, +23.0 ms");
    // B lacks step 7. Step 6 is the nearest that both have: its end is nearer than the start of step 8.
    show(&mut harness, 720 * MS, 740 * MS);
    assert_eq!(aligned(&mut harness), "B aligned at step 6, +63.0 ms");
    // After moving on, another step is the anchor.
    show(&mut harness, 780 * MS, 800 * MS);
    assert_eq!(aligned(&mut harness), "B aligned at step 8, +83.0 ms");
    // A pixel has the same duration in both sessions at any zoom.
    for (from, to) in [(0, 1_000), (205, 206), (300, 340)] {
        show(&mut harness, from * MS, to * MS);
        let window = workspace(&mut harness).state.window();
        let compared = workspace(&mut harness).timeline.compared().expect("compared");
        let seen: Vec<Window> = compared.picture_rows().map(|(row, _)| row.window).collect();
        let anchor = compared.aligned().expect("aligned").anchor;
        assert!(!seen.is_empty());
        for other in seen {
            assert_eq!(other.share_of(anchor.other_ns), window.share_of(anchor.own_ns));
        }
    }
}

#[test]
fn tooltips_show_differences_and_spans_of_b() {
    let (own, other) = (made(&A), made(&B));
    let mut harness = harness(&own, &other);
    show(&mut harness, 180 * MS, 350 * MS);
    let rows = rows_of(&mut harness, RankIndex(0));
    let difference = rows.iter().find(|row| matches!(row.kind, RowKind::Difference(_)));
    let difference = *difference.expect("a row of differences");
    let at = place(&mut harness, &difference, 250 * MS);
    hover(&mut harness, at);
    harness.get_by_label("step 2 (train)");
    harness.get_by_label("step time");
    // The legend contains these texts too.
    for text in ["exposed wait", "exposed transfer", "own time"] {
        assert_eq!(harness.query_all_by_label(text).count(), 2, "{text}");
    }
    // Each part is 10 % longer.
    for text in [
        "100 ms", "110 ms", "+10.0 ms", "30.0 ms", "33.0 ms", "+3.00 ms", "60.0 ms", "66.0 ms", "+6.00 ms",
        "10.0 ms", "11.0 ms", "+1.00 ms",
    ] {
        assert!(harness.query_all_by_label(text).next().is_some(), "{text}");
    }

    // The tooltip of a span of B names B, and a click picks the instance of B.
    let operations = rows.iter().find(|row| {
        matches!(
            row.kind,
            RowKind::Other {
                kind: LaneKind::Operations { .. },
                ..
            }
        )
    });
    let operations = *operations.expect("B's operations");
    // The middle of the window is in step 2, which is the anchor. 70 % into that step, B has its operation.
    let at = place(&mut harness, &operations, 205 * MS + 88 * MS);
    hover(&mut harness, at);
    harness.get_by_label_contains("in B, ");
    harness.get_by_label("all-reduce 1 MiB");
    let compared = workspace(&mut harness).timeline.compared().expect("compared");
    let Some(Pointed::Span {
        rank: RankIndex(0),
        hovered,
    }) = compared.pointed
    else {
        panic!("nothing of B is pointed at");
    };
    assert_eq!(hovered.span.start_ns, B.begin_ns + 2 * B.step_ns + 66 * MS);
    for pressed in [true, false] {
        harness.event(Event::PointerButton {
            pos: at,
            button: PointerButton::Primary,
            pressed,
            modifiers: Default::default(),
        });
        harness.step();
    }
    // The pick is an instance of B. The same number is a different instance in A.
    assert_eq!(workspace(&mut harness).state.picked, None);
    run_until(&mut harness, "the members of an instance of B", |state| {
        let compared = state.as_ref().and_then(|workspace| workspace.timeline.compared());
        compared.is_some_and(|compared| compared.members().is_some_and(|it| it.pending == 0))
    });
    let compared = workspace(&mut harness).timeline.compared().expect("compared");
    let members = compared.members().expect("members");
    assert_eq!(members.picked.instance, 2);
    let mut found: Vec<RankIndex> = members.members.iter().map(|member| member.rank).collect();
    found.sort_unstable();
    assert_eq!(found, ranks().collect::<Vec<_>>());
    harness.get_by_label("Zoom to instance").click();
    harness.run_steps(3);
    let window = workspace(&mut harness).state.window();
    let compared = workspace(&mut harness).timeline.compared().expect("compared");
    let anchor = compared.aligned().expect("aligned").anchor;
    assert!(
        anchor
            .other_window(window)
            .touches(hovered.span.start_ns, hovered.span.end_ns)
    );
    assert!(window.length_ns() < 100 * MS, "{window:?}");
    harness.key_press(egui::Key::Escape);
    harness.run_steps(3);
    let compared = workspace(&mut harness).timeline.compared().expect("compared");
    assert_eq!(compared.picked, None);

    // Step 7 is missing in B.
    show(&mut harness, 650 * MS, 850 * MS);
    let at = place(&mut harness, &difference, 750 * MS);
    hover(&mut harness, at);
    harness.get_by_label("B has no step 7 on this rank");
}

#[test]
fn the_table_shows_both_sessions_and_a_click_goes_to_a_rank() {
    let (own, other) = (made(&A), made(&B));
    let mut harness = harness(&own, &other);
    let compared = workspace(&mut harness).timeline.compared().expect("compared");
    let lines: Vec<_> = compared
        .table
        .lines()
        .skip(1)
        .map(|line| {
            (
                line.rank,
                line.step.own.figure.value,
                line.step.other.figure.value,
            )
        })
        .collect();
    let expected = |rank| (Some(RankIndex(rank)), Some(100 * MS), Some(110 * MS));
    assert_eq!(lines, [expected(0), expected(1), expected(2)]);
    harness.get_by_label("rank 2").click();
    harness.run_steps(3);
    assert_eq!(workspace(&mut harness).state.rank, Some(RankIndex(2)));
    harness.get_by_label("Stop comparing").click();
    harness.run_steps(3);
    assert!(workspace(&mut harness).timeline.compared().is_none());
    let is_compared = |row: &Row| row.kind.is_compared();
    assert!(!workspace(&mut harness).timeline.rows().iter().any(is_compared));
}

/// Writes pictures of the tooltips for inspection: `PANELS_OUT=DIR cargo test -p rankscope-viewer compare::`.
#[test]
fn pictures_of_tooltips() {
    let Some(out) = std::env::var_os("PANELS_OUT").map(std::path::PathBuf::from) else {
        return;
    };
    let (own, other) = (made(&A), made(&B));
    for dark in [true, false] {
        let ctx = egui::Context::default();
        ctx.set_theme(if dark {
            egui::Theme::Dark
        } else {
            egui::Theme::Light
        });
        let mut compared = None;
        let frames = crate::screenshot::Frames::default();
        let picture = crate::screenshot::render_in(&ctx, vec2(420.0, 420.0), 1.5, frames, |ui| {
            let session = other.opened.session.clone();
            let compared = compared
                .get_or_insert_with(|| Compared::new(&own.opened, &other.opened.path, session, ui.ctx()));
            let kind = RowKind::Difference(RankIndex(0));
            let placed = crate::timeline::compared::PlacedRow {
                kind,
                rect: egui::Rect::from_min_size(Pos2::ZERO, vec2(400.0, 16.0)),
            };
            let window = Window::between(0, 1_000 * MS);
            compared.update(ui.ctx(), &own.opened, window, 400.0, &[placed]);
            let is_ready =
                compared.steps_of(RankIndex(0)).is_some() && own.opened.open_view(RankIndex(0)).is_some();
            egui::CentralPanel::default().show(ui, |ui| {
                for (first, beyond) in [(2, 3), (7, 8), (5, 9)] {
                    compared.pointed = Some(Pointed::Steps {
                        rank: RankIndex(0),
                        first,
                        beyond,
                    });
                    egui::Frame::popup(ui.style()).show(ui, |ui| {
                        ui.push_id(first, |ui| {
                            crate::timeline::compared::comparison_tooltip::show(ui, &own.opened, compared)
                        });
                    });
                }
            });
            if is_ready {
                crate::screenshot::Readiness::Ready
            } else {
                crate::screenshot::Readiness::NotReady
            }
        })
        .expect("a picture");
        let path = out.join(format!("compare-tooltips-{dark}.png"));
        crate::screenshot::png_file::write(&path, &picture.image, picture.pixels_per_point).expect("written");
    }
}

/// A part of a run has its own step numbers. It is aligned by the starts of the runs, and no steps are compared.
#[test]
fn steps_of_a_partial_session_are_not_compared() {
    let (own, other) = (made(&A), made(&B));
    let mut harness = harness(&own, &other);
    show(&mut harness, 230 * MS, 280 * MS);
    assert_eq!(aligned(&mut harness), "B aligned at step 2, +23.0 ms");
    assert!(harness.query_by_label("Steps are not compared").is_none());
    let mut session = Session::read(&own.opened.path).expect("A");
    session.part = Some(Part {
        from_ns: 100 * MS,
        numbers_steps_from_its_begin: true,
        ..Part::default()
    });
    // A continues as a part, as it does when a run is followed.
    let ctx = harness.ctx.clone();
    workspace(&mut harness).replace_session(&own.opened.path, session, &ctx);
    wait(&mut harness);
    let reported = aligned(&mut harness);
    assert!(
        reported.starts_with("B aligned at the start of both runs"),
        "{reported}"
    );
    harness.get_by_label("Steps are not compared");
    harness.get_by_label_contains("of the run");
    let compared = workspace(&mut harness).timeline.compared().expect("compared");
    assert!(compared.steps_of(RankIndex(0)).is_none());
}
