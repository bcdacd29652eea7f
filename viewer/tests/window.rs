//! Tests a real window on a real X server (Xvfb, OpenGL in software): opened, driven with keys, left alone, closed and
//! opened again.

mod support;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum time of a step of the test. Software rendering on a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An X server whose screen is a file.
struct Screen {
    _server: Running,
    display: String,
    file: PathBuf,
}

impl Screen {
    fn start(directory: &Path) -> Option<Self> {
        // Two servers that start at the same time may choose the same number.
        static STARTING: Mutex<()> = Mutex::new(());
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let server = Command::new("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-screen",
                "0",
                "1400x900x24",
                "-nolisten",
                "tcp",
                "-fbdir",
            ])
            .arg(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(server) = server else {
            rankscope_tests::skip("there is no Xvfb here");
            return None;
        };
        let mut server = Running(server);
        let mut number = String::new();
        let out = server.0.stdout.as_mut().expect("its output");
        while !number.ends_with('\n') {
            let mut byte = [0];
            out.read_exact(&mut byte).expect("a display's number");
            number.push(char::from(byte[0]));
        }
        Some(Self {
            _server: server,
            display: format!(":{}", number.trim()),
            file: directory.join("Xvfb_screen0"),
        })
    }

    /// Returns the pixels of the screen, one byte each: the mean of their channels. The file has the format of xwd.
    fn pixels(&self) -> Vec<u8> {
        let bytes = fs::read(&self.file).expect("the screen");
        let word = |at: usize| {
            let of = bytes[4 * at..4 * at + 4].try_into().expect("four bytes");
            u32::from_be_bytes(of) as usize
        };
        let (header, height, width, line, colours) = (word(0), word(5), word(4), word(12), word(19));
        let start = header + 12 * colours;
        (0..height)
            .flat_map(|y| (0..width).map(move |x| start + y * line + 4 * x))
            .map(|at| {
                let sum: u16 = bytes[at..at + 3].iter().map(|&byte| u16::from(byte)).sum();
                (sum / 3) as u8
            })
            .collect()
    }

    /// Waits until the screen fulfils a condition.
    fn until(&self, what: &str, holds: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let since = Instant::now();
        loop {
            let pixels = self.pixels();
            if holds(&pixels) {
                return pixels;
            }
            assert!(since.elapsed() < PATIENCE, "{what}: it never came");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the screen has not changed for 1.5 seconds.
    fn still(&self) -> Vec<u8> {
        let since = Instant::now();
        let mut last = self.pixels();
        let mut same = Instant::now();
        while same.elapsed() < Duration::from_millis(1500) {
            std::thread::sleep(Duration::from_millis(100));
            let now = self.pixels();
            if now != last {
                same = Instant::now();
                last = now;
            }
            assert!(since.elapsed() < PATIENCE, "the screen is never still");
        }
        self.keep(&last);
        last
    }

    /// Copies the screen into RANKSCOPE_TEST_PICTURES for inspection, if that is set.
    fn keep(&self, _pixels: &[u8]) {
        if let Some(directory) = std::env::var_os("RANKSCOPE_TEST_PICTURES") {
            let directory = PathBuf::from(directory);
            let number = fs::read_dir(&directory).map_or(0, Iterator::count);
            let _ = fs::copy(&self.file, directory.join(format!("screen-{number}.xwd")));
        }
    }

    fn xdotool(&self, arguments: &[&str]) -> String {
        let output = Command::new("xdotool")
            .args(arguments)
            .env("DISPLAY", &self.display)
            .output()
            .expect("xdotool");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn press(&self, key: &str) {
        self.xdotool(&["key", key]);
    }

    fn open(&self, run: &Path, home: &Path, options: &[&str]) -> (Running, String) {
        let child = Command::new(env!("CARGO_BIN_EXE_rankscope-viewer"))
            .arg(run)
            .args(options)
            .args(["--size", "1300x850"])
            .env("DISPLAY", &self.display)
            .env_remove("WAYLAND_DISPLAY")
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .env("HOME", home)
            .env("XDG_DATA_HOME", home.join("data"))
            .stdin(Stdio::null())
            .spawn()
            .expect("the viewer");
        let child = Running(child);
        let since = Instant::now();
        let window = loop {
            let found = self.xdotool(&["search", "--onlyvisible", "--name", "^rankscope$"]);
            if let Some(first) = found.lines().next() {
                break first.to_owned();
            }
            assert!(since.elapsed() < PATIENCE, "no window came");
            std::thread::sleep(Duration::from_millis(100));
        };
        self.xdotool(&["windowfocus", "--sync", &window]);
        (child, window)
    }
}

/// Returns the CPU time of a process, in clock ticks.
fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it lives");
    let after = stat.rsplit_once(')').expect("a name").1;
    let fields: Vec<&str> = after.split_whitespace().collect();
    fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
}

fn differing(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).filter(|(one, other)| one != other).count()
}

fn mean(pixels: &[u8]) -> u64 {
    pixels.iter().map(|&pixel| u64::from(pixel)).sum::<u64>() / pixels.len().max(1) as u64
}

/// Returns the upper half of the screen.
fn timeline(pixels: &[u8]) -> &[u8] {
    &pixels[..pixels.len() / 2]
}

#[test]
fn a_window_is_used_closed_and_reopened_in_the_same_state() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(run) = support::gloo(&directory.path().join("run")) else {
        return;
    };
    let screen_directory = directory.path().join("screen");
    let home = directory.path().join("home");
    fs::create_dir_all(&screen_directory).expect("made");
    fs::create_dir_all(&home).expect("made");
    let Some(screen) = Screen::start(&screen_directory) else {
        return;
    };
    let (viewer, _) = screen.open(&run, &home, &[]);
    screen.until("the first picture", |pixels| {
        pixels.iter().filter(|&&pixel| pixel > 60).count() > 20_000
    });
    let whole = screen.still();

    // Without input, the viewer uses no CPU time.
    let before = ticks(viewer.0.id());
    std::thread::sleep(Duration::from_secs(10));
    let spent = ticks(viewer.0.id()) - before;
    assert!(spent <= 1, "{spent} ticks in ten seconds without input");
    assert_eq!(differing(&whole, &screen.pixels()), 0);

    // Zoom in, and back again.
    screen.press("period");
    let picked = screen.still();
    assert!(differing(&whole, &picked) > 1000, "nothing was picked");
    screen.press("f");
    let near = screen.still();
    assert!(differing(&picked, &near) > 20_000, "it was not shown closely");
    screen.press("ctrl+z");
    screen.press("Escape");
    let back = screen.still();
    // The drawer marks the rank now, so only the timeline is compared.
    let changed_pixels = differing(timeline(&whole), timeline(&back));
    assert!(changed_pixels < 3000, "{changed_pixels} pixels are not as before");
    // The help shows all keys.
    screen.press("question");
    let help = screen.still();
    assert!(differing(&back, &help) > 50_000, "no help came");
    screen.press("Escape");
    screen.still();
    // Switch to the light theme and close the drawer; both must be kept.
    screen.press("t");
    let dark = mean(&whole);
    screen.until("the light theme", |pixels| mean(pixels) > dark + 60);
    let light = screen.still();
    screen.press("b");
    let without_drawer = screen.still();
    assert!(differing(&light, &without_drawer) > 5000);

    screen.press("ctrl+q");
    let since = Instant::now();
    let mut viewer = viewer;
    while viewer.0.try_wait().expect("its state").is_none() {
        assert!(since.elapsed() < PATIENCE, "the window does not close");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (_again, _) = screen.open(&run, &home, &[]);
    let light_again = screen.until("the same window", |pixels| {
        mean(pixels) + 25 > mean(&without_drawer)
    });
    drop(light_again);
    let again = screen.still();
    assert!(
        differing(&again, &without_drawer) < without_drawer.len() / 20,
        "{} of {} pixels differ from how it was left",
        differing(&again, &without_drawer),
        again.len()
    );
}

/// While a run is recorded, the window shows more and more of it without input, and all of it at its end.
#[test]
fn a_growing_run_is_followed_to_its_end() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let run = directory.path().join("run");
    let screen_directory = directory.path().join("screen");
    let home = directory.path().join("home");
    fs::create_dir_all(&screen_directory).expect("made");
    fs::create_dir_all(&home).expect("made");
    fs::create_dir_all(&run).expect("made");
    let Some(screen) = Screen::start(&screen_directory) else {
        return;
    };
    let (viewer, _) = screen.open(&run, &home, &["--follow"]);
    let recording = {
        let run = run.clone();
        std::thread::spawn(move || support::gloo_for(&run, 400, 10_000).is_some())
    };
    // Operations of the four ranks appear, and more and more of them.
    let first = screen.until("the first operations", |pixels| coloured(pixels) > 20_000);
    let since = Instant::now();
    let mut changes = 0;
    let mut last = first;
    while !recording.is_finished() && since.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(400));
        let now = screen.pixels();
        changes += usize::from(differing(&last, &now) > 200);
        last = now;
    }
    if !recording.join().expect("the job") {
        return;
    }
    assert!(
        changes >= 3,
        "the window changed {changes} times while the job ran"
    );
    screen.still();
    drop(viewer);
    // The viewer removed its own session. The run directory contains only the recording and its merge.
    let mut names: Vec<String> = fs::read_dir(&run)
        .expect("the run")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(names.iter().all(|name| !name.contains("follow")), "{names:?}");
}

/// Counts pixels that are neither dark nor light grey.
fn coloured(pixels: &[u8]) -> usize {
    pixels.iter().filter(|&&pixel| (70..180).contains(&pixel)).count()
}
