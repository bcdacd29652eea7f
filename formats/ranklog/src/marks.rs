//! Names of marks that the recorder itself creates, where a framework spends time that is not communication.

/// DistributedDataParallel searches the autograd graph for parameters without a gradient
/// (`find_unused_parameters=True`).
pub const UNUSED_SEARCH: &str = "c10d::Reducer::search_unused_parameters";

/// DistributedDataParallel starts a forward pass whose gradients it will reduce. The time since the end of the previous
/// backward pass contains the optimiser, the input and other code of the program.
pub const FORWARD_BEGINS: &str = "c10d::Reducer::prepare_for_forward";

/// A file in PyTorch's own format is written (`torch.save`). The mark lasts from opening the file until it is complete.
pub const CHECKPOINT_SAVE: &str = "torch.save";

/// A file in PyTorch's own format is read (`torch.load`). The mark lasts from opening the file until it is closed.
pub const CHECKPOINT_LOAD: &str = "torch.load";
