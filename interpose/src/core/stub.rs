//! Entry into a hook, and the call of the real function: the only machine-dependent part.
//!
//! A hook must know its caller (module `resolve`), and the return address can be read only on entry. So each exported
//! symbol is a stub that passes the return address on. *Narrow* functions have up to five integer arguments and leave
//! the sixth argument register free. Their stub puts the address there with two instructions and no frame. So does the
//! stub of functions that take NCCL's id on the stack, because the id stays where it is. *Wide* functions have up to
//! twelve arguments, six of them on the stack. Their stub has a frame with unwind information and copies the caller's
//! stack arguments. Exceptions pass through it.

/// Arguments of a narrow function, unchanged. Values beyond the real function's own arguments are meaningless and are
/// forwarded unchanged.
pub type Narrow = [usize; 5];

/// Arguments of a wide function, unchanged.
pub type Wide = [usize; 12];

/// 128 bytes that are passed by value: NCCL's unique id. The C calling convention puts the whole structure on the
/// stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct OnStack(pub [u8; 128]);

/// Arguments of a function that takes an [`OnStack`] and up to five integers.
pub struct ById {
    /// Arguments in registers, in order.
    pub registers: [usize; 5],
    /// Argument on the stack.
    pub id: OnStack,
}

/// Arguments that can be forwarded to the real function.
pub trait Arguments {
    /// Calls the real function with unchanged arguments.
    ///
    /// # Safety
    /// `real` must be a function with at most as many integer or pointer arguments as `self` holds. It must return in
    /// one integer register, or through memory that its first argument names.
    unsafe fn call(&self, real: usize) -> usize;
}

impl Arguments for Narrow {
    #[inline(always)]
    unsafe fn call(&self, real: usize) -> usize {
        type Function = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize) -> usize;
        // SAFETY: the caller guarantees that `real` is such a function. In the C calling convention a function ignores
        // extra arguments.
        unsafe {
            let function = std::mem::transmute::<usize, Function>(real);
            function(self[0], self[1], self[2], self[3], self[4])
        }
    }
}

impl Arguments for Wide {
    #[inline(always)]
    unsafe fn call(&self, real: usize) -> usize {
        type Function = unsafe extern "C-unwind" fn(
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
        ) -> usize;
        let a = self;
        // SAFETY: as above. The caller cleans up the stack, so extra stack arguments do no harm either.
        unsafe {
            let function = std::mem::transmute::<usize, Function>(real);
            function(
                a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
            )
        }
    }
}

impl Arguments for ById {
    #[inline(always)]
    unsafe fn call(&self, real: usize) -> usize {
        type Function = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, OnStack) -> usize;
        let a = &self.registers;
        // SAFETY: the caller guarantees that `real` is such a function. At any position among the parameters, the
        // structure is passed on the stack and the integers in registers.
        unsafe {
            let function = std::mem::transmute::<usize, Function>(real);
            function(a[0], a[1], a[2], a[3], a[4], self.id)
        }
    }
}

/// Generates hooks from rows `name = "symbol", seen "where", narrow handler;` and the table that resolves them.
///
/// Each row exports `symbol`. Its handler is a `fn(RealCall<'_, A>) -> Returned` with `A` = [`Narrow`], [`Wide`] or
/// [`ById`], and is written for this function alone. A new function is a new row.
#[macro_export]
macro_rules! wrappers {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal, seen $seen:literal, $width:ident $handler:expr;)*) => {
        /// Symbols of this table, in row order.
        pub static SYMBOLS: &[&std::ffi::CStr] = &[$(
            match std::ffi::CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                Ok(symbol) => symbol,
                Err(_) => panic!("a symbol holds a NUL"),
            },
        )*];

        /// Places where each symbol was seen, in row order. For documentation, and for the coverage test.
        pub static SEEN: &[&str] = &[$($seen,)*];

        /// Results of the lookups of the real functions.
        pub static TABLE: $crate::core::resolve::Table =
            $crate::core::resolve::Table::new(SYMBOLS, $crate::register_adapters);

        #[allow(non_camel_case_types, reason = "rows are named by their functions")]
        #[repr(usize)]
        enum Row { $($name,)* }

        mod bodies {
            use super::*;
            $($crate::wrapper_body!($width $name $handler);)*
        }

        mod stubs {
            $($crate::wrapper_stub!($width $name $symbol $(#[$doc])*);)*
        }
    };
}

/// Generates the function to which a stub jumps. It resolves the real function and calls the row's handler.
#[doc(hidden)]
#[macro_export]
macro_rules! wrapper_body {
    (narrow $name:ident $handler:expr) => {
        pub unsafe extern "C-unwind" fn $name(
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            e: usize,
            caller: usize,
        ) -> usize {
            let arguments = [a, b, c, d, e];
            // SAFETY: the row names the symbol that this stub replaces. The row's width is that of its signature, and
            // the array holds the caller's own registers, unchanged. The caller waits in this frame. The row names the
            // handler, too.
            let call = unsafe { TABLE.call(Row::$name as usize, caller, &arguments) };
            match call {
                Some(call) => $handler(call).into_register(),
                // No loaded library has this function, so there is nothing to forward to.
                None => MISSING,
            }
        }
    };
    (by_id $name:ident $handler:expr) => {
        pub unsafe extern "C-unwind" fn $name(
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            e: usize,
            caller: usize,
            id: $crate::core::stub::OnStack,
        ) -> usize {
            let arguments = $crate::core::stub::ById {
                registers: [a, b, c, d, e],
                id,
            };
            // SAFETY: as for a narrow row. `arguments` are the caller's own registers and the structure on its stack.
            let call = unsafe { TABLE.call(Row::$name as usize, caller, &arguments) };
            match call {
                Some(call) => $handler(call).into_register(),
                None => MISSING,
            }
        }
    };
    (wide $name:ident $handler:expr) => {
        #[allow(clippy::too_many_arguments, reason = "one per register and stack slot")]
        pub unsafe extern "C-unwind" fn $name(
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            e: usize,
            f: usize,
            caller: usize,
            g: usize,
            h: usize,
            i: usize,
            j: usize,
            k: usize,
            l: usize,
        ) -> usize {
            let arguments = [a, b, c, d, e, f, g, h, i, j, k, l];
            // SAFETY: as for a narrow row. The array holds the caller's own registers and stack words.
            let call = unsafe { TABLE.call(Row::$name as usize, caller, &arguments) };
            match call {
                Some(call) => $handler(call).into_register(),
                None => MISSING,
            }
        }
    };
}

/// Generates the exported symbol.
#[cfg(target_arch = "x86_64")]
#[doc(hidden)]
#[macro_export]
macro_rules! wrapper_stub {
    (by_id $name:ident $symbol:literal $(#[$doc:meta])*) => {
        // The structure is above the return address and stays there, because the jump changes nothing on the stack.
        $crate::wrapper_stub!(narrow $name $symbol $(#[$doc])*);
    };
    (narrow $name:ident $symbol:literal $(#[$doc:meta])*) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(export_name = $symbol)]
        pub unsafe extern "C-unwind" fn $name() {
            std::arch::naked_asm!("mov r9, [rsp]", "jmp {body}", body = sym super::bodies::$name)
        }
    };
    (wide $name:ident $symbol:literal $(#[$doc:meta])*) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(export_name = $symbol)]
        pub unsafe extern "C-unwind" fn $name() {
            // Seven words for the callee: the return address and six stack arguments. They keep the stack aligned to 16
            // bytes. Copying six words reads at most 48 bytes of the caller's own frame, or of the memory above it.
            std::arch::naked_asm!(
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
                body = sym super::bodies::$name,
            )
        }
    };
}
