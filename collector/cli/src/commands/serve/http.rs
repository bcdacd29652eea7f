//! The HTTP server: one thread, which answers from the last readings.

use super::published::Published;
use super::token::Token;
use crate::commands::print;
use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rankscope_live::metrics::exposition::{OPENMETRICS, PROMETHEUS};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

const PLAIN: &str = "text/plain; charset=utf-8";
const INDEX: &str = "\
rankscope: metrics of a running job
  /metrics   for Prometheus, in the OpenMetrics or the Prometheus text format
  /top.json  the figures of the last seconds, as of rankscope top --once --json
";

/// Starts the server on a thread of its own, which ends only if it fails.
pub fn start(
    listener: TcpListener,
    token: Option<Token>,
    published: Arc<Published>,
) -> Result<JoinHandle<()>> {
    listener
        .set_nonblocking(true)
        .context("cannot prepare the listening socket")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("cannot start the server")?;
    let routes = Router::new()
        .route("/", get(|| async { ([(CONTENT_TYPE, PLAIN)], INDEX) }))
        .route("/metrics", get(metrics))
        .route("/top.json", get(top))
        .with_state(published)
        .layer(middleware::from_fn_with_state(Arc::new(token), authorise));
    let serve = move || {
        let outcome = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, routes).await
        });
        if let Err(error) = outcome {
            print::message(&format!("metrics are no longer served: {error}"));
        }
    };
    thread::Builder::new()
        .name("http".to_owned())
        .spawn(serve)
        .context("cannot start the server's thread")
}

async fn authorise(State(token): State<Arc<Option<Token>>>, request: Request<Body>, next: Next) -> Response {
    let header = request.headers().get(AUTHORIZATION);
    let given = header.and_then(|value| value.to_str().ok());
    match token.as_ref() {
        Some(token) if !token.allows(given) => {
            let headers = [(WWW_AUTHENTICATE, "Bearer"), (CONTENT_TYPE, PLAIN)];
            (
                StatusCode::UNAUTHORIZED,
                headers,
                "a token is needed: --token-file\n",
            )
                .into_response()
        }
        _ => next.run(request).await,
    }
}

async fn metrics(State(published): State<Arc<Published>>, headers: HeaderMap) -> Response {
    let metrics = published.metrics();
    let mut accepted = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    match accepted.any(|accepted| accepted.contains("application/openmetrics-text")) {
        true => ([(CONTENT_TYPE, OPENMETRICS)], metrics.openmetrics.clone()).into_response(),
        false => ([(CONTENT_TYPE, PROMETHEUS)], metrics.prometheus.clone()).into_response(),
    }
}

async fn top(State(published): State<Arc<Published>>) -> Response {
    match published.document() {
        Some(document) => ([(CONTENT_TYPE, "application/json")], document.to_string()).into_response(),
        None => {
            let headers = [(CONTENT_TYPE, PLAIN)];
            (
                StatusCode::SERVICE_UNAVAILABLE,
                headers,
                "the job has no records yet\n",
            )
                .into_response()
        }
    }
}
