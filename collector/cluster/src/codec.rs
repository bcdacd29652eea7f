//! The node as bytes. Ballista's own nodes are passed on to its codec.

use crate::unit_exec::UnitExec;
use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// First bytes of a [`UnitExec`]. The last one ends no number of a protobuf, so no node of Ballista begins like this.
const MARK: &[u8] = b"rankscope-unit\xff";

/// Codec of the nodes of merges. Client, scheduler and executors need the same.
#[derive(Debug, Default)]
pub struct UnitCodec {
    others: BallistaPhysicalExtensionCodec,
}

impl PhysicalExtensionCodec for UnitCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(directory) = bytes.strip_prefix(MARK) else {
            return self.others.try_decode(bytes, inputs, context, converter);
        };
        let [input] = inputs else {
            return Err(DataFusionError::Internal("UnitExec has one input".to_owned()));
        };
        let directory = Path::new(OsStr::from_bytes(directory));
        Ok(Arc::new(UnitExec::new(directory, input.clone())))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(unit) = node.downcast_ref::<UnitExec>() else {
            return self.others.try_encode(node, bytes, converter);
        };
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(unit.directory().as_os_str().as_bytes());
        Ok(())
    }
}
