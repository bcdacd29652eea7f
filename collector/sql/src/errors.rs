//! Errors of queries, with advice.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

/// Returns an error and its causes as one text, with advice where there is some.
pub fn explain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        // An error of DataFusion shows its causes itself.
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\n  because: ");
        }
        text.push_str(&cause);
    }
    let query_error = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<DataFusionError>());
    match query_error.map(DataFusionError::find_root) {
        Some(DataFusionError::ResourcesExhausted(_)) => {
            text.push_str("\nThe query needs more memory: add --memory MIB. Sorts and groups use temporary files; joins must fit.");
        }
        Some(DataFusionError::ParquetError(_)) => text.push_str(DAMAGED),
        Some(DataFusionError::ArrowError(error, _)) if matches!(**error, ArrowError::ParquetError(_)) => {
            text.push_str(DAMAGED);
        }
        _ => {}
    }
    text
}

const DAMAGED: &str = "\nA table of the session is damaged, or was replaced during the query: merge the run again (rankscope merge DIR).";
