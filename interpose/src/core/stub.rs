//! How a wrapper is entered and how it calls on: the only machine-dependent part.
//!
//! A wrapper must know who called it (module `resolve`), and a return address can be read only on entry. So each
//! exported symbol is a stub. *Narrow* functions (up to five integer arguments) get it in the sixth argument register,
//! which they leave free: two instructions, no frame; so do those that take NCCL's id on the stack, which stays where
//! it is. *Wide* ones (up to twelve, six of them on the stack) get a frame with unwind information that copies the
//! caller's stack arguments; exceptions pass through it.

/// The arguments of a narrow function as they came. What the real function does not take is noise, handed on as it is.
pub type Narrow = [usize; 5];

/// The arguments of a wide function as they came.
pub type Wide = [usize; 12];

/// 128 bytes that are passed by value, which the C convention puts on the stack whole: NCCL's unique id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct OnStack(pub [u8; 128]);

/// The arguments of a function that takes an [`OnStack`] among up to five integers.
pub struct ById {
    /// Those in registers, in order.
    pub registers: [usize; 5],
    /// The one on the stack.
    pub id: OnStack,
}

/// Arguments that can be handed on to the real function.
pub trait Call {
    /// Calls the real function with the arguments as they came.
    ///
    /// # Safety
    /// `real` must be a function of at most as many integer or pointer arguments as `self` holds, that returns in one
    /// integer register or through memory named by its first argument.
    unsafe fn call(&self, real: usize) -> usize;
}

impl Call for Narrow {
    #[inline(always)]
    unsafe fn call(&self, real: usize) -> usize {
        type Function = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize) -> usize;
        // SAFETY: by the caller's promise this is such a function; the C convention ignores extra arguments.
        unsafe {
            let function = std::mem::transmute::<usize, Function>(real);
            function(self[0], self[1], self[2], self[3], self[4])
        }
    }
}

impl Call for Wide {
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
        // SAFETY: as above; the caller cleans the stack, so extra stack arguments do no harm either.
        unsafe {
            let function = std::mem::transmute::<usize, Function>(real);
            function(
                a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
            )
        }
    }
}

impl Call for ById {
    #[inline(always)]
    unsafe fn call(&self, real: usize) -> usize {
        type Function = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, OnStack) -> usize;
        let a = &self.registers;
        // SAFETY: by the caller's promise this is such a function; wherever the structure stands among its parameters,
        // it stands on the stack, and the integers in the registers.
        unsafe {
            let function = std::mem::transmute::<usize, Function>(real);
            function(a[0], a[1], a[2], a[3], a[4], self.id)
        }
    }
}

/// Makes wrappers from rows `name = "symbol", seen "where", narrow handler;` and the table that resolves them.
///
/// Each row exports `symbol`. Its handler is an `unsafe fn(real: usize, arguments: &A) -> usize` with `A` = [`Narrow`],
/// [`Wide`] or [`ById`]; it must call `real` exactly once, with these arguments. Adding a function is adding a row.
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

        /// Where each symbol was seen, in row order: documentation and the coverage test read it.
        pub static SEEN: &[&str] = &[$($seen,)*];

        /// What is known about the real functions.
        pub static TABLE: $crate::core::resolve::Table = $crate::core::resolve::Table::new(SYMBOLS);

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

/// What a stub jumps to: resolves the real function and hands over to the row's handler.
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
            let real = TABLE.real(Row::$name as usize, caller);
            if real == 0 {
                // Somebody calls a function that no loaded library has: there is nothing to forward to.
                return MISSING;
            }
            // SAFETY: `real` is this row's function in the caller's scope, and the arguments are the caller's.
            unsafe { $handler(real, &[a, b, c, d, e]) }
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
            let real = TABLE.real(Row::$name as usize, caller);
            if real == 0 {
                return MISSING;
            }
            let arguments = $crate::core::stub::ById {
                registers: [a, b, c, d, e],
                id,
            };
            // SAFETY: as for a narrow wrapper.
            unsafe { $handler(real, &arguments) }
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
            let real = TABLE.real(Row::$name as usize, caller);
            if real == 0 {
                return MISSING;
            }
            // SAFETY: as for a narrow wrapper.
            unsafe { $handler(real, &[a, b, c, d, e, f, g, h, i, j, k, l]) }
        }
    };
}

/// The exported symbol itself.
#[cfg(target_arch = "x86_64")]
#[doc(hidden)]
#[macro_export]
macro_rules! wrapper_stub {
    (by_id $name:ident $symbol:literal $(#[$doc:meta])*) => {
        // The structure stands above the return address and stays there: the jump changes nothing on the stack.
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
            // Seven words for the callee (the return address and six stack arguments), which keep the stack aligned to
            // 16. Copying six words reads at most 48 bytes of the caller's own frame, or of what lies above it.
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
