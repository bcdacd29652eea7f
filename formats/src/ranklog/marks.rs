//! Marks that the recorder itself makes, where a framework does something that costs time and is no communication.

/// DistributedDataParallel walks the autograd graph for parameters that get no gradient (`find_unused_parameters=True`).
pub const UNUSED_SEARCH: &str = "c10d::Reducer::search_unused_parameters";
