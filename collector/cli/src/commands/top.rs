//! `rankscope top`: the screen of a running job. Reading happens on another thread, so that keys are always answered.

use super::{Exit, print};
use crate::launch::companion::{Behind, run_behind_the_job};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rankscope_analysis::MergeError;
use rankscope_analysis::ingest::IngestError;
use rankscope_analysis::model::time_range::time_ns;
use rankscope_live::top::columns::Column;
use rankscope_live::top::document::{self, TopDocument};
use rankscope_live::top::draw::{Shown, Theme, draw, text};
use rankscope_live::top::filter::Filter;
use rankscope_live::top::reading::{TopReader, is_empty, next_read};
use rankscope_live::top::view::{Key, RowsOf, View};
use rankscope_live::window::WindowError;
use rankscope_report::TextLayout;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;
use ratatui::{DefaultTerminal, try_init, try_restore};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const EXAMPLES: &str = "\
Examples:
  rankscope top shared/run1                        watch the last ten seconds, once a second; ? shows the keys
  rankscope top shared/run1 --window 30s --by host sums per host over the last thirty seconds
  rankscope top shared/run1 --once                 print one screen as text
  rankscope top shared/run1 --once --json | jq '.ranks[] | {name, in_call_for_ns}'

Exit status: 0 success, 2 wrong usage or unreadable input, 3 nothing of the job was seen yet (with --once).";

/// Size of the text of `--once` where no terminal states one.
const COLUMNS: usize = 110;
const LINES: usize = 40;

/// Longest time until a key, a signal or new figures are noticed.
const PATIENCE: Duration = Duration::from_millis(50);

/// Watch a running job: late ranks, waits, step rate, bandwidth, memory, warnings. All figures are of the last seconds,
/// with the definitions of the report.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Top {
    /// Directory of the run, or one per node. They may still be empty.
    #[arg(value_name = "DIR", required_unless_present = "schema")]
    directories: Vec<PathBuf>,

    /// Length of the part of the run that the figures describe, for example 30s.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = length_ns)]
    window: i64,

    /// Read at most about N records at a time, over all ranks. The screen states it if the window is therefore shorter
    /// (default: 200000, and at least 100 per rank).
    #[arg(long, value_name = "N")]
    records: Option<u64>,

    /// Time between two reads. It is longer if a read takes more than a third of it.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = length_ns)]
    interval: i64,

    /// Rows of the table. Hosts are the default for more than 64 ranks on several hosts.
    #[arg(long, value_name = "ROWS")]
    by: Option<By>,

    /// Column by which rows are sorted: caused, last, wait, exposed, ops, memory, cpu, call or name.
    #[arg(long, value_name = "COLUMN", default_value = "caused")]
    sort: Column,

    /// Show only these rows: a part of a name, host or state, or ranks such as 0-63,128.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,

    /// Print one screen as text and exit.
    #[arg(long)]
    once: bool,

    /// Print all figures as JSON.
    #[arg(long, requires = "once")]
    json: bool,

    /// Print the JSON Schema of the output of --json.
    #[arg(long, conflicts_with_all = ["once", "json"])]
    schema: bool,
}

/// Rows of the table.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    Rank,
    Host,
}

fn length_ns(text: &str) -> Result<i64, String> {
    let length = time_ns(text).filter(|&ns| ns > 0);
    length.ok_or_else(|| format!("'{text}' is not a duration; write it as 10s or 500ms"))
}

impl Top {
    pub fn run(self) -> Result<Exit> {
        if self.schema {
            print::json(&document::schema())?;
            return Ok(Exit::Fine);
        }
        for directory in &self.directories {
            if !directory.exists() {
                bail!("directory not found: {}", directory.display());
            }
        }
        run_behind_the_job(Behind::Last);
        let reader = TopReader::new(self.directories.clone(), self.window, self.records);
        if self.once {
            return self.once(reader);
        }
        if !io::stdout().is_terminal() {
            bail!("standard output is not a terminal; --once prints one screen");
        }
        self.watch(reader)
    }

    fn view(&self) -> View {
        View {
            rows_of: self.by.map(|by| match by {
                By::Rank => RowsOf::Ranks,
                By::Host => RowsOf::Hosts,
            }),
            sort: self.sort,
            filter: Filter::new(&self.filter),
            ..View::default()
        }
    }

    fn name(&self) -> String {
        let names: Vec<String> = self
            .directories
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        names.join(" ")
    }

    fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval.unsigned_abs())
    }

    /// Prints one screen.
    fn once(&self, mut reader: TopReader) -> Result<Exit> {
        let document = match reader.read() {
            Ok(document) if !is_empty(&document) => document,
            Ok(_) => {
                print::message("nothing of the job was seen yet: its logs have no records");
                return Ok(Exit::Inconclusive);
            }
            Err(error) if has_no_log(&error) => {
                print::message(&format!("nothing of the job was seen yet: {error}"));
                return Ok(Exit::Inconclusive);
            }
            Err(error) => return Err(error.into()),
        };
        if self.json {
            print::json(&document)?;
            return Ok(Exit::Fine);
        }
        let size = if io::stdout().is_terminal() {
            terminal::size().ok()
        } else {
            None
        };
        let (width, height) = size.map_or((COLUMNS, LINES), |(width, height)| {
            (usize::from(width), usize::from(height).saturating_sub(1))
        });
        let (name, view) = (self.name(), self.view());
        let shown = Shown {
            age: age(&document),
            document: Some(&document),
            view: &view,
            run: &name,
            interval: self.interval(),
            problem: None,
            has_keys: false,
            theme: Theme::default(),
        };
        print::text(&text(width, height, &shown))?;
        Ok(Exit::Fine)
    }

    /// Shows the screen until the user quits.
    fn watch(&self, reader: TopReader) -> Result<Exit> {
        let is_ended = Arc::new(AtomicBool::new(false));
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&is_ended)).context("cannot handle signals")?;
        }
        let interval = self.interval();
        let (sender, news) = channel();
        // The thread is not joined: the process ends while it may still read.
        thread::Builder::new()
            .name("read".to_owned())
            .spawn(move || read_on(reader, interval, &sender))
            .context("cannot start a thread")?;
        // At the end of its input, the library that reads keys does not return.
        thread::Builder::new()
            .name("terminal".to_owned())
            .spawn(end_with_the_terminal)
            .context("cannot start a thread")?;
        let terminal = try_init();
        let outcome = terminal
            .context("cannot use the terminal")
            .and_then(|terminal| self.show(terminal, &news, &is_ended));
        let restored = try_restore().context("cannot restore the terminal");
        outcome.and(restored)?;
        Ok(Exit::Fine)
    }

    fn show(
        &self,
        mut terminal: DefaultTerminal,
        news: &Receiver<News>,
        is_ended: &AtomicBool,
    ) -> Result<()> {
        let (name, mut view) = (self.name(), self.view());
        let theme = Theme {
            has_colours: TextLayout::of_stdout().colours,
        };
        let mut latest = Latest {
            document: None,
            problem: None,
            interval: self.interval(),
        };
        let mut page = 1;
        // The age changes although nothing else does.
        let mut is_due = true;
        let mut drawn = Instant::now();
        while !view.is_over && !is_ended.load(Ordering::Relaxed) {
            if !view.is_paused {
                is_due |= latest.take(news)?;
            }
            if is_due || drawn.elapsed() >= Duration::from_secs(1) {
                let shown = Shown {
                    document: latest.document.as_ref(),
                    view: &view,
                    run: &name,
                    age: latest.document.as_ref().map_or(Duration::ZERO, age),
                    interval: latest.interval,
                    problem: latest.problem.as_deref(),
                    has_keys: true,
                    theme,
                };
                terminal
                    .draw(|frame| page = draw(frame.area(), frame.buffer_mut(), &shown))
                    .context("cannot draw on the terminal")?;
                (is_due, drawn) = (false, Instant::now());
            }
            if event::poll(PATIENCE).context("cannot read keys")? {
                match event::read().context("cannot read keys")? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        if let Some(key) = key_of(key.code, key.modifiers) {
                            view.press(key, latest.document.as_ref(), page);
                        }
                    }
                    _ => {}
                }
                is_due = true;
            }
        }
        Ok(())
    }
}

/// Ends this process once the terminal is gone. There is nothing to restore then.
fn end_with_the_terminal() {
    while !has_hung_up() {
        thread::sleep(Duration::from_millis(500));
    }
    std::process::exit(0);
}

/// Returns true if the terminal is gone. A process whose session leader survives gets no signal then.
fn has_hung_up() -> bool {
    let mut output = libc::pollfd {
        fd: libc::STDOUT_FILENO,
        events: 0,
        revents: 0,
    };
    // SAFETY: the call gets one valid entry, and does not wait.
    let ready = unsafe { libc::poll(&raw mut output, 1, 0) };
    ready > 0 && output.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

fn has_no_log(error: &WindowError) -> bool {
    matches!(
        error,
        WindowError::Merge(MergeError::Ingest(IngestError::Empty(_)))
    )
}

/// Returns the time since the figures were read.
fn age(document: &TopDocument) -> Duration {
    let read = UNIX_EPOCH + Duration::from_nanos(document.read_unix_ns.max(0).unsigned_abs());
    SystemTime::now().duration_since(read).unwrap_or_default()
}

/// Result of a read, and the time between the starts of reads.
type News = (Result<TopDocument, WindowError>, Duration);

/// Reads until nobody receives the results.
fn read_on(mut reader: TopReader, interval: Duration, news: &Sender<News>) {
    loop {
        let started = Instant::now();
        let read = reader.read();
        let next = next_read(interval, started.elapsed());
        if news.send((read, next)).is_err() {
            return;
        }
        thread::sleep(next.saturating_sub(started.elapsed()));
    }
}

/// Newest figures.
struct Latest {
    document: Option<TopDocument>,
    problem: Option<String>,
    interval: Duration,
}

impl Latest {
    /// Takes what was read since the last call. Returns whether there is anything new. The last figures stay on the screen
    /// if a read fails.
    fn take(&mut self, news: &Receiver<News>) -> Result<bool> {
        let mut is_new = false;
        loop {
            match news.try_recv() {
                Ok((read, interval)) => {
                    is_new = true;
                    self.interval = interval;
                    match read {
                        Ok(document) => (self.document, self.problem) = (Some(document), None),
                        Err(error) => self.problem = Some(error.to_string()),
                    }
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => return Ok(is_new),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    bail!("the reading thread ended unexpectedly; please report this")
                }
            }
        }
    }
}

fn key_of(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    Some(match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(_) if modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => return None,
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
