//! Reports events of a running job to the user's command and webhook: hangs and warnings.

use super::print;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time limit of a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of one request to a webhook.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Pauses before the attempts to reach a webhook.
const ATTEMPTS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5)];
/// Maximum number of reports under way. Further ones are left out, with a message.
const MAX_UNDER_WAY: usize = 32;
/// Maximum time to wait for reports before the end.
const LAST_WAIT: Duration = Duration::from_secs(20);

/// Sends events.
#[derive(Default)]
pub struct Notifier {
    webhook: Option<Arc<str>>,
    commands: Vec<(Child, Instant)>,
    requests: Vec<JoinHandle<()>>,
}

impl Notifier {
    /// Creates a notifier that posts to this URL.
    pub fn new(webhook: Option<&str>) -> Self {
        Self {
            webhook: webhook.map(Arc::from),
            ..Self::default()
        }
    }

    /// Starts a shell command with the event on its input.
    pub fn run(&mut self, option: &str, command: &str, variables: &[(&str, OsString)], event: &Value) {
        if self.is_busy() {
            return;
        }
        let variables = variables.iter().map(|(name, value)| (OsStr::new(name), value));
        let started = Command::new("sh")
            .arg("-c")
            .arg(command)
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        match started {
            Ok(mut child) => {
                if let Some(mut input) = child.stdin.take() {
                    let json = serde_json::to_vec_pretty(event).unwrap_or_default();
                    // The command may not read its input.
                    thread::spawn(move || {
                        let _ = input.write_all(&json);
                    });
                }
                self.commands.push((child, Instant::now()));
            }
            Err(error) => print::message(&format!("the command of {option} could not be started: {error}")),
        }
    }

    /// Posts an event to the webhook, if there is one, on another thread.
    pub fn post(&mut self, event: &Value) {
        let Some(url) = self.webhook.clone() else { return };
        if self.is_busy() {
            return;
        }
        let body = event.to_string();
        self.requests.push(thread::spawn(move || {
            if let Err(error) = post(&url, &body) {
                // The path and the query of a webhook are a secret.
                let host = host_of(&url);
                print::message(&format!("the webhook at {host} could not be reached: {error}"));
            }
        }));
    }

    /// Forgets reports that are done, and ends commands that take too long.
    pub fn tidy(&mut self) {
        self.commands.retain_mut(|(command, started)| {
            let is_late = started.elapsed() > COMMAND_LIMIT;
            if is_late {
                let _ = command.kill();
            }
            !is_late && matches!(command.try_wait(), Ok(None))
        });
        self.requests.retain(|request| !request.is_finished());
    }

    /// Waits for reports under way. Those that take too long are given up.
    pub fn finish(mut self) {
        let started = Instant::now();
        loop {
            self.tidy();
            let is_done = self.commands.is_empty() && self.requests.is_empty();
            if is_done || started.elapsed() > LAST_WAIT.max(COMMAND_LIMIT) {
                return;
            }
            if self.commands.is_empty() && started.elapsed() > LAST_WAIT {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_busy(&mut self) -> bool {
        self.tidy();
        let is_busy = self.commands.len() + self.requests.len() >= MAX_UNDER_WAY;
        if is_busy {
            print::message("an event was not sent: too many commands and requests are under way");
        }
        is_busy
    }
}

/// Posts JSON, with some attempts.
fn post(url: &str, body: &str) -> Result<(), ureq::Error> {
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(REQUEST_LIMIT))
        .tls_config(
            ureq::tls::TlsConfig::builder()
                .root_certs(ureq::tls::RootCerts::PlatformVerifier)
                .build(),
        )
        .build()
        .new_agent();
    let mut outcome = Ok(());
    for pause in ATTEMPTS {
        thread::sleep(pause);
        let sent = agent.post(url).content_type("application/json").send(body);
        outcome = sent.map(drop);
        // Another attempt does not help against a refused request.
        if !matches!(&outcome, Err(error) if is_worth_another(error)) {
            break;
        }
    }
    outcome
}

fn is_worth_another(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::StatusCode(status) => *status >= 500 || *status == 429,
        ureq::Error::BadUri(_) => false,
        _ => true,
    }
}

/// Returns the host of a URL.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host.rsplit_once('@').map_or(host, |(_, host)| host)
}

/// Parses the URL of a webhook.
pub fn webhook(text: &str) -> Result<String, String> {
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    match is_web && !host_of(text).is_empty() {
        true => Ok(text.to_owned()),
        false => Err("it is a URL that begins with https:// or http://".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_shows_only_the_host_of_a_webhook() {
        assert_eq!(
            host_of("https://user:key@hooks.example.org/services/secret?x"),
            "hooks.example.org"
        );
        assert_eq!(host_of("http://127.0.0.1:80#x"), "127.0.0.1:80");
    }

    #[test]
    fn a_webhook_is_a_url_of_the_web() {
        assert!(webhook("https://hooks.example.org/a").is_ok());
        for text in ["", "hooks.example.org", "https://", "ftp://a/b"] {
            assert!(webhook(text).is_err(), "{text}");
        }
    }
}
