//! The objects: those of `s3s-fs`, with the parts of S3 that it lacks.
//!
//! - Reads obey `If-Match`, `If-None-Match` and the conditions on times.
//! - A condition and the write after it are one step.
//! - A suffix range may be longer than the object.
//! - A directory of the file system is no object.
//! - Lists contain ETags.
//! - Uploads in progress can be listed. An unknown upload is `NoSuchUpload`.

use crate::conditions::Conditions;
use crate::key_locks::KeyLocks;
use crate::tags::Tags;
use crate::uploads;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopyObjectInput, CopyObjectOutput, CopySource, CreateBucketInput,
    CreateBucketOutput, CreateMultipartUploadInput, CreateMultipartUploadOutput, DeleteBucketInput,
    DeleteBucketOutput, DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput,
    DeletedObject, ETag, GetBucketLocationInput, GetBucketLocationOutput, GetObjectInput, GetObjectOutput,
    HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput, ListBucketsInput,
    ListBucketsOutput, ListMultipartUploadsInput, ListMultipartUploadsOutput, ListObjectsInput,
    ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output, ListPartsInput, ListPartsOutput,
    MultipartUpload, Object, PutObjectInput, PutObjectOutput, Range, Timestamp, UploadPartCopyInput,
    UploadPartCopyOutput, UploadPartInput, UploadPartOutput,
};
use s3s::{S3, S3Error, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The buckets of a directory.
pub(crate) struct Store {
    files: FileSystem,
    root: PathBuf,
    tags: Tags,
    locks: KeyLocks,
}

/// What conditions and ranges need to know of an object.
struct Found {
    length: u64,
    changed: Timestamp,
    tag: String,
}

impl Store {
    /// Of this directory, which exists.
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            files: FileSystem::new(root).expect("the root of the buckets is a directory"),
            root: root.to_owned(),
            tags: Tags::new(root),
            locks: KeyLocks::default(),
        }
    }

    /// Whether the file system has a directory where an object of this key would be.
    fn is_folder(&self, bucket: &str, key: &str) -> bool {
        self.root.join(bucket).join(key).is_dir() && !key.ends_with('/')
    }

    fn find(&self, bucket: &str, key: &str) -> S3Result<Found> {
        let bucket_path = self.root.join(bucket);
        if !bucket_path.is_dir() {
            return Err(s3_error!(NoSuchBucket));
        }
        let about = fs::metadata(bucket_path.join(key)).map_err(|error| s3_error!(error, NoSuchKey))?;
        if self.is_folder(bucket, key) {
            return Err(s3_error!(NoSuchKey));
        }
        Ok(Found {
            length: about.len(),
            changed: whole_seconds(about.modified().map_err(S3Error::internal_error)?),
            tag: self.tags.of(bucket, key).map_err(S3Error::internal_error)?,
        })
    }

    fn add_tags(&self, bucket: &str, objects: &mut Option<Vec<Object>>) {
        for object in objects.iter_mut().flatten() {
            // An object that was deleted meanwhile has none.
            let tag = object.key.as_ref().and_then(|key| self.tags.of(bucket, key).ok());
            object.e_tag = tag.map(ETag::Strong);
        }
    }
}

/// The time without its fraction, as in HTTP's dates.
fn whole_seconds(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs()))
}

#[async_trait::async_trait]
impl S3 for Store {
    async fn get_object(&self, mut req: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = &mut req.input;
        let _reading = self.locks.read(&input.bucket, &input.key).await;
        let found = self.find(&input.bucket, &input.key)?;
        Conditions::from(&*input).check(&found.tag, &found.changed)?;
        if let Some(Range::Suffix { length }) = &mut input.range {
            if found.length == 0 {
                return Err(s3_error!(InvalidRange));
            }
            *length = found.length.min(*length);
        }
        self.files.get_object(req).await
    }

    async fn head_object(&self, req: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let input = &req.input;
        let _reading = self.locks.read(&input.bucket, &input.key).await;
        let found = self.find(&input.bucket, &input.key)?;
        Conditions::from(input).check(&found.tag, &found.changed)?;
        self.files.head_object(req).await
    }

    async fn put_object(&self, req: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let _writing = self.locks.write(&req.input.bucket, &req.input.key).await;
        if !self.root.join(&req.input.bucket).is_dir() {
            return Err(s3_error!(NoSuchBucket));
        }
        self.tags.fits(&req.input.bucket, &req.input.key)?;
        self.files.put_object(req).await
    }

    async fn copy_object(&self, req: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
        let _writing = self.locks.write(&req.input.bucket, &req.input.key).await;
        if let CopySource::Bucket { bucket, key, .. } = &req.input.copy_source {
            self.find(bucket, key)?;
        }
        self.files.copy_object(req).await
    }

    async fn delete_object(
        &self,
        req: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let (bucket, key) = (&req.input.bucket, &req.input.key);
        let _writing = self.locks.write(bucket, key).await;
        if self.is_folder(bucket, key) {
            return Ok(S3Response::new(DeleteObjectOutput::default()));
        }
        self.tags.forget(bucket, key);
        self.files.delete_object(req).await
    }

    async fn delete_objects(
        &self,
        mut req: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let bucket = &req.input.bucket;
        if !self.root.join(bucket).is_dir() {
            return Err(s3_error!(NoSuchBucket));
        }
        let mut folders = Vec::new();
        req.input.delete.objects.retain(|object| {
            let is_folder = self.is_folder(bucket, &object.key);
            if is_folder {
                folders.push(DeletedObject {
                    key: Some(object.key.clone()),
                    ..Default::default()
                });
            } else {
                self.tags.forget(bucket, &object.key);
            }
            !is_folder
        });
        let mut answer = self.files.delete_objects(req).await?;
        answer.output.deleted.get_or_insert_default().extend(folders);
        Ok(answer)
    }

    async fn list_objects(
        &self,
        req: S3Request<ListObjectsInput>,
    ) -> S3Result<S3Response<ListObjectsOutput>> {
        let bucket = req.input.bucket.clone();
        let mut answer = self.files.list_objects(req).await?;
        self.add_tags(&bucket, &mut answer.output.contents);
        Ok(answer)
    }

    async fn list_objects_v2(
        &self,
        req: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let bucket = req.input.bucket.clone();
        let mut answer = self.files.list_objects_v2(req).await?;
        self.add_tags(&bucket, &mut answer.output.contents);
        Ok(answer)
    }

    async fn create_multipart_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        if !self.root.join(&req.input.bucket).is_dir() {
            return Err(s3_error!(NoSuchBucket));
        }
        self.tags.fits(&req.input.bucket, &req.input.key)?;
        self.files.create_multipart_upload(req).await
    }

    async fn upload_part(&self, req: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        uploads::exists(&self.root, &req.input.upload_id)?;
        self.files.upload_part(req).await
    }

    async fn list_parts(&self, req: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        uploads::exists(&self.root, &req.input.upload_id)?;
        let mut answer = self.files.list_parts(req).await?;
        if let Some(parts) = &mut answer.output.parts {
            parts.sort_by_key(|part| part.part_number);
        }
        Ok(answer)
    }

    async fn complete_multipart_upload(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = &req.input;
        let _writing = self.locks.write(&input.bucket, &input.key).await;
        uploads::exists(&self.root, &input.upload_id)?;
        let parts = input.multipart_upload.as_ref().and_then(|of| of.parts.as_deref());
        uploads::can_complete(&self.root, &input.upload_id, parts.unwrap_or_default())?;
        let is_conditional = input.if_match.is_some() || input.if_none_match.is_some();
        if !is_conditional {
            // It may hold checksums of the object that is replaced.
            self.tags.forget(&input.bucket, &input.key);
        }
        self.files.complete_multipart_upload(req).await
    }

    async fn abort_multipart_upload(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        uploads::exists(&self.root, &req.input.upload_id)?;
        self.files.abort_multipart_upload(req).await
    }

    async fn list_multipart_uploads(
        &self,
        req: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let ListMultipartUploadsInput { bucket, prefix, .. } = req.input;
        let begins = prefix.as_deref().unwrap_or_default();
        let found = uploads::in_progress(&self.root)
            .map_err(S3Error::internal_error)?
            .into_iter()
            .filter(|upload| upload.bucket == bucket && upload.key.starts_with(begins))
            .map(|upload| MultipartUpload {
                key: Some(upload.key),
                upload_id: Some(upload.id),
                ..Default::default()
            });
        Ok(S3Response::new(ListMultipartUploadsOutput {
            uploads: Some(found.collect()),
            bucket: Some(bucket),
            prefix,
            is_truncated: Some(false),
            ..Default::default()
        }))
    }

    // The rest is that of s3s-fs.

    async fn upload_part_copy(
        &self,
        req: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        self.files.upload_part_copy(req).await
    }

    async fn create_bucket(
        &self,
        req: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        self.files.create_bucket(req).await
    }

    async fn delete_bucket(
        &self,
        req: S3Request<DeleteBucketInput>,
    ) -> S3Result<S3Response<DeleteBucketOutput>> {
        self.files.delete_bucket(req).await
    }

    async fn get_bucket_location(
        &self,
        req: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        self.files.get_bucket_location(req).await
    }

    async fn head_bucket(&self, req: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
        self.files.head_bucket(req).await
    }

    async fn list_buckets(
        &self,
        req: S3Request<ListBucketsInput>,
    ) -> S3Result<S3Response<ListBucketsOutput>> {
        self.files.list_buckets(req).await
    }
}
