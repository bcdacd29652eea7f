//! Amazon's profiles. Environment variables have priority over the AWS tools' files `credentials` and `config`.
//!
//! Source: AWS SDKs and Tools Reference Guide, "Shared config and credentials files" and "Process credential provider".

use super::variable;
use crate::error::RemoteError;
use ini::{Ini, ParseOption};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Command;

/// Variables that say where credentials come from. With any of them, profiles only give the region and the endpoint.
const SOURCES: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// Adds the settings of profiles to a client that has those of the environment variables.
pub fn complete(builder: AmazonS3Builder) -> Result<AmazonS3Builder, RemoteError> {
    let is_set = |name: &str| variable(name).is_some();
    let profile = Profile::read(&variable)?;
    let mut builder = builder;
    let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    if let Some(region) = region.or_else(|| profile.region.clone()) {
        builder = builder.with_region(region);
    }
    let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
    if let Some(endpoint) = endpoint.or_else(|| profile.endpoint.clone()) {
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            return Err(RemoteError::Configuration(format!(
                "the endpoint {endpoint} (AWS_ENDPOINT_URL) has no scheme: write http://{endpoint} or https://{endpoint}"
            )));
        }
        builder = builder.with_endpoint(endpoint);
    }
    let is_signed = builder
        .get_config_value(&AmazonS3ConfigKey::SkipSignature)
        .is_none_or(|value| value != "true");
    if !is_signed || SOURCES.iter().any(|name| is_set(name)) {
        return Ok(builder);
    }
    if let Some(keys) = profile.keys()? {
        builder = builder
            .with_access_key_id(keys.id)
            .with_secret_access_key(keys.secret);
        return Ok(match keys.token {
            Some(token) => builder.with_token(token),
            None => builder,
        });
    }
    // Without these, `object_store` requests credentials from the metadata server of an EC2 instance.
    if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Err(RemoteError::Configuration(
            "no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, run `aws configure`, or read a public \
             bucket with AWS_SKIP_SIGNATURE=true"
                .to_owned(),
        ));
    }
    Ok(builder)
}

/// Returns the endpoint of a client, if it is not Amazon's.
pub fn endpoint(builder: &AmazonS3Builder) -> Option<String> {
    builder.get_config_value(&AmazonS3ConfigKey::Endpoint)
}

/// A profile of the AWS tools.
#[derive(Debug, Default, PartialEq, Eq)]
struct Profile {
    name: String,
    id: Option<String>,
    secret: Option<String>,
    token: Option<String>,
    /// Command that prints keys.
    process: Option<String>,
    region: Option<String>,
    endpoint: Option<String>,
    /// True if only the AWS tools can get its keys: by single sign-on, or from another role.
    needs_tools: bool,
}

/// Keys of a profile.
#[derive(Debug, PartialEq, Eq)]
struct Keys {
    id: String,
    secret: String,
    token: Option<String>,
}

impl Profile {
    /// Reads the profile that the variables select. Without files, it is empty.
    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, RemoteError> {
        let home = variable("HOME").map(PathBuf::from);
        let file = |name: &str, usual: &str| {
            let set = variable(name).map(PathBuf::from);
            set.or_else(|| Some(home.as_ref()?.join(".aws").join(usual)))
        };
        let chosen = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
        let name = chosen.clone().unwrap_or_else(|| "default".to_owned());
        let mut profile = Self {
            name: name.clone(),
            ..Self::default()
        };
        let mut is_known = false;
        // In `config`, the sections of all profiles but the default one begin with "profile". `credentials` has priority.
        let sections = [
            (file("AWS_CONFIG_FILE", "config"), format!("profile {name}")),
            (file("AWS_CONFIG_FILE", "config"), name.clone()),
            (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name.clone()),
        ];
        for (path, section) in sections {
            let Some(path) = path.filter(|path| path.is_file()) else {
                continue;
            };
            // The AWS tools give quotes and backslashes to the shell as they are.
            let as_written = ParseOption {
                enabled_quote: false,
                enabled_escape: false,
                ..ParseOption::default()
            };
            let ini = Ini::load_from_file_opt(&path, as_written).map_err(|error| {
                RemoteError::Configuration(format!(
                    "cannot read profiles of the AWS tools from {}: {error}",
                    path.display()
                ))
            })?;
            let Some(section) = ini.section(Some(section.as_str())) else {
                continue;
            };
            is_known = true;
            for (value, key) in [
                (&mut profile.id, "aws_access_key_id"),
                (&mut profile.secret, "aws_secret_access_key"),
                (&mut profile.token, "aws_session_token"),
                (&mut profile.process, "credential_process"),
                (&mut profile.region, "region"),
                (&mut profile.endpoint, "endpoint_url"),
            ] {
                if let Some(found) = section.get(key) {
                    *value = Some(found.to_owned());
                }
            }
            profile.needs_tools |= [
                "sso_session",
                "sso_start_url",
                "source_profile",
                "credential_source",
            ]
            .iter()
            .any(|key| section.contains_key(key));
        }
        match chosen {
            Some(chosen) if !is_known => Err(RemoteError::Configuration(format!(
                "the AWS profile {chosen} (AWS_PROFILE) is in neither the credentials file nor the config file"
            ))),
            _ => Ok(profile),
        }
    }

    /// Returns the keys of the profile, if it has any.
    fn keys(&self) -> Result<Option<Keys>, RemoteError> {
        if let (Some(id), Some(secret)) = (&self.id, &self.secret) {
            return Ok(Some(Keys {
                id: id.clone(),
                secret: secret.clone(),
                token: self.token.clone(),
            }));
        }
        if let Some(process) = &self.process {
            return keys_of_process(process).map(Some);
        }
        if self.needs_tools {
            return Err(RemoteError::Configuration(format!(
                "only the AWS tools can get the keys of the profile {name}; pass them on with: eval \"$(aws configure \
                 export-credentials --profile {name} --format env)\"",
                name = self.name
            )));
        }
        Ok(None)
    }
}

/// Runs the command of a profile, which prints keys.
fn keys_of_process(command: &str) -> Result<Keys, RemoteError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Printed {
        access_key_id: String,
        secret_access_key: String,
        session_token: Option<String>,
    }
    let failed = |why: String| {
        RemoteError::Configuration(format!("the credential_process of the AWS profile failed: {why}"))
    };
    let output = Command::new("sh")
        .args(["-c", command])
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    // The error must not show what was printed.
    let printed: Printed = serde_json::from_slice(&output.stdout)
        .map_err(|_| failed("it printed no keys as JSON".to_owned()))?;
    Ok(Keys {
        id: printed.access_key_id,
        secret: printed.secret_access_key,
        token: printed.session_token,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(files: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<Profile, RemoteError> {
        let home = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(home.path().join(".aws")).expect("made");
        for (name, text) in files {
            fs::write(home.path().join(".aws").join(name), text).expect("written");
        }
        Profile::read(&|name| match name {
            "HOME" => Some(home.path().display().to_string()),
            _ => variables
                .iter()
                .find(|(other, _)| *other == name)
                .map(|(_, value)| (*value).to_owned()),
        })
    }

    const CREDENTIALS: &str = "[default]\naws_access_key_id = one\naws_secret_access_key = a=b#c\n\n\
                               [ci]\naws_access_key_id=two\naws_secret_access_key=s\naws_session_token=t\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\n[profile ci]\nregion=us-west-2\nendpoint_url = http://localhost:1\n\
                          [profile sso]\nsso_session = x\n[profile made]\n\
                          credential_process = \"/bin/echo\" '{\"Version\": 1, \"AccessKeyId\": \"p\", \"SecretAccessKey\": \"q\"}'\n";

    #[test]
    fn profiles_have_keys_region_and_endpoint() {
        let files = [("credentials", CREDENTIALS), ("config", CONFIG)];
        let default = read(&files, &[]).expect("a profile");
        assert_eq!(default.region.as_deref(), Some("eu-west-1"));
        let keys = default.keys().expect("keys").expect("some");
        assert_eq!(
            (keys.id.as_str(), keys.secret.as_str(), keys.token),
            ("one", "a=b#c", None)
        );

        let ci = read(&files, &[("AWS_PROFILE", "ci")]).expect("a profile");
        assert_eq!(ci.endpoint.as_deref(), Some("http://localhost:1"));
        assert_eq!(ci.region.as_deref(), Some("us-west-2"));
        assert_eq!(
            ci.keys().expect("keys").expect("some").token.as_deref(),
            Some("t")
        );

        let made = read(&files, &[("AWS_PROFILE", "made")]).expect("a profile");
        assert_eq!(made.keys().expect("keys").expect("some").id, "p");
        let sso = read(&files, &[("AWS_PROFILE", "sso")]).expect("a profile");
        assert!(
            sso.keys()
                .expect_err("no keys")
                .to_string()
                .contains("export-credentials")
        );
        let none = read(&files, &[("AWS_PROFILE", "other")]).expect_err("unknown");
        assert!(none.to_string().contains("other"), "{none}");
        assert_eq!(read(&[], &[]).expect("nothing").keys().expect("no error"), None);
    }

    #[test]
    fn a_failing_process_shows_nothing_of_its_output() {
        let error = keys_of_process("echo secret").expect_err("no JSON");
        assert!(!error.to_string().contains("secret"), "{error}");
        assert!(
            keys_of_process("exit 3")
                .expect_err("failed")
                .to_string()
                .contains('3')
        );
    }
}
