//! HTTP for tests: requests, and a server that keeps what it gets.

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Returns status and body of a GET request with these headers; `None` if nobody answers.
pub fn get(url: &str, headers: &[(&str, &str)]) -> Option<(u16, String)> {
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(20)))
        .build()
        .new_agent();
    let request = headers.iter().fold(agent.get(url), |request, (name, value)| {
        request.header(*name, *value)
    });
    let mut response = request.call().ok()?;
    let body = response.body_mut().read_to_string().ok()?;
    Some((response.status().as_u16(), body))
}

/// A port that nobody listens at.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// A server that keeps the JSON that is posted to it.
#[derive(Debug)]
pub struct Mailbox {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Value>>>,
}

impl Mailbox {
    /// Starts the server. It ends with the test program.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener
            .set_nonblocking(true)
            .expect("a socket that does not block");
        let mailbox = Self {
            address: listener.local_addr().expect("an address"),
            received: Arc::default(),
        };
        let received = Arc::clone(&mailbox.received);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let routes = Router::new().route("/{*any}", post(keep)).with_state(received);
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                axum::serve(listener, routes).await
            })
        });
        mailbox
    }

    /// Returns the URL to post to.
    pub fn url(&self) -> String {
        format!("http://{}/services/secret", self.address)
    }

    /// Returns what was posted.
    pub fn received(&self) -> Vec<Value> {
        self.received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn keep(State(received): State<Arc<Mutex<Vec<Value>>>>, body: String) {
    let value = serde_json::from_str(&body).unwrap_or(Value::String(body));
    received
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(value);
}
