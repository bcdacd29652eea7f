//! A real browser without a window, driven by the DevTools protocol over two pipes. Nothing in it is reachable from
//! outside.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(120);
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A browser with one page.
pub struct Browser {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// Messages above the level of information in its console or log since the page was opened.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser. Returns `None` if none is installed.
    pub fn start() -> Option<Self> {
        let name = NAMES.into_iter().find(|name| {
            let found = Command::new(name).arg("--version").output();
            found.is_ok_and(|found| found.status.success())
        })?;
        let profile = tempfile::tempdir().expect("a directory for the browser");
        // The protocol uses descriptors 3 and 4. A shell moves the pipes there.
        let mut process = Command::new("sh")
            .args([
                "-c",
                r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#,
                "sh",
                name,
            ])
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let to = process.stdin.take().expect("piped");
        let mut out = BufReader::new(process.stdout.take().expect("piped"));
        let (sender, from) = channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else {
                    break;
                };
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            process,
            to,
            from,
            session: None,
            last: 0,
            complaints: Vec::new(),
            _profile: profile,
        };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.ask(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Opens a file and waits until it is loaded.
    pub fn open(&mut self, page: &Path) {
        self.complaints.clear();
        let url = format!("file://{}", page.display());
        let opened = self.ask("Page.navigate", json!({"url": url}));
        assert!(opened.get("errorText").is_none(), "{url}: {opened}");
        self.wait_for("Page.loadEventFired");
    }

    /// Returns the value of an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.ask(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Emulates a medium, a width and a colour scheme.
    pub fn emulate(&mut self, medium: &str, width: u32, scheme: &str) {
        self.ask(
            "Emulation.setEmulatedMedia",
            json!({"media": medium, "features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false}),
        );
    }

    /// Prints the page and returns it as base64 of a PDF.
    pub fn print(&mut self) -> String {
        let printed = self.ask(
            "Page.printToPDF",
            json!({"preferCSSPageSize": true, "printBackground": true}),
        );
        printed["data"].as_str().expect("a document").to_owned()
    }

    /// Sends a request and waits for the answer.
    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut question = json!({"id": self.last, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            question["sessionId"] = json!(session);
        }
        let mut bytes = question.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser listens");
        loop {
            let message = self.next(method);
            if message["id"] == json!(self.last) {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    fn wait_for(&mut self, event: &str) {
        while self.next(event)["method"] != json!(event) {}
    }

    fn next(&mut self, awaited: &str) -> Value {
        let message = self.from.recv_timeout(PATIENCE);
        let message = message.unwrap_or_else(|error| panic!("no answer to {awaited}: {error}"));
        let parameters = &message["params"];
        let complaint = match message["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Network.loadingFailed") => Some(parameters.to_string()),
            Some("Runtime.consoleAPICalled") => Some(parameters["args"].to_string()),
            Some("Log.entryAdded") => Some(parameters["entry"]["text"].to_string()),
            // Only the page itself may be fetched.
            Some("Network.requestWillBeSent") => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                let is_own = url.starts_with("file://") || url.starts_with("data:") || url == "about:blank";
                (!is_own || parameters["type"] != "Document" && !url.starts_with("data:"))
                    .then(|| format!("fetched {url}"))
            }
            _ => None,
        };
        self.complaints.extend(complaint);
        message
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser's children end with it.
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..100 {
            if matches!(self.process.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
