//! Programs of `rankscope selftest`. Each does known work and writes the truth about it.
//!
//! | module | content |
//! |---|---|
//! | [`truth`] | the truth, as the program writes it |
//! | [`kernel_text`] | kernels as text, which the driver compiles: no toolkit is needed |
//! | [`device_work`] | kernels with known start and end, copies, sets and graphs |
//! | [`other_profiler`] | another user of CUPTI in the same process |
//! | [`price`] | time of a call or a launch |

pub mod device_work;
pub mod kernel_text;
pub mod other_profiler;
pub mod price;
pub mod truth;
