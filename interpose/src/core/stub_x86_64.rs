//! Stubs of x86-64 (System V ABI): rdi, rsi, rdx, rcx, r8, r9, then the stack. The return address is on the stack, and the
//! address of a returned object is passed like a first argument.

/// Calls a function that returns an object and has up to four arguments.
///
/// # Safety
/// `real` must be such a function. `words` are the address of its result and its arguments.
#[inline(always)]
pub unsafe fn call_object(real: usize, words: [usize; 5]) -> usize {
    type Function = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize) -> usize;
    let [result, a, b, c, d] = words;
    // SAFETY: the caller guarantees the function. It ignores extra arguments.
    unsafe { std::mem::transmute::<usize, Function>(real)(result, a, b, c, d) }
}

/// Calls a function that returns an object and has up to six arguments.
///
/// # Safety
/// As for [`call_object`].
#[inline(always)]
pub unsafe fn call_wide_object(real: usize, words: [usize; 7]) -> usize {
    type Function = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize, usize) -> usize;
    let [result, a, b, c, d, e, f] = words;
    // SAFETY: the caller guarantees the function. It ignores extra arguments.
    unsafe { std::mem::transmute::<usize, Function>(real)(result, a, b, c, d, e, f) }
}

/// Generates the exported symbol.
#[doc(hidden)]
#[macro_export]
macro_rules! wrapper_stub {
    (narrow $($row:tt)+) => {
        $crate::naked_stub!($($row)+ "mov r9, [rsp]", "jmp {body}");
    };
    // The structure is above the return address and stays there, because the jump changes nothing on the stack.
    (by_id $($row:tt)+) => {
        $crate::wrapper_stub!(narrow $($row)+);
    };
    // The address of the result is in the first argument register.
    (object $($row:tt)+) => {
        $crate::wrapper_stub!(narrow $($row)+);
    };
    (wide_object $($row:tt)+) => {
        $crate::wrapper_stub!(wide $($row)+);
    };
    // Seven words for the callee: the return address and six stack arguments. They keep the stack aligned to 16 bytes.
    // Copying six words reads at most 48 bytes of the caller's own frame, or of the memory above it.
    (wide $($row:tt)+) => {
        $crate::naked_stub!($($row)+
            ".cfi_startproc",
            "sub rsp, 56",
            ".cfi_adjust_cfa_offset 56",
            "mov rax, [rsp + 56]",
            "mov [rsp], rax",
            "mov rax, [rsp + 64]",
            "mov [rsp + 8], rax",
            "mov rax, [rsp + 72]",
            "mov [rsp + 16], rax",
            "mov rax, [rsp + 80]",
            "mov [rsp + 24], rax",
            "mov rax, [rsp + 88]",
            "mov [rsp + 32], rax",
            "mov rax, [rsp + 96]",
            "mov [rsp + 40], rax",
            "mov rax, [rsp + 104]",
            "mov [rsp + 48], rax",
            "call {body}",
            "add rsp, 56",
            ".cfi_adjust_cfa_offset -56",
            "ret",
            ".cfi_endproc",
        );
    };
}
