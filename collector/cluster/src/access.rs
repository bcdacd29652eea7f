//! Who may connect. A plan makes executors read and write files. So every request needs a token. A scheduler that other machines can
//! reach also needs certificates.

use anyhow::{Context, Result, bail};
use ballista_core::extension::EndpointOverrideFn;
use clap::Args;
use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, ServerTlsConfig};
use tonic::{Request, Status};

/// Environment variable with the token.
pub const TOKEN: &str = "RANKSCOPE_CLUSTER_TOKEN";
/// Header of a request with the token.
pub const HEADER: &str = "x-rankscope-token";
/// Minimum number of characters of a token.
const MIN_LENGTH: usize = 16;

/// Token and certificates.
#[derive(Clone, Debug, Default, Args)]
pub struct Access {
    /// File with the token that all processes of the cluster share: at least 16 characters. Default: the variable
    /// RANKSCOPE_CLUSTER_TOKEN.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate of the authority that signed the certificates of all processes (PEM). Needed if other machines connect.
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert", "tls_key"])]
    pub tls_ca: Option<PathBuf>,
    /// Certificate of this process (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_key: Option<PathBuf>,
}

impl Access {
    /// Reads the token.
    ///
    /// # Errors
    /// There is none, or it is too short to be a secret.
    pub fn token(&self) -> Result<Token> {
        let text = match &self.token_file {
            Some(path) => fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
            None => std::env::var(TOKEN).with_context(|| {
                format!("no token: name a file with --token-file, or set {TOKEN} (make one with `openssl rand -hex 32`)")
            })?,
        };
        Token::new(text.trim())
    }

    /// Refuses an address that other machines can reach, if there are no certificates.
    ///
    /// # Errors
    /// Text that names the options.
    pub fn check(&self, address: SocketAddr) -> Result<()> {
        if self.tls_ca.is_none() && !is_this_machine(address.ip()) {
            bail!(
                "{address} can be reached from other machines: give certificates with --tls-ca, --tls-cert and --tls-key, or use \
                 127.0.0.1"
            );
        }
        Ok(())
    }

    /// Returns the server's certificates. Clients must present theirs.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn server_tls(&self) -> Result<Option<ServerTlsConfig>> {
        let files = self.files()?;
        Ok(files.map(|(ca, identity)| ServerTlsConfig::new().identity(identity).client_ca_root(ca)))
    }

    /// Returns what changes a client's endpoint: certificates, if there are any.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn endpoint(&self) -> Result<Option<EndpointOverrideFn>> {
        let Some((ca, identity)) = self.files()? else {
            return Ok(None);
        };
        Ok(Some(Arc::new(move |endpoint: Endpoint| {
            let tls = ClientTlsConfig::new()
                .ca_certificate(ca.clone())
                .identity(identity.clone());
            Ok(endpoint.tls_config(tls)?)
        })))
    }

    /// Returns the URL of a scheduler.
    pub fn url(&self, scheduler: &str) -> String {
        let scheme = if self.tls_ca.is_some() { "https" } else { "http" };
        format!("{scheme}://{scheduler}")
    }

    fn files(&self) -> Result<Option<(Certificate, Identity)>> {
        let (Some(ca), Some(cert), Some(key)) = (&self.tls_ca, &self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        let identity = Identity::from_pem(read(cert)?, read(key)?);
        Ok(Some((Certificate::from_pem(read(ca)?), identity)))
    }
}

/// Returns true if only processes of this machine reach the address.
fn is_this_machine(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Returns the address of `HOST:PORT`.
///
/// # Errors
/// The text is no address, or the host is unknown.
pub fn resolve(text: &str) -> Result<SocketAddr> {
    let found = text.to_socket_addrs().map(|mut addresses| addresses.next());
    found
        .with_context(|| format!("not an address HOST:PORT: {text}"))?
        .with_context(|| format!("unknown host: {text}"))
}

/// Secret that all processes of a cluster share.
#[derive(Clone)]
pub struct Token(MetadataValue<Ascii>);

impl Token {
    fn new(text: &str) -> Result<Self> {
        if text.len() < MIN_LENGTH {
            bail!("the token has fewer than {MIN_LENGTH} characters; make one with `openssl rand -hex 32`");
        }
        let mut value: MetadataValue<Ascii> = text
            .parse()
            .context("the token has characters other than ASCII")?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// Returns the token as the value of a header.
    pub fn header(&self) -> String {
        self.0.to_str().unwrap_or_default().to_owned()
    }
}

/// Adds the token to the requests of a client.
#[derive(Clone)]
pub struct AddToken(pub Token);

impl Interceptor for AddToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert(HEADER, self.0.0.clone());
        Ok(request)
    }
}

/// Refuses requests without the token.
#[derive(Clone)]
pub struct RequireToken(pub Token);

impl Interceptor for RequireToken {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let shown = request
            .metadata()
            .get(HEADER)
            .map_or(&[][..], |value| value.as_bytes());
        // A comparison that ends at the first difference would reveal the token by its duration.
        if bool::from(shown.ct_eq(self.0.0.as_bytes())) {
            return Ok(request);
        }
        Err(Status::unauthenticated(
            "wrong or missing token; all processes of a cluster need the same",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_accepted() {
        let token = Token::new("0123456789abcdef").expect("a token");
        let mut required = RequireToken(token.clone());
        let asked = AddToken(token).call(Request::new(())).expect("a request");
        assert!(required.call(asked).is_ok());
        assert!(required.call(Request::new(())).is_err());
        let other = Token::new("0123456789abcdeg").expect("a token");
        assert!(
            required
                .call(AddToken(other).call(Request::new(())).expect("a request"))
                .is_err()
        );
        assert!(Token::new("short").is_err());
    }

    #[test]
    fn other_machines_need_certificates() {
        let without = Access::default();
        for (address, is_fine) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("10.0.0.1:1", false),
        ] {
            let address = resolve(address).expect("an address");
            assert_eq!(without.check(address).is_ok(), is_fine, "{address}");
        }
        let with = Access {
            tls_ca: Some("ca.pem".into()),
            ..Access::default()
        };
        assert!(with.check(resolve("0.0.0.0:1").expect("an address")).is_ok());
    }
}
