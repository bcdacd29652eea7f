//! Kernels as text (PTX), which the driver compiles.

/// Adds 1 to its thread's word.
pub const SMALL: &str = "rankscope_small";
/// As [`SMALL`], for a graph that is created before the recording.
pub const EARLY: &str = "rankscope_early";
/// As [`SMALL`], for a graph that is created during the recording.
pub const LATE: &str = "rankscope_late";
/// Runs for a given time by the device's timer, and stores its start and its end.
pub const SPIN: &str = "rankscope_spin";

/// Lowest and highest target. Drivers compile the text of older targets for newer devices.
const TARGETS: (i32, i32) = (50, 75);

/// Returns the text for a device of this compute capability.
pub fn text(major: i32, minor: i32) -> String {
    let target = (major * 10 + minor).clamp(TARGETS.0, TARGETS.1);
    let mut text = format!(".version 6.3\n.target sm_{target}\n.address_size 64\n");
    for name in [SMALL, EARLY, LATE] {
        text.push_str(&format!(
            ".visible .entry {name}(.param .u64 where)\n\
             {{\n\
             .reg .b32 %v<2>;\n\
             .reg .b64 %a<4>;\n\
             ld.param.u64 %a0, [where];\n\
             cvta.to.global.u64 %a1, %a0;\n\
             mov.u32 %v0, %tid.x;\n\
             mul.wide.u32 %a2, %v0, 4;\n\
             add.s64 %a3, %a1, %a2;\n\
             ld.global.u32 %v1, [%a3];\n\
             add.s32 %v1, %v1, 1;\n\
             st.global.u32 [%a3], %v1;\n\
             ret;\n\
             }}\n"
        ));
    }
    text.push_str(&format!(
        ".visible .entry {SPIN}(.param .u64 where, .param .u64 length)\n\
         {{\n\
         .reg .pred %p0;\n\
         .reg .b64 %a<7>;\n\
         ld.param.u64 %a0, [where];\n\
         ld.param.u64 %a1, [length];\n\
         cvta.to.global.u64 %a2, %a0;\n\
         mov.u64 %a3, %globaltimer;\n\
         $again:\n\
         mov.u64 %a4, %globaltimer;\n\
         sub.s64 %a5, %a4, %a3;\n\
         setp.lt.u64 %p0, %a5, %a1;\n\
         @%p0 bra $again;\n\
         st.global.u64 [%a2], %a3;\n\
         st.global.u64 [%a2+8], %a4;\n\
         ret;\n\
         }}\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_one_that_device_and_drivers_know() {
        assert!(text(9, 0).contains(".target sm_75\n"));
        assert!(text(7, 0).contains(".target sm_70\n"));
        assert!(text(12, 0).contains(".target sm_75\n"));
    }
}
