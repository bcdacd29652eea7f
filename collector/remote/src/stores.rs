//! One client per bucket, with the credentials of the environment.

use crate::address::{Address, Protocol};
use crate::credentials::{aws, azure};
use crate::error::RemoteError;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time limit to connect. A wrong address must not look like a slow one.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time limit of a request with its body. No request moves more than 8 MiB.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);
/// Number of repetitions of a request that failed, and the time limit of all of them together.
const RETRIES: (usize, Duration) = (8, Duration::from_secs(120));
/// First and longest pause before a repetition.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(4));

/// Clients by protocol and bucket.
#[derive(Default)]
pub struct Clients(Mutex<HashMap<(Protocol, String), Arc<dyn ObjectStore>>>);

/// Returns the client of a bucket.
pub fn store(address: &Address) -> Result<Arc<dyn ObjectStore>, RemoteError> {
    let key = (address.protocol, address.bucket.clone());
    // The map is consistent even if a thread panicked while it held the lock.
    let mut clients = crate::state()
        .stores
        .0
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(client) = clients.get(&key) {
        return Ok(Arc::clone(client));
    }
    let client = connect(address)?;
    clients.insert(key, Arc::clone(&client));
    Ok(client)
}

/// Makes a client. Sends nothing.
fn connect(address: &Address) -> Result<Arc<dyn ObjectStore>, RemoteError> {
    let unusable = |error: object_store::Error| {
        RemoteError::Configuration(format!("cannot use the bucket {}: {error}", address.bucket))
    };
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: PAUSES.0,
            max_backoff: PAUSES.1,
            base: 2.0,
        },
        max_retries: RETRIES.0,
        retry_timeout: RETRIES.1,
    };
    let options = |is_http: bool| {
        ClientOptions::new()
            .with_connect_timeout(CONNECT_LIMIT)
            .with_timeout(REQUEST_LIMIT)
            .with_allow_http(is_http)
    };
    // The builders have the same methods, but no trait in common.
    macro_rules! build {
        ($builder:expr, $is_http:expr) => {
            Arc::new(
                $builder
                    .with_client_options(options($is_http))
                    .with_retry(retry)
                    .build()
                    .map_err(unusable)?,
            )
        };
    }
    let bucket = &address.bucket;
    Ok(match address.protocol {
        Protocol::S3 => {
            let builder = aws::complete(AmazonS3Builder::from_env())?.with_bucket_name(bucket);
            // A user who writes an endpoint without TLS wants none, as with the vendor's tools.
            let is_http = aws::endpoint(&builder).is_some_and(|endpoint| endpoint.starts_with("http://"));
            build!(builder, is_http)
        }
        Protocol::Google => {
            let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
            let is_http = std::env::var("GOOGLE_BASE_URL").is_ok_and(|url| url.starts_with("http://"));
            build!(builder, is_http)
        }
        Protocol::Azure => {
            let builder = azure::complete(MicrosoftAzureBuilder::from_env(), bucket)?;
            let is_http = azure::is_http(&builder);
            build!(builder, is_http)
        }
    })
}
