use super::*;
use crate::panels::test_support::{Made, STEP_NS, Stage, keep, made, run_until};
use egui::{Color32, Key as Pressed, Pos2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{StepRow, rank_path};
use rankscope_report::heatmap::cividis;
use rankscope_report::heatmap::picture;
use rankscope_report::heatmap::picture::PictureStyle;

const LABEL: &str = "heat map";

fn harness<'a>(made: Made, kind: Kind) -> Harness<'a, Stage<HeatMapsPanel>> {
    let panel = HeatMapsPanel {
        kind,
        ..HeatMapsPanel::default()
    };
    let mut harness = Harness::builder().with_size(vec2(1000.0, 420.0)).build_ui_state(
        |ui, stage: &mut Stage<HeatMapsPanel>| {
            let opened = stage.made.opened.clone();
            stage.panel.show(ui, &opened, &stage.state, &mut stage.actions);
        },
        Stage::of(panel, made),
    );
    run_until(&mut harness, "the map", |stage| stage.panel.is_ready());
    harness
}

/// Returns the centre of a place in the window.
fn middle(harness: &Harness<'_, Stage<HeatMapsPanel>>, row: usize, column: usize) -> Pos2 {
    let rect = harness.get_by_label_contains(LABEL).rect();
    let shown = harness.state().panel.shown.as_ref().expect("shown");
    let fitted = &shown.drawn.grids[0].fitted;
    let cell = rect.size() / vec2(fitted.columns.len() as f32, fitted.rows.len() as f32);
    rect.min + vec2((column as f32 + 0.5) * cell.x, (row as f32 + 0.5) * cell.y)
}

fn click(harness: &mut Harness<'_, Stage<HeatMapsPanel>>, at: Pos2) {
    harness.hover_at(at);
    harness.step();
    for pressed in [true, false] {
        harness.event(egui::Event::PointerButton {
            pos: at,
            button: egui::PointerButton::Primary,
            pressed,
            modifiers: egui::Modifiers::default(),
        });
    }
    harness.step();
}

#[test]
fn a_click_on_a_step_shows_it_on_its_rank() {
    let mut harness = harness(made(6, 30), Kind::Wait);
    let at = middle(&harness, 4, 17);
    click(&mut harness, at);
    run_until(&mut harness, "the step", |stage| stage.actions.len() > 1);
    let start_ns = 17 * STEP_NS + 4_000;
    let step = Window::between(start_ns, start_ns + STEP_NS);
    let expected = [
        Action::Rank(Some(RankIndex(4))),
        Action::Show(step.with_margin(MARGIN)),
    ];
    assert_eq!(harness.state().actions, expected);
}

#[test]
fn keys_go_to_a_step() {
    let mut harness = harness(made(6, 30), Kind::Delay);
    harness.get_by_label_contains(LABEL).focus();
    harness.run_steps(2);
    for key in [
        Pressed::ArrowDown,
        Pressed::ArrowRight,
        Pressed::ArrowRight,
        Pressed::ArrowRight,
        Pressed::ArrowLeft,
    ] {
        harness.key_press(key);
        harness.run_steps(2);
    }
    harness.get_by_label_contains("rank 1, step 2, ");
    harness.key_press(Pressed::Enter);
    run_until(&mut harness, "the step", |stage| stage.actions.len() > 1);
    let start_ns = 2 * STEP_NS + 1_000;
    let step = Window::between(start_ns, start_ns + STEP_NS);
    let expected = [
        Action::Rank(Some(RankIndex(1))),
        Action::Show(step.with_margin(MARGIN)),
    ];
    assert_eq!(harness.state().actions, expected);
}

#[test]
fn a_click_on_a_sender_selects_the_rank() {
    let mut harness = harness(made(6, 30), Kind::Traffic);
    let shown = harness.state().panel.shown.as_ref().expect("shown");
    assert_eq!(shown.picture.grids.len(), 2, "recorded and modelled");
    let rect = harness.get_by_label_contains("recorded").rect();
    let cell = rect.size() / 6.0;
    let at = rect.min + vec2(3.5 * cell.x, 2.5 * cell.y);
    click(&mut harness, at);
    harness.run_steps(2);
    assert_eq!(harness.state().actions, [Action::Rank(Some(RankIndex(2)))]);
}

#[test]
fn every_cell_has_the_colour_of_the_report_library() {
    let made = made(6, 30);
    for kind in Kind::ALL {
        let maps = maps(&made.opened, Group::of(kind)).expect("read");
        let picture = maps.iter().find(|(of, _)| *of == kind).expect("asked for");
        let picture = picture.1.as_ref().expect("a map").clone();
        for (rows, columns) in [(100, 100), (4, 7)] {
            let most = GridSize { rows, columns };
            let drawn = draw(&picture, most, false).expect("drawn");
            let style = PictureStyle {
                most: (columns as u32, rows as u32),
                cell: (1, 1),
                margin: 0,
                most_elements: 0,
                with_words: false,
                spread: None,
                clips: false,
            };
            let by_library = picture::draw(&picture, &style).expect("drawn");
            assert_eq!(drawn.scale, by_library.scale);
            let mut missing = 0;
            for (grid, values) in drawn.grids.iter().zip(&by_library.values) {
                assert_eq!(grid.image.pixels.len(), values.len());
                for (pixel, value) in grid.image.pixels.iter().zip(values) {
                    let expected = value.map_or(Color32::TRANSPARENT, |value| {
                        let [r, g, b] = cividis::colour(by_library.scale.number(value));
                        Color32::from_rgb(r, g, b)
                    });
                    assert_eq!(*pixel, expected, "{kind:?}");
                    missing += usize::from(value.is_none());
                }
            }
            // If several ranks share a place, a rank with a value hides one that lacks the step.
            assert!(
                most.rows < 6 || missing > 0,
                "{kind:?}: not every place has a value"
            );
        }
    }
}

#[test]
fn a_click_on_a_shared_cell_goes_to_the_rank_it_shows() {
    // 300 ranks do not fit into a window of 120 points, so some share a place.
    let made = made(300, 20);
    let slow = 150;
    let panel = HeatMapsPanel {
        kind: Kind::Delay,
        ..HeatMapsPanel::default()
    };
    let mut harness = Harness::builder().with_size(vec2(800.0, 120.0)).build_ui_state(
        |ui, stage: &mut Stage<HeatMapsPanel>| {
            let opened = stage.made.opened.clone();
            stage.panel.show(ui, &opened, &stage.state, &mut stage.actions);
        },
        Stage::of(panel, made),
    );
    run_until(&mut harness, "the map", |stage| stage.panel.is_ready());
    let shown = harness.state().panel.shown.as_ref().expect("shown");
    let rows = &shown.drawn.grids[0].fitted.rows;
    assert!(rows[0].len() > 2, "{:?}", rows[0]);
    let place = rows
        .iter()
        .position(|rows| rows.contains(&slow))
        .expect("somewhere");
    assert_ne!(rows[place].start, slow, "it would be found without looking");
    let at = middle(&harness, place, 5);
    click(&mut harness, at);
    assert_eq!(
        harness.state().actions[0],
        Action::Rank(Some(RankIndex::of(slow)))
    );
}

#[test]
fn an_unchanged_map_is_not_drawn_again() {
    let mut harness = harness(made(6, 30), Kind::Wait);
    let texture = |harness: &Harness<'_, Stage<HeatMapsPanel>>| {
        harness.state().panel.shown.as_ref().expect("shown").textures[0].id()
    };
    let before = texture(&harness);
    harness.run_steps(10);
    assert_eq!(texture(&harness), before);
    harness.get_by_label("Own delay").click();
    run_until(&mut harness, "the other map", |stage| {
        stage.panel.is_ready() && stage.panel.kind == Kind::Delay
    });
    assert_ne!(texture(&harness), before);
    harness.get_by_label_contains("Own delay per rank and step");
}

#[test]
fn a_read_error_is_shown_and_retried() {
    let made = made(6, 30);
    let path = rank_path::<StepRow>(&made.opened.path, 2);
    let good = std::fs::read(&path).expect("there");
    std::fs::write(&path, b"nonsense").expect("written");
    let mut harness = harness(made, Kind::Wait);
    harness.get_by_label_contains("Cannot read the steps of all ranks");
    std::fs::write(&path, good).expect("written");
    harness.get_by_label("Try again").click();
    run_until(&mut harness, "the map", |stage| stage.panel.shown.is_some());
    harness.get_by_label_contains(LABEL);
}

#[test]
fn a_session_without_steps_shows_the_reason() {
    let made = crate::panels::test_support::of(rankscope_fixtures::sessions::damaged());
    let harness = harness(made, Kind::Wait);
    harness.get_by_label_contains("the pattern explains 61 % of the operations");
}

#[test]
fn pictures() {
    for (name, kind, size, ranks, steps, zoom) in [
        ("wait", Kind::Wait, vec2(1100.0, 300.0), 8, 60, Zoom::Whole),
        (
            "wait-many",
            Kind::Wait,
            vec2(1100.0, 300.0),
            1024,
            200,
            Zoom::Whole,
        ),
        ("wait-rows", Kind::Wait, vec2(1100.0, 300.0), 64, 200, Zoom::Rows),
        ("traffic", Kind::Traffic, vec2(1100.0, 340.0), 16, 10, Zoom::Whole),
        ("busbw", Kind::Busbw, vec2(1100.0, 260.0), 8, 10, Zoom::Whole),
        ("narrow", Kind::Delay, vec2(480.0, 380.0), 8, 60, Zoom::Whole),
    ] {
        if std::env::var_os("PANELS_OUT").is_none() {
            return;
        }
        let made = made(ranks, steps);
        let mut state = made.state();
        state.rank = Some(RankIndex(ranks / 2 + 1));
        for_each_theme(
            name,
            size,
            || HeatMapsPanel {
                kind,
                zoom,
                ..HeatMapsPanel::default()
            },
            &made,
            &state,
        );
    }
}

fn for_each_theme(name: &str, size: Vec2, panel: impl Fn() -> HeatMapsPanel, made: &Made, state: &State) {
    let mut current: Option<(bool, HeatMapsPanel)> = None;
    keep(&format!("heat-map-{name}"), size, |ui| {
        // Textures belong to an egui context, and each theme has its own context.
        let dark = ui.visuals().dark_mode;
        if current.as_ref().is_none_or(|(of, _)| *of != dark) {
            current = Some((dark, panel()));
        }
        let Some((_, panel)) = &mut current else {
            return false;
        };
        panel.show(ui, &made.opened, state, &mut Vec::new());
        panel.is_ready()
    });
}
