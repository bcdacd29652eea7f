//! Azure's account, by the names of variables that the Azure CLI takes.
//!
//! Source: `az storage --help`: `AZURE_STORAGE_ACCOUNT`, `AZURE_STORAGE_KEY`, `AZURE_STORAGE_SAS_TOKEN`,
//! `AZURE_STORAGE_CONNECTION_STRING`.

use super::variable;
use crate::error::RemoteError;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

/// Adds the account and its key to a client. `bucket` may be `container@account.host`.
pub fn complete(builder: MicrosoftAzureBuilder, bucket: &str) -> Result<MicrosoftAzureBuilder, RemoteError> {
    with(builder, bucket, &variable)
}

fn with(
    builder: MicrosoftAzureBuilder,
    bucket: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<MicrosoftAzureBuilder, RemoteError> {
    let mut builder = builder;
    let (container, host) = bucket
        .split_once('@')
        .map_or((bucket, None), |(container, host)| (container, Some(host)));
    builder = builder.with_container_name(container);
    if let Some(text) = variable("AZURE_STORAGE_CONNECTION_STRING") {
        builder = connection_string(builder, &text);
    }
    if let Some(account) = variable("AZURE_STORAGE_ACCOUNT") {
        builder = builder.with_account(account);
    }
    if let Some(key) = variable("AZURE_STORAGE_KEY") {
        builder = builder.with_access_key(key);
    }
    if let Some(account) = host.and_then(|host| host.split('.').next()) {
        builder = builder.with_account(account);
    }
    if builder.get_config_value(&AzureConfigKey::AccountName).is_none()
        && builder
            .get_config_value(&AzureConfigKey::UseEmulator)
            .is_none_or(|value| value != "true")
    {
        return Err(RemoteError::Configuration(
            "no account for Azure Blob Storage: set AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY (or AZURE_STORAGE_SAS_TOKEN), or write \
             abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
                .to_owned(),
        ));
    }
    Ok(builder)
}

/// Takes the account, the key, the signature and the endpoint from a connection string: `Name=Value;Name=Value`.
fn connection_string(builder: MicrosoftAzureBuilder, text: &str) -> MicrosoftAzureBuilder {
    text.split(';')
        .filter_map(|part| part.split_once('='))
        .fold(builder, |builder, (name, value)| match name.trim() {
            "AccountName" => builder.with_account(value),
            "AccountKey" => builder.with_access_key(value),
            "SharedAccessSignature" => builder.with_config(AzureConfigKey::SasKey, value),
            "BlobEndpoint" => builder.with_endpoint(value.to_owned()),
            _ => builder,
        })
}

/// Returns true if the endpoint of a client has no TLS, as those of emulators.
pub fn is_http(builder: &MicrosoftAzureBuilder) -> bool {
    let is = |key: AzureConfigKey, expected: &dyn Fn(&str) -> bool| {
        builder
            .get_config_value(&key)
            .is_some_and(|value| expected(&value))
    };
    is(AzureConfigKey::Endpoint, &|url| url.starts_with("http://"))
        || is(AzureConfigKey::UseEmulator, &|value| value == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(bucket: &str, variables: &[(&str, &str)]) -> Result<Option<String>, RemoteError> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        with(MicrosoftAzureBuilder::new(), bucket, &variable)
            .map(|builder| builder.get_config_value(&AzureConfigKey::AccountName))
    }

    #[test]
    fn the_account_comes_from_the_path_a_variable_or_a_connection_string() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            account("c@one.dfs.core.windows.net", &[]).expect("an account"),
            some("one")
        );
        assert_eq!(
            account("c", &[("AZURE_STORAGE_ACCOUNT", "two")]).expect("an account"),
            some("two")
        );
        let text = "DefaultEndpointsProtocol=https;AccountName=three;AccountKey=a==;EndpointSuffix=x";
        assert_eq!(
            account("c", &[("AZURE_STORAGE_CONNECTION_STRING", text)]).expect("an account"),
            some("three")
        );
        let error = account("c", &[]).expect_err("no account");
        assert!(error.to_string().contains("AZURE_STORAGE_ACCOUNT"));
    }

    #[test]
    fn endpoints_of_emulators_have_no_tls() {
        let builder = connection_string(
            MicrosoftAzureBuilder::new(),
            "AccountName=a;BlobEndpoint=http://127.0.0.1:10000/a",
        );
        assert!(is_http(&builder));
        assert!(!is_http(&MicrosoftAzureBuilder::new()));
    }
}
