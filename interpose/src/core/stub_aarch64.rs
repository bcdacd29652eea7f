//! Stubs of aarch64 (AAPCS64): x0 to x7, then the stack. x30 has the return address, and x8 the address of a returned
//! object. x9 to x17 may be overwritten between a call and its function.

/// Calls a function that returns an object and has up to four arguments.
///
/// # Safety
/// `real` must be such a function. `words` are the address of its result and its arguments.
#[inline(always)]
pub unsafe fn call_object(real: usize, words: [usize; 5]) -> usize {
    let [result, a, b, c, d] = words;
    // SAFETY: the caller guarantees the function.
    unsafe { jump_to_object(result, a, b, c, d, real) }
}

/// Calls a function that returns an object and has up to six arguments.
///
/// # Safety
/// As for [`call_object`].
#[inline(always)]
pub unsafe fn call_wide_object(real: usize, words: [usize; 7]) -> usize {
    let [result, a, b, c, d, e, f] = words;
    // SAFETY: the caller guarantees the function.
    unsafe { jump_to_wide_object(result, a, b, c, d, e, f, real) }
}

/// Puts the arguments where the real function expects them. The jump adds no frame, so exceptions pass. The target is
/// in x16, from which a jump may reach any function also with branch target identification.
#[unsafe(naked)]
unsafe extern "C-unwind" fn jump_to_object(
    result: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    real: usize,
) -> usize {
    std::arch::naked_asm!(
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x16, x5",
        "br x16",
    )
}

/// Does the same for six arguments.
#[unsafe(naked)]
#[allow(clippy::too_many_arguments, reason = "one per register")]
unsafe extern "C-unwind" fn jump_to_wide_object(
    result: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    real: usize,
) -> usize {
    std::arch::naked_asm!(
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "mov x16, x7",
        "br x16",
    )
}

/// Generates the exported symbol. `bti c` permits indirect calls where the library is linked for branch target
/// identification, and does nothing elsewhere.
#[doc(hidden)]
#[macro_export]
macro_rules! wrapper_stub {
    (narrow $($row:tt)+) => {
        $crate::naked_stub!($($row)+ "hint #34 // bti c", "mov x5, x30", "b {body}");
    };
    // x2 is the address of the structure, which is the caller's copy for this call.
    (by_id $($row:tt)+) => {
        $crate::naked_stub!($($row)+ "hint #34 // bti c", "mov x6, x30", "b {body}");
    };
    (object $($row:tt)+) => {
        $crate::naked_stub!($($row)+
            "hint #34 // bti c",
            "mov x5, x30",
            "mov x4, x3",
            "mov x3, x2",
            "mov x2, x1",
            "mov x1, x0",
            "mov x0, x8",
            "b {body}",
        );
    };
    (wide_object $($row:tt)+) => {
        $crate::naked_stub!($($row)+
            "hint #34 // bti c",
            "mov x7, x5",
            "mov x6, x30",
            "mov x5, x4",
            "mov x4, x3",
            "mov x3, x2",
            "mov x2, x1",
            "mov x1, x0",
            "mov x0, x8",
            "b {body}",
        );
    };
    // The return address is inserted as the seventh argument, so the later ones move by one word: x6 to x7, x7 to the
    // stack, and four words of the caller's stack behind it. Copying four words reads at most 32 bytes of the caller's own
    // frame, or of the memory above it.
    (wide $($row:tt)+) => {
        $crate::naked_stub!($($row)+
            ".cfi_startproc",
            "hint #34 // bti c",
            "sub sp, sp, #64",
            ".cfi_adjust_cfa_offset 64",
            "stp x29, x30, [sp, #48]",
            ".cfi_rel_offset x29, 48",
            ".cfi_rel_offset x30, 56",
            "add x29, sp, #48",
            "ldp x9, x10, [sp, #64]",
            "ldp x11, x12, [sp, #80]",
            "str x7, [sp]",
            "stp x9, x10, [sp, #8]",
            "stp x11, x12, [sp, #24]",
            "mov x7, x6",
            "mov x6, x30",
            "bl {body}",
            "ldp x29, x30, [sp, #48]",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "add sp, sp, #64",
            ".cfi_adjust_cfa_offset -64",
            "ret",
            ".cfi_endproc",
        );
    };
}
