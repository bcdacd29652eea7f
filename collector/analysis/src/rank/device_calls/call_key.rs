//! Key that joins the reports of a device with their calls.

use crate::model::log_communicator::LogCommunicator;
use crate::rank::event::OperationFields;
use serde::{Deserialize, Serialize};

/// Key of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallKey {
    /// Number of the communicator in the log.
    pub communicator: LogCommunicator,
    /// Number of the operation.
    pub operation: u8,
    /// Ordinal of the call.
    pub sequence: u32,
    /// Peer of a message; −1 for all other calls.
    pub peer: i32,
}

impl CallKey {
    /// Returns the key of a call or of its report.
    pub fn of(fields: &OperationFields) -> Self {
        Self {
            communicator: fields.communicator,
            operation: fields.operation,
            sequence: fields.sequence,
            peer: if fields.is_message() { fields.peer } else { -1 },
        }
    }
}
