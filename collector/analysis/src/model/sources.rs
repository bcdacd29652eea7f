//! Properties of a rank log that name the sources of its device times.

/// Property that shows that CUPTI was active.
pub const CUPTI: &str = "source.cupti";
/// Property with the reason why CUPTI was inactive or stopped.
pub const ENDED: &str = "source.cupti_ended";
/// Property with the reason why CUPTI was inactive for a time.
pub const REFUSED: &str = "source.cupti_refused";
/// Property that shows whether CUPTI reported its overhead: [`OVERHEAD_RECORDED`], or the reason why not.
pub const OVERHEAD: &str = "source.cupti_overhead";
/// Value of [`OVERHEAD`] if all of the overhead was recorded.
pub const OVERHEAD_RECORDED: &str = "recorded";
/// Property with the interface version of the NCCL profiler plugin, through which NCCL reported device times.
pub const PLUGIN: &str = "source.nccl_plugin";
/// Property with the reason why the plugin no longer requests kernel times.
pub const KERNEL_TIMES_ENDED: &str = "source.nccl_kernel_times_ended";
/// Property that shows that CUDA events measured device times.
pub const EVENTS: &str = "source.nccl_events";
