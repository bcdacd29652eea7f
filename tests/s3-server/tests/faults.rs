//! A client sees each fault as it sees that fault of S3, and gets over it by a retry where that is possible.

mod support;

use futures_util::TryStreamExt;
use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use rankscope_s3_server::{Effect, Fault, Refusal};
use std::fs;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use support::Setting;

/// A setting with an object `a` of this many bytes.
fn with_object(bytes: usize) -> Setting {
    let setting = Setting::new();
    let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    fs::write(setting.bucket.join("a"), content).expect("a file");
    setting
}

async fn read(client: &AmazonS3) -> Result<usize, Error> {
    let body = client.get(&Path::from("a")).await?.bytes().await?;
    assert!(
        body.iter()
            .enumerate()
            .all(|(at, byte)| *byte == (at % 251) as u8)
    );
    Ok(body.len())
}

/// Reads the object once without retries, which fails, and once with them.
fn fails_and_recovers(effect: Effect) -> Error {
    let setting = with_object(1000);
    let client = |retries, patience| {
        let builder = setting.builder(retries, Duration::from_secs(patience));
        builder.build().expect("a client")
    };
    let fault = || vec![Fault::new("GET", "/runs/a", effect).first(1)];
    setting.server.faults(fault());
    let error = setting.wait(read(&client(0, 1))).expect_err("a failure");
    assert_eq!(setting.server.fired(), [1]);
    assert_eq!(setting.server.counters().of("GET"), 1);
    setting.server.reset_counters();
    setting.server.faults(fault());
    assert_eq!(setting.wait(read(&client(3, 2))).expect("the whole object"), 1000);
    assert_eq!(setting.server.fired(), [1]);
    assert_eq!(setting.server.counters().of("GET"), 2);
    error
}

#[test]
fn a_busy_server_is_asked_again() {
    let error = fails_and_recovers(Effect::Answer(Refusal::SlowDown));
    assert!(error.to_string().contains("503"), "{error}");
    assert!(error.to_string().contains("<Code>SlowDown</Code>"), "{error}");
    let error = fails_and_recovers(Effect::Answer(Refusal::InternalError));
    assert!(
        error.to_string().contains("<Code>InternalError</Code>"),
        "{error}"
    );
}

#[test]
fn a_refusal_is_final() {
    let setting = with_object(10);
    setting.server.faults(vec![
        Fault::new("GET", "", Effect::Answer(Refusal::AccessDenied)).first(1),
        Fault::new("GET", "", Effect::Answer(Refusal::NoSuchKey)).first(1),
    ]);
    let client = setting.client(3);
    let refused = setting.wait(read(&client));
    assert!(matches!(refused, Err(Error::PermissionDenied { .. })));
    assert!(matches!(setting.wait(read(&client)), Err(Error::NotFound { .. })));
    assert_eq!(setting.wait(read(&client)).expect("the whole object"), 10);
    assert_eq!(setting.server.fired(), [1, 1]);
}

#[test]
fn a_refused_body_is_not_stored() {
    let setting = Setting::new();
    let (client, path) = (setting.client(0), Path::from("a"));
    let body = PutPayload::from(vec![0u8; 8 << 20]);
    for effect in [Effect::Answer(Refusal::SlowDown), Effect::Close] {
        setting.server.faults(vec![Fault::new("PUT", "/runs/a", effect)]);
        setting
            .wait(client.put(&path, body.clone()))
            .expect_err("a failure");
        let head = setting.wait(client.head(&path));
        assert!(matches!(head, Err(Error::NotFound { .. })));
    }
    assert_eq!(setting.server.counters().bytes_received, 16 << 20);
}

#[test]
fn a_closed_connection_is_opened_again() {
    let error = fails_and_recovers(Effect::Close);
    assert!(error.to_string().contains("error sending request"), "{error}");
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    fails_and_recovers(Effect::LoseAnswer);
}

#[test]
fn a_cut_body_ends_after_exactly_its_bytes() {
    for (bytes, after) in [(1000, 0), (1000, 1), (1000, 999), (3_000_000, 2_500_001)] {
        let setting = with_object(bytes);
        setting.server.faults(vec![
            Fault::new("GET", "/runs/a", Effect::CutBody { after }).first(1),
        ]);
        let received = setting.wait(async {
            let mut stream = setting
                .client(0)
                .get(&Path::from("a"))
                .await
                .expect("the head of an answer")
                .into_stream();
            let mut received = 0;
            while let Some(piece) = stream.try_next().await.transpose() {
                match piece {
                    Ok(piece) => received += piece.len() as u64,
                    Err(_) => return received,
                }
            }
            panic!("the body arrives whole");
        });
        assert_eq!(received, after);
        assert_eq!(setting.server.counters().bytes_sent, after);
    }
}

#[test]
fn a_cut_body_is_continued_where_it_ended() {
    let setting = with_object(100_000);
    setting.server.faults(vec![
        Fault::new("GET", "/runs/a", Effect::CutBody { after: 30_000 }).first(2),
    ]);
    assert_eq!(
        setting.wait(read(&setting.client(3))).expect("the whole object"),
        100_000
    );
    let ranges: Vec<_> = setting
        .server
        .requests()
        .into_iter()
        .map(|request| request.range)
        .collect();
    let range = |text: &str| Some(text.to_owned());
    assert_eq!(
        ranges,
        [None, range("bytes=30000-99999"), range("bytes=60000-99999")]
    );
    assert_eq!(setting.server.counters().bytes_sent, 100_000);
}

#[test]
fn a_body_shorter_than_the_cut_arrives_whole() {
    let setting = with_object(100);
    let fault = |after| Fault::new("GET", "/runs/a", Effect::CutBody { after });
    for after in [100, 1000] {
        setting.server.faults(vec![fault(after)]);
        assert_eq!(
            setting.wait(read(&setting.client(0))).expect("the whole object"),
            100
        );
    }
}

#[test]
fn a_stall_delays_or_exceeds_the_patience_of_the_client() {
    let setting = with_object(1000);
    let pause = Duration::from_millis(300);
    for effect in [Effect::Stall(pause), Effect::StallBody { after: 500, pause }] {
        setting.server.faults(vec![Fault::new("GET", "/runs/a", effect)]);
        let begin = Instant::now();
        assert_eq!(
            setting.wait(read(&setting.client(0))).expect("the whole object"),
            1000
        );
        assert!(begin.elapsed() >= pause);
    }
    // Longer than the client waits.
    let pause = Duration::from_secs(60);
    for effect in [Effect::Stall(pause), Effect::StallBody { after: 500, pause }] {
        let error = fails_and_recovers(effect);
        assert!(format!("{error:?}").contains("TimedOut"), "{error:?}");
    }
}

#[test]
fn a_lost_answer_to_a_write_has_been_executed() {
    let setting = Setting::new();
    let lose = |method, query| vec![Fault::new(method, "", Effect::LoseAnswer).query(query).first(1)];
    let path = Path::from("a");
    setting.wait(async {
        let (once, client) = (setting.client(0), setting.client(3));
        setting.server.faults(lose("PUT", ""));
        once.put(&path, "1".into()).await.expect_err("a failure");
        assert_eq!(client.head(&path).await.expect("the object").size, 1);

        setting.server.faults(lose("PUT", ""));
        client.put(&path, "22".into()).await.expect("a stored object");
        assert_eq!(client.head(&path).await.expect("the object").size, 2);

        // The client finds the object that it created itself.
        setting.server.faults(lose("PUT", ""));
        let create = PutOptions::from(PutMode::Create);
        let error = client.put_opts(&Path::from("b"), "3".into(), create).await;
        assert!(matches!(error, Err(Error::AlreadyExists { .. })));

        // object_store deletes by a list of keys: `POST /runs?delete`.
        setting.server.faults(lose("POST", "delete"));
        client.delete(&path).await.expect("a deletion");
        assert_eq!(setting.server.fired(), [1]);
        assert!(matches!(client.head(&path).await, Err(Error::NotFound { .. })));

        // As S3 documents it: a completed upload does not exist any more.
        setting.server.faults(lose("POST", "uploadId="));
        let mut upload = client.put_multipart(&path).await.expect("an upload");
        upload.put_part("4".into()).await.expect("a part");
        let error = upload.complete().await.expect_err("a failure");
        assert!(error.to_string().contains("NoSuchUpload"), "{error}");
        assert_eq!(client.head(&path).await.expect("the object").size, 1);
        assert_eq!(setting.server.fired(), [1]);
    });
}

#[test]
fn latency_delays_each_request() {
    let setting = with_object(10);
    setting.server.set_latency(Duration::from_millis(100));
    let begin = Instant::now();
    let client = setting.client(0);
    setting.wait(read(&client)).expect("the whole object");
    setting.wait(read(&client)).expect("the whole object");
    assert!(begin.elapsed() >= Duration::from_millis(200));
    // Requests at the same time wait together.
    let begin = Instant::now();
    setting.wait(futures_util::future::join_all((0..50).map(|_| read(&client))));
    assert!(begin.elapsed() < Duration::from_secs(3));
}

#[test]
fn counters_have_requests_and_bytes() {
    let setting = with_object(1000);
    let client = setting.client(0);
    setting.wait(async {
        read(&client).await.expect("the whole object");
        client.get_range(&Path::from("a"), 10..20).await.expect("ranges");
        client.head(&Path::from("a")).await.expect("the object");
        client
            .put(&Path::from("b"), "hello".into())
            .await
            .expect("a stored object");
    });
    let counters = setting.server.counters();
    assert_eq!(counters.bytes_sent, 1010);
    assert_eq!(counters.bytes_received, 5);
    assert_eq!(
        (counters.of("GET"), counters.of("HEAD"), counters.of("PUT")),
        (2, 1, 1)
    );
    assert_eq!(counters.total(), 4);
    assert_eq!(setting.server.requests().len(), 4);
    setting.server.reset_counters();
    assert_eq!(setting.server.counters().total(), 0);
    assert_eq!(setting.server.requests(), []);
}

#[test]
fn a_dropped_server_does_not_listen() {
    let root = tempfile::tempdir().expect("a directory");
    let server = rankscope_s3_server::S3Server::start(root.path());
    let address = server.address();
    TcpStream::connect(address).expect("a connection");
    drop(server);
    TcpStream::connect(address).expect_err("a failure");
}
