//! Errors of queries, with advice.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use rankscope_analysis::model::causes;

/// Returns an error and its causes as one text, and advice if there is any.
pub fn explain(error: &anyhow::Error) -> String {
    let mut text = causes::texts(error.chain()).join("\n  because: ");
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
