//! HTTP server of one file for one page in a local browser. A page needs it to open a file that the user did not choose
//! there.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum size of a request head, in bytes. Browsers send less than a thousand.
const LONGEST_HEAD: usize = 16 << 10;

/// Maximum time until a request head is complete.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// Write timeout: a client that accepts no data for this time counts as gone.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// Maximum number of connections at a time. Browsers open some in advance.
const MAX_CONNECTIONS: usize = 16;

/// Time between two polls for new connections. It is short compared with the reaction of a person who opens a browser.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a file is served.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Time after the first fetch. Pages ask twice.
    pub fetched: Duration,
    /// Time without any fetch.
    pub unfetched: Duration,
}

/// Reason why the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The file was fetched.
    Fetched,
    /// Nobody fetched the file in time.
    Unfetched,
    /// The caller requested a stop.
    Stopped,
}

/// A server of one file.
#[derive(Debug)]
pub struct FileServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl FileServer {
    /// Binds to an address of this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves a file as `/NAME` to pages of `origin`, and blocks until the server ends. Calls `fetched` after the file
    /// was sent completely for the first time.
    pub fn serve(
        self,
        file: &Path,
        name: &str,
        origin: &str,
        patience: Patience,
        stop: &AtomicBool,
        fetched: impl Fn() + Sync,
    ) -> Ended {
        let since = Instant::now();
        let fetched_at = Mutex::new(None::<Instant>);
        let connections = AtomicUsize::new(0);
        let served = Served {
            file,
            target: &format!("/{name}"),
            origin,
            port: self.address.port(),
        };
        thread::scope(|scope| {
            loop {
                let first = fetched_at.lock().map_or(None, |at| *at);
                if stop.load(Ordering::Relaxed) {
                    return Ended::Stopped;
                }
                match first {
                    Some(at) if at.elapsed() >= patience.fetched => return Ended::Fetched,
                    None if since.elapsed() >= patience.unfetched => return Ended::Unfetched,
                    _ => {}
                }
                // An error of a connection affects only that connection.
                let Ok((stream, _)) = self.listener.accept() else {
                    thread::sleep(PAUSE);
                    continue;
                };
                if connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                    connections.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (served, fetched_at, connections, fetched) =
                    (&served, &fetched_at, &connections, &fetched);
                scope.spawn(move || {
                    if matches!(served.answer(stream), Ok(true))
                        && let Ok(mut at) = fetched_at.lock()
                        && at.is_none()
                    {
                        *at = Some(Instant::now());
                        drop(at);
                        fetched();
                    }
                    connections.fetch_sub(1, Ordering::Relaxed);
                });
            }
        })
    }
}

struct Served<'a> {
    file: &'a Path,
    target: &'a str,
    origin: &'a str,
    port: u16,
}

impl Served<'_> {
    /// Answers a request. Returns true if the whole file was sent.
    fn answer(&self, mut stream: TcpStream) -> io::Result<bool> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(WRITE_TIME))?;
        let head = match read_head(&mut stream)? {
            Head::Whole(head) => head,
            Head::TooLong => return self.refuse(&mut stream, "431 Request Header Fields Too Large"),
            // The browser opened this connection in advance and did not need it.
            Head::Nothing => return Ok(false),
        };
        let mut lines = head.split("\r\n");
        let mut request = lines.next().unwrap_or_default().split(' ');
        let (method, target, version) = (request.next(), request.next(), request.next());
        let is_http =
            version.is_some_and(|version| version.starts_with("HTTP/1.")) && request.next().is_none();
        let (Some(method), Some(target), true) = (method, target, is_http) else {
            return self.refuse(&mut stream, "400 Bad Request");
        };
        let host = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then_some(value.trim())
        });
        // Protects against DNS rebinding: a foreign page whose name now resolves to this machine sends its own name
        // here.
        if host.is_some_and(|host| !self.is_own(host)) {
            return self.refuse(&mut stream, "421 Misdirected Request");
        }
        if target != self.target {
            return self.refuse(&mut stream, "404 Not Found");
        }
        match method {
            "OPTIONS" => {
                self.head(&mut stream, "204 No Content", "")?;
                stream.flush()?;
                Ok(false)
            }
            "GET" | "HEAD" => self.send(&mut stream, method == "GET"),
            _ => self.refuse(&mut stream, "405 Method Not Allowed"),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let (name, port) = host.rsplit_once(':').unwrap_or((host, "80"));
        matches!(name, "127.0.0.1" | "localhost") && port == self.port.to_string()
    }

    fn send(&self, stream: &mut TcpStream, with_content: bool) -> io::Result<bool> {
        let opened = File::open(self.file).and_then(|file| Ok((file.metadata()?.len(), file)));
        let Ok((length, file)) = opened else {
            return self.refuse(stream, "404 Not Found");
        };
        let content = format!("Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n");
        self.head(stream, "200 OK", &content)?;
        if !with_content {
            return Ok(false);
        }
        let mut out = BufWriter::with_capacity(1 << 16, &mut *stream);
        let sent = io::copy(&mut file.take(length), &mut out)?;
        out.flush()?;
        drop(out);
        finish(stream);
        Ok(sent == length)
    }

    fn refuse(&self, stream: &mut TcpStream, status: &str) -> io::Result<bool> {
        self.head(stream, status, "Content-Length: 0\r\n")?;
        finish(stream);
        Ok(false)
    }

    /// Writes the head of an answer. The headers are those that ui.perfetto.dev needs, and allow no other page to read
    /// the file.
    fn head(&self, stream: &mut TcpStream, status: &str, content: &str) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 {status}\r\n\
             Access-Control-Allow-Origin: {}\r\n\
             Access-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n\
             Access-Control-Allow-Headers: *\r\n\
             Access-Control-Allow-Private-Network: true\r\n\
             Allow: GET, HEAD, OPTIONS\r\n\
             Cache-Control: no-cache\r\n\
             Vary: Origin\r\n\
             Connection: close\r\n\
             {content}\r\n",
            self.origin
        );
        stream.write_all(head.as_bytes())
    }
}

enum Head {
    Whole(String),
    TooLong,
    Nothing,
}

/// Reads a request up to the empty line.
fn read_head(stream: &mut TcpStream) -> io::Result<Head> {
    let until = Instant::now() + HEAD_TIME;
    let mut bytes = Vec::new();
    let mut part = [0; 2048];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = match stream.read(&mut part) {
            Ok(0) => return Ok(Head::Nothing),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        // The end marker may have started in the previous part.
        let from = bytes.len().saturating_sub(3);
        bytes.extend_from_slice(&part[..count]);
        if let Some(end) = bytes[from..].windows(4).position(|four| four == b"\r\n\r\n") {
            bytes.truncate(from + end);
            return Ok(Head::Whole(String::from_utf8_lossy(&bytes).into_owned()));
        }
        if bytes.len() > LONGEST_HEAD {
            return Ok(Head::TooLong);
        }
    }
}

/// Closes a connection after all data arrived. Closing it with unread input would reset it, and the client could lose
/// data.
fn finish(stream: &mut TcpStream) {
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
    let mut rest = [0; 2048];
    // The number of reads is limited, in case the client never stops sending.
    for _ in 0..64 {
        if !matches!(stream.read(&mut rest), Ok(1..)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::thread::JoinHandle;

    const ORIGIN: &str = "https://ui.perfetto.dev";
    const LONG: Duration = Duration::from_secs(60);

    struct Running {
        address: SocketAddr,
        stop: Arc<AtomicBool>,
        fetched: Arc<AtomicUsize>,
        thread: Option<JoinHandle<Ended>>,
        _folder: tempfile::TempDir,
    }

    impl Running {
        fn of(content: &[u8], patience: Patience) -> Self {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let file: PathBuf = folder.path().join("elsewhere.pftrace");
            std::fs::write(&file, content).expect("written");
            let server = FileServer::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
            let address = server.address();
            let stop = Arc::new(AtomicBool::new(false));
            let fetched = Arc::new(AtomicUsize::new(0));
            let (stopped, count) = (Arc::clone(&stop), Arc::clone(&fetched));
            let thread = thread::spawn(move || {
                server.serve(&file, "view-1.pftrace", ORIGIN, patience, &stopped, || {
                    count.fetch_add(1, Ordering::SeqCst);
                })
            });
            Self {
                address,
                stop,
                fetched,
                thread: Some(thread),
                _folder: folder,
            }
        }

        /// Sends a request. Returns the status line with headers, and the content.
        fn ask(&self, request: &str) -> (String, Vec<u8>) {
            let mut stream = TcpStream::connect(self.address).expect("connected");
            stream.set_read_timeout(Some(LONG)).expect("set");
            // The server may refuse the request before all of it is sent.
            let _ = stream.write_all(request.as_bytes());
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("an answer");
            let end = answer
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
                .expect("a head");
            let head = String::from_utf8(answer[..end].to_vec()).expect("plain letters");
            (head, answer[end + 4..].to_vec())
        }

        fn get(&self, method: &str, target: &str) -> (String, Vec<u8>) {
            let host = self.address;
            self.ask(&format!(
                "{method} {target} HTTP/1.1\r\nHost: {host}\r\nOrigin: {ORIGIN}\r\n\r\n"
            ))
        }

        fn end(mut self) -> Ended {
            self.thread
                .take()
                .expect("running")
                .join()
                .expect("it does not panic")
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::SeqCst);
            if let Some(thread) = self.thread.take() {
                let _ = thread.join();
            }
        }
    }

    const PATIENT: Patience = Patience {
        fetched: LONG,
        unfetched: LONG,
    };

    #[test]
    fn the_file_arrives_whole_with_the_headers_that_the_page_needs() {
        let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number * 7 / 3) as u8).collect();
        let running = Running::of(&content, PATIENT);
        let (head, body) = running.get("HEAD", "/view-1.pftrace");
        assert!(
            head.starts_with("HTTP/1.1 200 OK\r\n") && body.is_empty(),
            "{head}"
        );
        assert!(head.contains("Content-Length: 3000000"), "{head}");
        let (head, body) = running.get("OPTIONS", "/view-1.pftrace");
        assert!(head.starts_with("HTTP/1.1 204 ") && body.is_empty(), "{head}");
        for header in [
            "Access-Control-Allow-Origin: https://ui.perfetto.dev",
            "Access-Control-Allow-Methods: GET, HEAD, OPTIONS",
            "Access-Control-Allow-Private-Network: true",
        ] {
            assert!(head.contains(header), "{head}");
        }
        assert_eq!(running.fetched.load(Ordering::SeqCst), 0);
        for _ in 0..2 {
            let (head, body) = running.get("GET", "/view-1.pftrace");
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert!(head.contains("\r\nAccess-Control-Allow-Origin: https://ui.perfetto.dev\r\n"));
            assert!(head.contains("\r\nCache-Control: no-cache\r\n"));
            assert!(head.contains("\r\nContent-Length: 3000000"), "{head}");
            assert!(body == content, "{} bytes", body.len());
        }
        running.stop.store(true, Ordering::SeqCst);
        let fetched = Arc::clone(&running.fetched);
        assert_eq!(running.end(), Ended::Stopped);
        assert_eq!(fetched.load(Ordering::SeqCst), 1, "reported once");
    }

    #[test]
    fn other_requests_are_refused() {
        let running = Running::of(b"trace", PATIENT);
        for (method, target, status) in [
            ("GET", "/", 404),
            ("GET", "/elsewhere.pftrace", 404),
            ("GET", "/view-1.pftrace?a=b", 404),
            ("GET", "/../view-1.pftrace", 404),
            ("HEAD", "/etc/passwd", 404),
            ("OPTIONS", "/other", 404),
            ("POST", "/view-1.pftrace", 405),
        ] {
            let (head, body) = running.get(method, target);
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status} ")),
                "{target}: {head}"
            );
            assert!(body.is_empty());
        }
        let host = running.address;
        for (request, status) in [
            ("nonsense\r\n\r\n".to_owned(), 400),
            ("GET /view-1.pftrace\r\n\r\n".to_owned(), 400),
            (
                "GET /view-1.pftrace HTTP/1.1\r\nHost: evil.example:9001\r\n\r\n".to_owned(),
                421,
            ),
            (
                format!(
                    "GET /view-1.pftrace HTTP/1.1\r\nHost: {host}\r\nA: {}\r\n\r\n",
                    "a".repeat(40_000)
                ),
                431,
            ),
        ] {
            let (head, _) = running.ask(&request);
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        }
        assert_eq!(running.fetched.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn the_server_ends_after_the_fetch_or_the_timeout() {
        let short = Duration::from_millis(200);
        let running = Running::of(
            b"trace",
            Patience {
                fetched: short,
                unfetched: LONG,
            },
        );
        // A silent connection does not block others.
        let silent = TcpStream::connect(running.address).expect("connected");
        assert_eq!(running.get("GET", "/view-1.pftrace").1, b"trace");
        drop(silent);
        assert_eq!(running.end(), Ended::Fetched);
        let running = Running::of(
            b"trace",
            Patience {
                fetched: LONG,
                unfetched: short,
            },
        );
        assert_eq!(running.get("GET", "/other").0.get(..12), Some("HTTP/1.1 404"));
        assert_eq!(running.end(), Ended::Unfetched);
    }

    #[test]
    fn a_port_in_use_is_an_error() {
        let server = FileServer::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let again = FileServer::bind(server.address()).expect_err("taken");
        assert_eq!(again.kind(), ErrorKind::AddrInUse);
    }
}
