//! Properties of a rank log that name its sources of device times.

/// The property that says that CUPTI was there.
pub const CUPTI: &str = "source.cupti";
/// Why it was not, or no longer.
pub const ENDED: &str = "source.cupti_ended";
/// Why it was not for a time.
pub const REFUSED: &str = "source.cupti_refused";
/// Whether it told what it took for itself: [`OVERHEAD_RECORDED`], or why not.
pub const OVERHEAD: &str = "source.cupti_overhead";
/// It did, of all of it.
pub const OVERHEAD_RECORDED: &str = "recorded";
/// The properties that say by which version of its interface the library told of its devices, and that events did.
pub const PLUGIN: &str = "source.nccl_plugin";
/// See [`PLUGIN`].
pub const EVENTS: &str = "source.nccl_events";
