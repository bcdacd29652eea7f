//! Artificial sessions on disk for the tests of panels, and pictures of panels.
//!
//! The jobs are those of the collector's tests. `PANELS_OUT=DIR cargo test -p rankscope-viewer panels::` writes the
//! pictures into DIR for inspection.

use crate::model::{Action, Opened, State, ViewState, Window};
use crate::screenshot::{Frames, Readiness, png_file, render_in};
use egui::{Context, Ui, Vec2};
use rankscope_fixtures::sessions::{Job, traffic};
use rankscope_formats::ids::StepIndex;
use rankscope_formats::session::{Session, StepKind, StepRow, TableWriter, TrafficRow, part_path, rank_path};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Length of a step of an artificial job with a slow rank, in nanoseconds.
pub const STEP_NS: i64 = 121_000_000;

/// A session on disk inside a run directory.
pub struct Made {
    folder: TempDir,
    pub opened: Arc<Opened>,
}

impl Made {
    /// Returns the run directory.
    pub fn run(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    pub fn state(&self) -> State {
        let axis = &self.opened.session.axis;
        State::new(Window::between(axis.start_ns, axis.end_ns), ViewState::default())
    }
}

/// Writes a session that consists only of a summary.
pub fn of(session: Session) -> Made {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("session");
    fs::create_dir_all(&directory).expect("made");
    session.write(&directory).expect("summary");
    Made {
        opened: Arc::new(Opened::new(&directory, session)),
        folder,
    }
}

/// Writes a job with a slow rank, including the tables of its steps and traffic.
pub fn made(ranks: u32, steps: u64) -> Made {
    let session = Job {
        ranks,
        steps,
        slow: Some(ranks / 2),
        hosts: 2,
    }
    .session();
    let made = of(session);
    let (directory, session) = (&made.opened.path, &made.opened.session);
    for rank in 0..ranks {
        let mut rows: Vec<StepRow> = (0..steps).filter_map(|step| row(session, rank, step)).collect();
        let mut table = TableWriter::create(&rank_path::<StepRow>(directory, rank), 4096).expect("table");
        table.write(&mut rows).expect("rows");
        table.finish().expect("written");
    }
    let mut table = TableWriter::create(&part_path::<TrafficRow>(directory), 1 << 16).expect("table");
    table.write(&mut traffic(session)).expect("rows");
    table.finish().expect("written");
    made
}

/// Returns a step with the values of the summary's matrix. Its start also depends on the rank, so that all differ.
fn row(session: &Session, rank: u32, step: u64) -> Option<StepRow> {
    let (waits, at) = (&session.waits, rank as usize);
    let column = (step / u64::from(waits.steps_per_column)) as usize;
    let start_ns = step as i64 * STEP_NS + i64::from(rank) * 1_000;
    Some(StepRow {
        world: 0,
        step: StepIndex(step as u32),
        kind: StepKind::Train,
        start_ns,
        end_ns: start_ns + waits.duration_ns[at][column]?,
        host_ns: 0,
        exposed_communication_ns: waits.exposed_communication_ns[at][column]?,
        other_blocked_ns: 0,
        communication_ns: 0,
        compute_only_ns: None,
        overlapped_ns: None,
        exposed_memory_ns: None,
        idle_ns: None,
        exposed_wait_ns: waits.exposed_wait_ns[at][column]?,
        hidden_wait_ns: 0,
        own_delay_ns: waits.own_delay_ns[at][column],
        late: false,
    })
}

/// A panel under test with its environment.
pub struct Stage<P> {
    pub panel: P,
    pub made: Made,
    pub state: State,
    pub actions: Vec<Action>,
}

impl<P> Stage<P> {
    pub fn of(panel: P, made: Made) -> Self {
        Self {
            panel,
            state: made.state(),
            made,
            actions: Vec::new(),
        }
    }
}

/// Runs frames until a condition holds.
pub fn run_until<S>(
    harness: &mut egui_kittest::Harness<'_, S>,
    what: &str,
    mut holds: impl FnMut(&S) -> bool,
) {
    let begin = Instant::now();
    while !holds(harness.state()) {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}: not in time");
        harness.step();
        std::thread::sleep(Duration::from_millis(2));
    }
    harness.run_steps(3);
}

/// Writes a light and a dark picture of a panel, if `PANELS_OUT` is set.
pub fn keep(name: &str, size: Vec2, mut ui: impl FnMut(&mut Ui) -> bool) {
    let Some(out) = std::env::var_os("PANELS_OUT").map(PathBuf::from) else {
        return;
    };
    for (theme_name, theme) in [("dark", egui::Theme::Dark), ("light", egui::Theme::Light)] {
        let ctx = Context::default();
        ctx.set_theme(theme);
        let picture = render_in(&ctx, size, 1.5, Frames::default(), |root| {
            let mut is_ready = false;
            egui::CentralPanel::default().show(root, |root| is_ready = ui(root));
            if is_ready {
                Readiness::Ready
            } else {
                Readiness::NotReady
            }
        })
        .expect("a picture");
        let path = out.join(format!("{name}-{theme_name}.png"));
        png_file::write(&path, &picture.image, picture.pixels_per_point).expect("written");
    }
}
