//! The conditions of a read: `If-Match` and its relatives, which `s3s-fs` ignores.

use s3s::dto::{ETag, ETagCondition, GetObjectInput, HeadObjectInput, Timestamp};
use s3s::{S3Result, s3_error};

/// The conditions that a request states.
pub(crate) struct Conditions {
    same: Option<ETagCondition>,
    other: Option<ETagCondition>,
    changed_after: Option<Timestamp>,
    unchanged_after: Option<Timestamp>,
}

impl From<&GetObjectInput> for Conditions {
    fn from(input: &GetObjectInput) -> Self {
        Self {
            same: input.if_match.clone(),
            other: input.if_none_match.clone(),
            changed_after: input.if_modified_since.clone(),
            unchanged_after: input.if_unmodified_since.clone(),
        }
    }
}

impl From<&HeadObjectInput> for Conditions {
    fn from(input: &HeadObjectInput) -> Self {
        Self {
            same: input.if_match.clone(),
            other: input.if_none_match.clone(),
            changed_after: input.if_modified_since.clone(),
            unchanged_after: input.if_unmodified_since.clone(),
        }
    }
}

impl Conditions {
    /// Refuses an object that does not meet the conditions, in the order of RFC 9110.
    ///
    /// `changed` has whole seconds, as the header `Last-Modified` has.
    pub(crate) fn check(&self, tag: &str, changed: &Timestamp) -> S3Result<()> {
        let is = |condition: &ETagCondition| match condition {
            ETagCondition::Any => true,
            ETagCondition::ETag(wanted) => wanted.weak_cmp(&ETag::Strong(tag.to_owned())),
        };
        let fails = match &self.same {
            Some(same) => !is(same),
            None => self.unchanged_after.as_ref().is_some_and(|time| changed > time),
        };
        if fails {
            return Err(s3_error!(PreconditionFailed));
        }
        let is_unchanged = match &self.other {
            Some(other) => is(other),
            None => self.changed_after.as_ref().is_some_and(|time| changed <= time),
        };
        if is_unchanged {
            return Err(s3_error!(NotModified));
        }
        Ok(())
    }
}
