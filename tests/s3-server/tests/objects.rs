//! The server is one that `object_store` can read and write as it does S3.

mod support;

use futures_util::TryStreamExt;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    Attribute, Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};
use std::fs;
use std::time::{Duration, SystemTime};
use support::Setting;

const HELLO: &str = "\"5d41402abc4b2a76b9719d911017c592\"";

const PATIENCE: Duration = Duration::from_secs(60);

fn create() -> PutOptions {
    PutMode::Create.into()
}

#[test]
fn an_object_is_written_read_and_deleted() {
    let setting = Setting::new();
    let client = setting.client(0);
    let path = Path::parse("a/b c=ü+%41.txt").expect("a path");
    setting.wait(async {
        let put = client.put(&path, "hello".into()).await.expect("a stored object");
        assert_eq!(put.e_tag.as_deref(), Some(HELLO));
        let head = client.head(&path).await.expect("the object");
        assert_eq!((head.size, head.e_tag.as_deref()), (5, Some(HELLO)));
        let got = client
            .get(&path)
            .await
            .expect("an answer")
            .bytes()
            .await
            .expect("a body");
        assert_eq!(got, "hello");
        client.delete(&path).await.expect("a deletion");
        assert!(matches!(client.get(&path).await, Err(Error::NotFound { .. })));
        assert!(matches!(client.head(&path).await, Err(Error::NotFound { .. })));
        // As on S3, a second deletion succeeds.
        client.delete(&path).await.expect("a deletion");
    });
    let requests = setting.server.requests();
    assert_eq!(requests[0].path, "/runs/a/b c=ü+%41.txt");
}

#[test]
fn ranges_are_those_of_s3() {
    let setting = Setting::new();
    let client = setting.client(0);
    let (path, empty) = (Path::from("a"), Path::from("empty"));
    let get = async |path: &Path, range: GetRange| {
        let options = GetOptions {
            range: Some(range),
            ..GetOptions::default()
        };
        client.get_opts(path, options).await?.bytes().await
    };
    setting.wait(async {
        client
            .put(&path, "0123456789".into())
            .await
            .expect("a stored object");
        client
            .put(&empty, PutPayload::default())
            .await
            .expect("a stored object");
        assert_eq!(get(&path, (2..4).into()).await.expect("an answer"), "23");
        assert_eq!(get(&path, (8..100).into()).await.expect("an answer"), "89");
        assert_eq!(get(&path, GetRange::Offset(7)).await.expect("an answer"), "789");
        assert_eq!(get(&path, GetRange::Suffix(3)).await.expect("an answer"), "789");
        assert_eq!(
            get(&path, GetRange::Suffix(100)).await.expect("an answer"),
            "0123456789"
        );
        for refused in [
            get(&path, (10..12).into()).await,
            get(&path, GetRange::Offset(10)).await,
            get(&empty, GetRange::Offset(0)).await,
            get(&empty, GetRange::Suffix(3)).await,
        ] {
            assert!(
                refused
                    .expect_err("a failure")
                    .to_string()
                    .contains("InvalidRange")
            );
        }
        assert_eq!(
            client.get_ranges(&path, &[0..1, 9..10]).await.expect("ranges"),
            ["0", "9"]
        );
    });
    let ranges: Vec<_> = setting
        .server
        .requests()
        .into_iter()
        .filter_map(|request| request.range)
        .collect();
    assert_eq!(ranges[0], "bytes=2-3");
    assert_eq!(ranges[3], "bytes=-3");
}

#[test]
fn lists_have_pages_prefixes_and_etags() {
    let setting = Setting::new();
    for step in 0..1200 {
        let folder = setting.bucket.join(format!("step/{}", step % 5));
        fs::create_dir_all(&folder).expect("a directory");
        fs::write(folder.join(format!("{step:04}")), step.to_string()).expect("a file");
    }
    fs::write(setting.bucket.join("steps"), "hello").expect("a file");
    fs::create_dir_all(setting.bucket.join("empty")).expect("a directory");
    let client = setting.client(0);
    let all: Vec<_> = setting.wait(client.list(None).try_collect()).expect("a list");
    assert_eq!(all.len(), 1201);
    assert!(all.is_sorted_by_key(|object| object.location.clone()));
    assert!(all.iter().all(|object| object.e_tag.is_some()));
    assert_eq!(all[1200].e_tag.as_deref(), Some(HELLO));
    assert_eq!(setting.server.counters().of("GET"), 2);
    // A prefix of object_store ends at a slash: `steps` does not have it.
    let prefix = Path::from("step");
    let below: Vec<_> = setting
        .wait(client.list(Some(&prefix)).try_collect())
        .expect("a list");
    assert_eq!(below.len(), 1200);
    let offset = client.list_with_offset(Some(&prefix), &Path::from("step/4/1194"));
    let after: Vec<_> = setting.wait(offset.try_collect()).expect("a list");
    assert_eq!(after.len(), 1);
    let level = setting.wait(client.list_with_delimiter(None)).expect("a list");
    assert_eq!(level.common_prefixes, [Path::from("step")]);
    assert_eq!(level.objects.len(), 1);
    let level = setting
        .wait(client.list_with_delimiter(Some(&prefix)))
        .expect("a list");
    assert_eq!((level.common_prefixes.len(), level.objects.len()), (5, 0));
}

#[test]
fn a_multipart_upload_appears_when_it_is_completed() {
    let setting = Setting::new();
    let client = setting.client(0);
    let path = Path::from("big");
    let part = PutPayload::from(vec![7u8; 5 << 20]);
    setting.wait(async {
        let mut upload = client.put_multipart(&path).await.expect("an upload");
        let (first, last) = (upload.put_part(part.clone()), upload.put_part("end".into()));
        // Parts may arrive in any order.
        last.await.expect("a part");
        first.await.expect("a part");
        assert!(matches!(client.head(&path).await, Err(Error::NotFound { .. })));
        assert_eq!(setting.server.uploads_in_progress()[0].key, "big");
        let put = upload.complete().await.expect("a completed upload");
        let tag = put.e_tag.expect("an ETag");
        assert!(tag.ends_with("-2\""), "{tag}");
        let head = client.head(&path).await.expect("the object");
        assert_eq!((head.size, head.e_tag), ((5 << 20) + 3, Some(tag.clone())));
        let options = GetOptions {
            if_match: Some(tag),
            range: Some(GetRange::Suffix(4)),
            ..GetOptions::default()
        };
        let end = client.get_opts(&path, options).await.expect("an answer");
        assert_eq!(end.bytes().await.expect("a body"), "\u{7}end");
    });
    assert_eq!(setting.server.uploads_in_progress(), []);
}

#[test]
fn an_aborted_upload_leaves_nothing() {
    let setting = Setting::new();
    let client = setting.client(0);
    let path = Path::from("big");
    setting.wait(async {
        let id = client.create_multipart(&path).await.expect("an upload");
        let put = async |index| client.put_part(&path, &id, index, "small".into()).await;
        let parts = vec![put(0).await.expect("a part"), put(1).await.expect("a part")];
        // The first part is too small. The upload remains, and can be completed without the second one.
        let refused = client.complete_multipart(&path, &id, parts.clone()).await;
        assert!(
            refused
                .expect_err("a failure")
                .to_string()
                .contains("EntityTooSmall")
        );
        assert_eq!(setting.server.uploads_in_progress().len(), 1);
        client
            .abort_multipart(&path, &id)
            .await
            .expect("an aborted upload");
        assert_eq!(setting.server.uploads_in_progress(), []);
        let gone = put(1).await.expect_err("a failure");
        assert!(gone.to_string().contains("NoSuchUpload"), "{gone}");
        assert!(matches!(gone, Error::NotFound { .. }));
        let again = client.abort_multipart(&path, &id).await;
        assert!(matches!(again, Err(Error::NotFound { .. })));
    });
    let objects: Vec<_> = setting.wait(client.list(None).try_collect()).expect("a list");
    assert_eq!(objects, []);
    assert_eq!(
        fs::read_dir(setting.bucket.parent().expect("a parent"))
            .expect("the root")
            .count(),
        1
    );
}

#[test]
fn reads_obey_conditions() {
    let setting = Setting::new();
    let client = setting.client(0);
    let path = Path::from("a");
    let get = async |options: GetOptions| client.get_opts(&path, options).await;
    setting.wait(async {
        let put = client.put(&path, "hello".into()).await.expect("a stored object");
        let matching = || GetOptions::new().with_if_match(put.e_tag.clone());
        let differing = || GetOptions::new().with_if_none_match(put.e_tag.clone());
        assert!(get(matching()).await.is_ok());
        assert!(matches!(get(differing()).await, Err(Error::NotModified { .. })));
        let head = GetOptions {
            head: true,
            ..differing()
        };
        assert!(matches!(get(head).await, Err(Error::NotModified { .. })));
        let changed = client.head(&path).await.expect("the object").last_modified;
        let since = GetOptions::new().with_if_modified_since(Some(changed));
        assert!(matches!(get(since).await, Err(Error::NotModified { .. })));
        let since = GetOptions::new().with_if_unmodified_since(Some(changed));
        assert!(get(since).await.is_ok());
        client.put(&path, "other".into()).await.expect("a stored object");
        assert!(matches!(get(matching()).await, Err(Error::Precondition { .. })));
        assert!(get(differing()).await.is_ok());
    });
}

#[test]
fn one_of_many_creators_wins() {
    let setting = Setting::new();
    let client = setting.client(0);
    let path = Path::from("lock");
    let created = setting.wait(futures_util::future::join_all((0..16).map(|writer| {
        let body = PutPayload::from(format!("{writer}"));
        client.put_opts(&path, body, create())
    })));
    assert_eq!(created.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(
        created
            .into_iter()
            .filter_map(Result::err)
            .all(|error| { matches!(error, Error::AlreadyExists { .. }) })
    );
}

#[test]
fn an_update_needs_the_current_version() {
    let setting = Setting::new();
    let client = setting.client(0);
    let path = Path::from("a");
    setting.wait(async {
        let first = client.put(&path, "1".into()).await.expect("a stored object");
        let update = async |version: &UpdateVersion| {
            let mode = PutOptions::from(PutMode::Update(version.clone()));
            client.put_opts(&path, "2".into(), mode).await
        };
        let version = UpdateVersion::from(first);
        update(&version).await.expect("an update");
        assert!(matches!(update(&version).await, Err(Error::Precondition { .. })));
    });
}

#[test]
fn a_directory_is_no_object() {
    let setting = Setting::new();
    let client = setting.client(0);
    setting.wait(async {
        client
            .put(&Path::from("run/session.json"), "{}".into())
            .await
            .expect("a stored object");
        let folder = Path::from("run");
        assert!(matches!(client.head(&folder).await, Err(Error::NotFound { .. })));
        assert!(matches!(client.get(&folder).await, Err(Error::NotFound { .. })));
        client.delete(&folder).await.expect("a deletion");
        client
            .head(&Path::from("run/session.json"))
            .await
            .expect("the object");
    });
}

#[test]
fn a_file_that_changes_in_the_bucket_changes_its_etag() {
    let setting = Setting::new();
    let client = setting.client(0);
    let (path, file) = (Path::from("a"), setting.bucket.join("a"));
    fs::write(&file, "hello").expect("a file");
    let head = setting.wait(client.head(&path)).expect("the object");
    assert_eq!(head.e_tag.as_deref(), Some(HELLO));
    fs::write(&file, "other").expect("a file");
    let later = SystemTime::now() + Duration::from_secs(2);
    let opened = fs::File::options().write(true).open(&file).expect("the file");
    opened.set_modified(later).expect("a time of change");
    let head = setting.wait(client.head(&path)).expect("the object");
    assert_ne!(head.e_tag.as_deref(), Some(HELLO));
}

#[test]
fn copies_attributes_and_bulk_deletions_work() {
    let setting = Setting::new();
    let client = setting.client(0);
    let (from, to) = (Path::from("from"), Path::from("to/there"));
    setting.wait(async {
        let mut options = PutOptions::default();
        options
            .attributes
            .insert(Attribute::Metadata("run".into()), "7".into());
        client
            .put_opts(&from, "hello".into(), options)
            .await
            .expect("a stored object");
        client.copy(&from, &to).await.expect("a copy");
        let got = client.get(&to).await.expect("an answer");
        let run = got.attributes.get(&Attribute::Metadata("run".into()));
        assert_eq!(run.map(AsRef::as_ref), Some("7"));
        let both = futures_util::stream::iter([Ok(from), Ok(to)]);
        let deleted: Vec<_> = client
            .delete_stream(Box::pin(both))
            .try_collect()
            .await
            .expect("a deletion");
        assert_eq!(deleted.len(), 2);
        let left: Vec<_> = client.list(None).try_collect().await.expect("a list");
        assert_eq!(left, []);
    });
}

#[test]
fn wrong_keys_and_unknown_buckets_are_refused() {
    let setting = Setting::new();
    let path = Path::from("a");
    setting.wait(async {
        let stranger = setting
            .builder(0, PATIENCE)
            .with_secret_access_key("guess")
            .build()
            .expect("a client");
        let refused = stranger.put(&path, "hello".into()).await;
        assert!(matches!(refused, Err(Error::PermissionDenied { .. })));
        let elsewhere = setting
            .builder(0, PATIENCE)
            .with_bucket_name("none")
            .build()
            .expect("a client");
        let missing = elsewhere.get(&path).await.expect_err("a failure");
        assert!(missing.to_string().contains("NoSuchBucket"), "{missing}");
        let missing = elsewhere.put(&path, "hello".into()).await.expect_err("a failure");
        assert!(missing.to_string().contains("NoSuchBucket"), "{missing}");
        let listed: Result<Vec<_>, _> = elsewhere.list(None).try_collect().await;
        let missing = listed.expect_err("a failure");
        assert!(missing.to_string().contains("NoSuchBucket"), "{missing}");
    });
}

#[test]
fn a_long_key_is_refused_by_name_and_can_be_read() {
    let setting = Setting::new();
    let client = setting.client(0);
    let path = Path::from(vec!["k".repeat(100); 5].join("/"));
    setting.wait(async {
        for error in [
            client
                .put(&path, "hello".into())
                .await
                .map(drop)
                .expect_err("a failure"),
            client
                .put_multipart(&path)
                .await
                .map(drop)
                .expect_err("a failure"),
        ] {
            assert!(error.to_string().contains("KeyTooLongError"), "{error}");
        }
        let file = setting.bucket.join(path.as_ref());
        fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
        fs::write(file, "hello").expect("a file");
        let got = client.get(&path).await.expect("an answer");
        assert_eq!(got.meta.e_tag.as_deref(), Some(HELLO));
    });
    let objects: Vec<_> = setting.wait(client.list(None).try_collect()).expect("a list");
    assert_eq!(objects[0].e_tag.as_deref(), Some(HELLO));
}
