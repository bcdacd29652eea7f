//! Benchmark of the viewer: `viewer_bench SESSION [--cold] [--first]`.
//!
//! `--cold` first drops the session's files from the page cache. `--first` stops after the picture of the whole run.
//! The benchmark opens no window. It runs and tessellates egui at 1920 × 1080 points, as a window does. It measures the
//! CPU time of each frame on the window's own thread: update and tessellation.
//!
//! Phases:
//! - until the whole run is visible, and until it is exact;
//! - a journey that zooms, pans and scrolls through the run, with the mouse over the rows;
//! - the same at a zoom at which all spans have names;
//! - the panels of a selection;
//! - memory use at the end.

use rankscope_analysis::selection::{SelectionRequest, select};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::index::{ViewFile, view_path};
use rankscope_formats::session::Session;
use rankscope_viewer::app::workspace::Workspace;
use rankscope_viewer::model::{Action, Window};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const SIZE: egui::Vec2 = egui::Vec2::new(1920.0, 1080.0);

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: viewer_bench SESSION [--cold] [--first]");
        return ExitCode::from(2);
    };
    let options: Vec<String> = arguments.collect();
    if options.iter().any(|option| option == "--cold") {
        forget_files(&path);
    }
    let start = Instant::now();
    let session = match Session::read(&path) {
        Ok(session) => session,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let read = start.elapsed();
    let ranks = session.ranks.len();
    let mut bench = Bench::new(&path, session.clone());
    let mut first = None;
    let mut frames = 0;
    loop {
        bench.frame(Vec::new());
        frames += 1;
        if first.is_none() && bench.workspace.timeline.has_all() && bench.workspace.timeline.rows_filled() > 0
        {
            first = Some(start.elapsed());
        }
        if bench.workspace.timeline.is_exact() || start.elapsed() > Duration::from_secs(120) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    println!(
        "{ranks} ranks: session.json {:.0} ms, first picture of the whole run {:.0} ms, exact {:.0} ms ({frames} frames)",
        read.as_secs_f64() * 1e3,
        first.unwrap_or_default().as_secs_f64() * 1e3,
        start.elapsed().as_secs_f64() * 1e3,
    );

    if options.iter().any(|option| option == "--first") {
        return ExitCode::SUCCESS;
    }
    let journey = bench.journey();
    print_frames("journey, ranks as they open", &journey, &bench);
    bench.workspace.state.view.collapsed.clear();
    let journey = bench.journey();
    print_frames("journey, all ranks expanded", &journey, &bench);
    bench.workspace.state.view.dense = true;
    let journey = bench.journey();
    print_frames("journey, all ranks expanded, low rows", &journey, &bench);
    let named = bench.named();
    print_frames("close up, everything named, low rows", &named, &bench);

    let (mut spans, mut bytes) = (0, 0);
    for rank in 0..ranks as u32 {
        if let Ok(view) = ViewFile::open(&view_path(&path, rank)) {
            spans += view.footer().lanes.iter().map(|lane| lane.spans).sum::<u64>();
            bytes += view.bytes();
        }
    }
    bench.visit_all();
    let pss = pss_bytes();
    println!(
        "{spans} spans: index {:.1} bytes per span, PSS {:.0} MB after visiting every region ({:.1} bytes per span)",
        bytes as f64 / spans.max(1) as f64,
        pss as f64 / 1e6,
        pss as f64 / spans.max(1) as f64
    );

    let axis = &session.axis;
    let length = axis.end_ns - axis.start_ns;
    let opened = bench.workspace.opened.clone();
    let cancelled = AtomicBool::new(false);
    for (what, window) in [
        ("whole run", (axis.start_ns, axis.end_ns + 1)),
        (
            "middle third",
            (axis.start_ns + length / 3, axis.start_ns + 2 * length / 3),
        ),
        (
            "a thousandth",
            (
                axis.start_ns + length / 2,
                axis.start_ns + length / 2 + length / 1000,
            ),
        ),
    ] {
        let view = |rank: RankIndex| -> Option<Arc<ViewFile>> { opened.open_view(rank) };
        let request = SelectionRequest {
            window,
            ranks: None,
            cancelled: &cancelled,
        };
        let mut best = f64::INFINITY;
        for _ in 0..3 {
            let start = Instant::now();
            if let Err(error) = select(&path, &session, &view, request) {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
            best = best.min(start.elapsed().as_secs_f64() * 1e3);
        }
        println!("selection of the {what}: {best:.0} ms (best of 3)");
    }
    ExitCode::SUCCESS
}

struct Bench {
    ctx: egui::Context,
    workspace: Workspace,
    time: f64,
    pointer: egui::Pos2,
    names: usize,
    rows: usize,
    exact: Vec<f64>,
}

impl Bench {
    fn new(path: &Path, session: Session) -> Self {
        let ctx = egui::Context::default();
        let mut workspace = Workspace::new(path, session, None, &ctx);
        workspace.state.view.drawer = false;
        workspace.state.view.findings = false;
        Self {
            workspace,
            ctx,
            time: 0.0,
            pointer: egui::pos2(900.0, 400.0),
            names: 0,
            rows: 0,
            exact: Vec::new(),
        }
    }

    /// Runs one frame. Returns its CPU time, in milliseconds.
    fn frame(&mut self, actions: Vec<Action>) -> f64 {
        self.time += 1.0 / 60.0;
        let input = egui::RawInput {
            screen_rect: Some(egui::Rect::from_min_size(egui::Pos2::ZERO, SIZE)),
            time: Some(self.time),
            events: vec![egui::Event::PointerMoved(self.pointer)],
            ..Default::default()
        };
        for action in actions {
            self.workspace.state.apply(action, self.time);
        }
        let start = thread_time();
        let workspace = &mut self.workspace;
        let mut output = self.ctx.run_ui(input, |ui| {
            workspace.show(ui);
        });
        let primitives = self
            .ctx
            .tessellate(std::mem::take(&mut output.shapes), output.pixels_per_point);
        let spent = thread_time() - start;
        std::hint::black_box(&primitives);
        output.textures_delta.clear();
        self.names = self.names.max(workspace.timeline.names_drawn());
        self.rows = self.rows.max(workspace.timeline.rows_filled());
        spent * 1e3
    }

    fn settle(&mut self) {
        let start = Instant::now();
        while !self.workspace.timeline.is_exact() && start.elapsed() < Duration::from_secs(20) {
            self.frame(Vec::new());
            std::thread::sleep(Duration::from_micros(500));
        }
        if let Some(after) = self.workspace.timeline.exact_after() {
            self.exact.push(after.as_secs_f64() * 1e3);
        }
    }

    fn show(&mut self, window: Window) -> f64 {
        self.frame(vec![Action::Show(window)])
    }

    /// Zooms in to microseconds at several places, pans there, scrolls down, and zooms out again.
    fn journey(&mut self) -> Vec<f64> {
        let mut spent = Vec::new();
        let whole = self.workspace.state.whole;
        self.exact.clear();
        self.rows = 0;
        self.names = 0;
        for place in [0.13, 0.5, 0.81] {
            self.show(whole);
            self.settle();
            let mut window = whole;
            let mut share = place;
            let mut step = 0;
            while window.length_ns() > 20_000 {
                window = window.zoomed(0.9, share);
                share = 0.5 + (share - 0.5) * 0.9;
                spent.push(self.show(window));
                step += 1;
                self.pointer.x = 300.0 + f32::from((step % 160) as u16) * 10.0;
                self.pointer.y = 100.0 + f32::from((step % 90) as u16) * 10.0;
                if step % 12 == 0 {
                    // Explore the neighbourhood: pan, scroll, and wait until all pictures are exact.
                    for _ in 0..8 {
                        window = window.moved(0.07);
                        spent.push(self.show(window));
                        self.workspace.state.view.scroll += 37.0;
                        spent.push(self.frame(Vec::new()));
                    }
                    self.settle();
                    spent.push(self.frame(Vec::new()));
                }
            }
            for _ in 0..60 {
                window = window.zoomed(1.25, 0.5);
                spent.push(self.show(window));
            }
            self.settle();
        }
        spent
    }

    /// Runs frames at a zoom at which nearly all spans have names.
    fn named(&mut self) -> Vec<f64> {
        let whole = self.workspace.state.whole;
        self.exact.clear();
        self.names = 0;
        self.rows = 0;
        let mut spent = Vec::new();
        let mut best = (0, whole);
        let mut window = whole;
        while window.length_ns() > 50_000 {
            window = window.zoomed(0.7, 0.5);
            self.show(window);
            self.settle();
            self.names = 0;
            self.frame(Vec::new());
            if self.names > best.0 {
                best = (self.names, window);
            }
        }
        let mut window = best.1;
        for _ in 0..200 {
            window = window.moved(0.004);
            spent.push(self.show(window));
            self.settle();
        }
        self.names = self.names.max(best.0);
        spent
    }

    /// Reads every block of every lane.
    fn visit_all(&mut self) {
        let opened = self.workspace.opened.clone();
        for rank in opened.ranks() {
            let Some(view) = opened.open_view(rank) else {
                continue;
            };
            for (_, lane) in view.lanes_of(|_| true) {
                let mut sum = 0i64;
                lane.spans_in(i64::MIN, i64::MAX, |span| {
                    sum = sum.wrapping_add(span.end_ns);
                    true
                });
                std::hint::black_box(sum);
            }
        }
    }
}

fn print_frames(what: &str, spent: &[f64], bench: &Bench) {
    let mut sorted = spent.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len() - 1));
    let exact = bench.exact.iter().copied().fold(0.0, f64::max);
    println!(
        "{what}: {} frames, p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms; up to {} rows and {} names; exact after at most \
         {exact:.0} ms ({} times)",
        sorted.len(),
        at(0.5).copied().unwrap_or_default(),
        at(0.99).copied().unwrap_or_default(),
        at(1.0).copied().unwrap_or_default(),
        bench.rows,
        bench.names,
        bench.exact.len(),
    );
}

/// Returns the CPU time of this thread, in seconds.
fn thread_time() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid `timespec`, and the call only writes to it.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the proportional set size of this process, in bytes. Shared pages count in proportion to their users.
fn pss_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

/// Drops the files of a session from the page cache.
fn forget_files(path: &Path) {
    let Ok(entries) = std::fs::read_dir(path) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            forget_files(&path);
        } else if let Ok(file) = std::fs::File::open(&path) {
            use std::os::fd::AsRawFd;
            // SAFETY: both calls only use the descriptor, and `file` keeps it open. `fsync` comes first because dirty
            // pages cannot be dropped.
            unsafe {
                libc::fsync(file.as_raw_fd());
                libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
            }
        }
    }
}
