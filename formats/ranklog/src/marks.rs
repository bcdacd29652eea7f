//! Marks that the recorder itself makes, where a framework does something that costs time and is no communication.

/// DistributedDataParallel walks the autograd graph for parameters that get no gradient (`find_unused_parameters=True`).
pub const UNUSED_SEARCH: &str = "c10d::Reducer::search_unused_parameters";

/// DistributedDataParallel begins a forward pass whose gradients it will reduce: what lies between the end of the backward
/// pass before and this is the optimiser, the input, and whatever else the program does there.
pub const FORWARD_BEGINS: &str = "c10d::Reducer::prepare_for_forward";

/// A file of PyTorch's own format is written (`torch.save`), from where it was opened until it is whole.
pub const CHECKPOINT_SAVE: &str = "torch.save";

/// A file of PyTorch's own format is read (`torch.load`), from where it was opened until it was let go.
pub const CHECKPOINT_LOAD: &str = "torch.load";
