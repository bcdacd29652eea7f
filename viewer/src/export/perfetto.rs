//! Export of the visible range for ui.perfetto.dev. `rankscope export` writes the trace; the viewer can open it in the
//! page.
//!
//! The page may fetch files from one local address, 127.0.0.1:9001. The viewer serves the trace there until the page
//! has fetched it. The trace never leaves this machine.

use super::file_server::{Ended, FileServer, Patience};
use crate::model::{Window, moment_text};
use crate::open::program;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Local address from which the page may fetch a file.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9001);

/// Address of the page.
const PAGE: &str = "https://ui.perfetto.dev";

/// How long the trace is served.
const PATIENCE: Patience = Patience {
    fetched: Duration::from_secs(30),
    unfetched: Duration::from_secs(300),
};

/// Time that a stopped server may take to release the port.
const PORT_TIME: Duration = Duration::from_secs(2);

/// A trace to write.
#[derive(Clone, Debug)]
pub struct TraceJob {
    /// Directory of the session.
    pub session: PathBuf,
    /// Time span of the whole session, in nanoseconds on its axis.
    pub whole: Window,
    /// Time span to write.
    pub window: Window,
    /// File to write.
    pub output: PathBuf,
}

/// A trace that is being written, or served for the page. Dropping it stops the server.
#[derive(Debug)]
pub struct Serving {
    stop: Arc<AtomicBool>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl TraceJob {
    /// Writes the trace on a background thread. Calls `notify` with messages for the user.
    pub fn write(self, notify: impl Fn(String) + Send + 'static) {
        thread::spawn(move || match self.made() {
            Ok(made) => notify(made),
            Err(why) => notify(why),
        });
    }

    /// Writes the trace and opens it in the page, on a background thread. Calls `notify` with messages for the user.
    #[must_use = "the server ends when this is dropped"]
    pub fn open(self, notify: impl Fn(String) + Send + Sync + 'static) -> Serving {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::spawn(move || match self.made() {
            Ok(made) => {
                notify(made);
                if !stopped.load(Ordering::Relaxed) {
                    show(&self.output, ADDRESS, &stopped, browse, &notify);
                }
            }
            Err(why) => notify(why),
        });
        Serving { stop }
    }

    /// Writes the trace. Returns a message for the user in both cases.
    fn made(&self) -> Result<String, String> {
        let arguments = self.arguments()?;
        let arguments: Vec<&std::ffi::OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        let answer = program(&arguments).map_err(|why| format!("Cannot write the trace: {why}"))?;
        Ok(self.summary(&answer))
    }

    /// Returns the arguments for `rankscope`.
    fn arguments(&self) -> Result<Vec<OsString>, String> {
        let mut arguments: Vec<OsString> = ["export", "--perfetto", "--json"].map(OsString::from).into();
        arguments.push(self.session.clone().into_os_string());
        let from_ns = self.window.from_ns.max(self.whole.from_ns);
        let to_ns = self.window.to_ns.min(self.whole.to_ns);
        if from_ns >= to_ns {
            return Err("Cannot write the trace: nothing is visible".to_owned());
        }
        // A side on which everything is visible stays open. The last record is at the very end, and a range excludes
        // its end.
        let from = (from_ns > self.whole.from_ns && from_ns > 0).then(|| format!("{from_ns}ns"));
        let to = (to_ns < self.whole.to_ns && to_ns > 0).then(|| format!("{to_ns}ns"));
        if from.is_some() || to.is_some() {
            let range = format!("{}..{}", from.unwrap_or_default(), to.unwrap_or_default());
            arguments.extend([OsString::from("--range"), OsString::from(range)]);
        }
        arguments.extend([OsString::from("-o"), self.output.clone().into_os_string()]);
        Ok(arguments)
    }

    /// Returns the JSON answer of `rankscope` as a message.
    fn summary(&self, answer: &str) -> String {
        let answer: serde_json::Value = serde_json::from_str(answer).unwrap_or_default();
        let mut text = format!("Saved {}", self.output.display());
        if let Some(cut) = answer["cut_off_ns"].as_i64() {
            let pixel_ns = (self.window.length_ns() / 1000).max(1);
            text.push_str(&format!(
                "; some ranks are cut off at {}, because the trace would be too large",
                moment_text(cut, pixel_ns)
            ));
        }
        text
    }
}

/// Serves a trace and opens the page. Returns when the server ends.
fn show(
    file: &Path,
    address: SocketAddr,
    stop: &AtomicBool,
    browse: impl FnOnce(&str) -> Result<(), String>,
    notify: &(impl Fn(String) + Sync),
) {
    let name = file
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let server = match listen(address, stop) {
        Ok(server) => server,
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            notify(format!(
                "Port {} is in use by another program. Open {} at {PAGE} with 'Open trace file'",
                address.port(),
                file.display()
            ));
            return;
        }
        Err(error) => {
            notify(format!(
                "Cannot listen at {address}: {error}. Open {} at {PAGE} with 'Open trace file'",
                file.display()
            ));
            return;
        }
    };
    let url = url(server.address(), &name);
    // The server accepts connections after the page was opened. The system queues earlier ones.
    match browse(&url) {
        Ok(()) => notify(format!(
            "Opening {url}; if the browser asks, allow it to access this machine. The trace is {}",
            file.display()
        )),
        Err(why) => notify(format!(
            "{why}. Within five minutes, open {url} on this machine. The trace is {}",
            file.display()
        )),
    }
    let fetched = || notify(format!("ui.perfetto.dev has loaded {name}"));
    let ended = server.serve(file, &name, PAGE, PATIENCE, stop, fetched);
    if ended == Ended::Unfetched {
        notify(format!(
            "ui.perfetto.dev did not request the trace. Open {} there with 'Open trace file'",
            file.display()
        ));
    }
}

/// Binds the server. The previous server may still use the port, so it retries for a short time.
fn listen(address: SocketAddr, stop: &AtomicBool) -> std::io::Result<FileServer> {
    let until = Instant::now() + PORT_TIME;
    loop {
        match FileServer::bind(address) {
            Err(error)
                if error.kind() == ErrorKind::AddrInUse
                    && Instant::now() < until
                    && !stop.load(Ordering::Relaxed) =>
            {
                thread::sleep(Duration::from_millis(50));
            }
            outcome => return outcome,
        }
    }
}

/// Returns the address to open in a browser. `name` needs no escaping, because it is from [`super::free_name`].
fn url(address: SocketAddr, name: &str) -> String {
    format!("{PAGE}/#!/?url=http://{address}/{name}")
}

/// Opens an address in the browser of the desktop.
fn browse(url: &str) -> Result<(), String> {
    let is_desktop = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    // Without a desktop, xdg-open would start a text browser in the terminal of the viewer.
    if !is_desktop {
        return Err("There is no desktop on which to open a browser".to_owned());
    }
    let mut child = Command::new("xdg-open")
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("Cannot start xdg-open: {error}"))?;
    // xdg-open fails at once if it finds no browser. If it becomes the browser itself, it runs as long as the browser.
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(_)) | Err(_) => return Err("xdg-open found no browser".to_owned()),
            Ok(None) => thread::sleep(Duration::from_millis(50)),
        }
    }
    thread::spawn(move || child.wait());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_analysis::model::time_range::TimeRange;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Mutex;

    fn job(window: Window) -> TraceJob {
        TraceJob {
            session: PathBuf::from("/runs/a/session"),
            whole: Window::between(0, 10_000_000_000),
            window,
            output: PathBuf::from("/runs/a/view-1.pftrace"),
        }
    }

    fn texts(window: Window) -> Vec<String> {
        let arguments = job(window).arguments().expect("something to write");
        arguments
            .into_iter()
            .map(|argument| argument.into_string().expect("letters"))
            .collect()
    }

    #[test]
    fn the_exported_range_is_the_visible_range() {
        let arguments = texts(Window::between(1_234_567_891, 2_000_000_001));
        assert_eq!(
            arguments,
            [
                "export",
                "--perfetto",
                "--json",
                "/runs/a/session",
                "--range",
                "1234567891ns..2000000001ns",
                "-o",
                "/runs/a/view-1.pftrace"
            ]
        );
        let range: TimeRange = arguments[5].parse().expect("a range");
        assert_eq!(
            (range.from_ns, range.to_ns),
            (Some(1_234_567_891), Some(2_000_000_001))
        );
        // A side on which everything is visible stays open.
        assert!(
            texts(Window::between(-500, 20_000_000_000))
                .iter()
                .all(|text| text != "--range")
        );
        assert!(texts(Window::between(5, 10_000_000_000)).contains(&"5ns..".to_owned()));
        assert!(texts(Window::between(-5, 7_000)).contains(&"..7000ns".to_owned()));
        let beyond = job(Window::between(20_000_000_000, 30_000_000_000));
        assert!(
            beyond
                .arguments()
                .is_err_and(|why| why.contains("nothing is visible"))
        );
    }

    #[test]
    fn truncated_ranks_are_reported() {
        let job = job(Window::between(0, 10_000_000_000));
        assert_eq!(
            job.summary(r#"{"cut_off_ns": null, "bytes": 3}"#),
            "Saved /runs/a/view-1.pftrace"
        );
        let cut = job.summary(r#"{"cut_off_ns": 1500000000}"#);
        assert!(cut.contains("cut off at") && cut.contains("1.5"), "{cut}");
        assert_eq!(job.summary("nonsense"), "Saved /runs/a/view-1.pftrace");
    }

    #[test]
    fn the_page_gets_the_address_of_the_trace_and_fetches_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("view-3.pftrace");
        std::fs::write(&file, "a trace").expect("written");
        let stop = AtomicBool::new(false);
        let messages = Mutex::new(Vec::new());
        let asked = Mutex::new(None);
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        thread::scope(|scope| {
            // Like a browser: the request arrives later than the call.
            let browse = |url: &str| {
                let (page, of) = url.split_once("/#!/?url=").expect("a page and a file");
                assert_eq!(page, "https://ui.perfetto.dev");
                let of = of.strip_prefix("http://").expect("plain").to_owned();
                let (asked, stop) = (&asked, &stop);
                scope.spawn(move || {
                    let (host, name) = of.split_once('/').expect("an address and a name");
                    let mut stream = TcpStream::connect(host).expect("connected");
                    let request = format!("GET /{name} HTTP/1.1\r\nHost: {host}\r\n\r\n");
                    stream.write_all(request.as_bytes()).expect("sent");
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).expect("an answer");
                    *asked.lock().expect("no panic") = Some((name.to_owned(), answer));
                    // The server counts the fetch slightly later.
                    thread::sleep(Duration::from_millis(300));
                    stop.store(true, Ordering::SeqCst);
                });
                Ok(())
            };
            show(&file, anywhere, &stop, browse, &|text| {
                messages.lock().expect("no panic").push(text);
            });
        });
        let (name, answer) = asked.into_inner().expect("no panic").expect("it came");
        assert_eq!(name, "view-3.pftrace");
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\na trace"),
            "{answer}"
        );
        let messages = messages.into_inner().expect("no panic");
        assert!(
            messages[0].starts_with("Opening https://ui.perfetto.dev/#!/?url=http://127.0.0.1:"),
            "{messages:?}"
        );
        assert_eq!(
            messages.last().map(String::as_str),
            Some("ui.perfetto.dev has loaded view-3.pftrace")
        );
    }

    #[test]
    fn errors_of_the_port_and_the_browser_name_the_trace() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("view-1.pftrace");
        std::fs::write(&file, "a trace").expect("written");
        let messages = Mutex::new(Vec::new());
        let notify = |text| messages.lock().expect("no panic").push(text);
        let other = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let taken = other.local_addr().expect("an address");
        let stop = AtomicBool::new(false);
        show(&file, taken, &stop, |_| panic!("nothing is opened"), &notify);
        // A server that was stopped in advance returns at once.
        let stop = AtomicBool::new(true);
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        show(
            &file,
            anywhere,
            &stop,
            |_| Err("xdg-open found no browser".to_owned()),
            &notify,
        );
        let messages = messages.lock().expect("no panic");
        let path = file.display().to_string();
        assert!(
            messages[0].contains("is in use") && messages[0].contains(&path),
            "{messages:?}"
        );
        assert!(
            messages[1].contains("no browser")
                && messages[1].contains("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:"),
            "{messages:?}"
        );
        assert_eq!(messages.len(), 2);
    }
}
