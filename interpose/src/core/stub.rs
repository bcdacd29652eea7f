//! Entry into a hook, and the call of the real function.
//!
//! A hook must know its caller (module `resolve`), and the return address can be read only on entry. So each exported
//! symbol is a stub that passes the return address on. Stubs are machine-dependent (`stub_x86_64.rs`,
//! `stub_aarch64.rs`). A row names the kind of its function:
//!
//! | kind | function |
//! |---|---|
//! | `narrow` | up to five integer arguments. The stub needs no frame |
//! | `wide` | up to twelve integer arguments, some of them on the stack. The stub has a frame with unwind information and copies the caller's stack arguments. Exceptions pass through it |
//! | `by_id` | up to five integers, and NCCL's id by value as the third argument |
//! | `object` | returns a C++ object through memory, and has up to four integer arguments |
//! | `wide_object` | the same with up to six |

#[cfg(target_arch = "aarch64")]
use super::stub_aarch64 as machine;
#[cfg(target_arch = "x86_64")]
use super::stub_x86_64 as machine;

/// Arguments of a narrow function, unchanged. Values beyond the real function's own arguments are meaningless and are
/// forwarded unchanged.
pub type Narrow = [usize; 5];

/// Arguments of a wide function, unchanged.
pub type Wide = [usize; 12];

/// 128 bytes that are passed by value: NCCL's unique id. On x86-64 the C calling convention puts the whole structure on
/// the stack. On aarch64 it passes the address of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct UniqueId(pub [u8; 128]);

/// Arguments of a function whose third argument is a [`UniqueId`].
pub struct ById {
    /// The other arguments, in order.
    pub integers: [usize; 5],
    /// The third argument.
    pub id: UniqueId,
}

/// Arguments of a function that returns a C++ object: the address of the memory for the object, which the declaration
/// does not show, and then the arguments, beginning with `this`. On x86-64 the address is passed like a first argument.
/// On aarch64 it has a register of its own.
#[derive(Clone, Copy, Debug)]
pub struct ToMemory<const WORDS: usize>(pub [usize; WORDS]);

/// Arguments of a function that returns an object and has up to four arguments.
pub type Object = ToMemory<5>;

/// Arguments of a function that returns an object and has up to six arguments.
pub type WideObject = ToMemory<7>;

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
        type Function = unsafe extern "C-unwind" fn(usize, usize, UniqueId, usize, usize, usize) -> usize;
        let a = &self.integers;
        // SAFETY: the caller guarantees that `real` is such a function.
        unsafe {
            let function = std::mem::transmute::<usize, Function>(real);
            function(a[0], a[1], self.id, a[2], a[3], a[4])
        }
    }
}

impl Arguments for Object {
    #[inline(always)]
    unsafe fn call(&self, real: usize) -> usize {
        // SAFETY: this function has the same requirement.
        unsafe { machine::call_object(real, self.0) }
    }
}

impl Arguments for WideObject {
    #[inline(always)]
    unsafe fn call(&self, real: usize) -> usize {
        // SAFETY: this function has the same requirement.
        unsafe { machine::call_wide_object(real, self.0) }
    }
}

/// Generates hooks from rows `name = "symbol", seen "where", narrow handler;` and the table that resolves them.
///
/// Each row exports `symbol`. Its handler is a `fn(RealCall<'_, A>) -> Returned` with `A` = [`Narrow`], [`Wide`],
/// [`ById`], [`Object`] or [`WideObject`], and is written for this function alone. A new function is a new row.
#[macro_export]
macro_rules! wrappers {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal, seen $seen:literal, $kind:ident $handler:expr;)*) => {
        /// Symbols of this table, in row order.
        pub static SYMBOLS: &[&std::ffi::CStr] = &[$(
            match std::ffi::CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                Ok(symbol) => symbol,
                Err(_) => panic!("a symbol holds a NUL"),
            },
        )*];

        /// Places where each symbol was seen, in row order. For documentation, and for the coverage test.
        pub static SEEN: &[&str] = &[$($seen,)*];

        /// Kinds of the functions, in row order. For doubles of the functions, which pass arguments in the same way.
        pub static FUNCTION_KINDS: &[&str] = &[$(stringify!($kind),)*];

        /// Results of the lookups of the real functions.
        pub static TABLE: $crate::core::resolve::Table =
            $crate::core::resolve::Table::new(SYMBOLS, $crate::register_adapters);

        #[allow(non_camel_case_types, reason = "rows are named by their functions")]
        #[repr(usize)]
        enum Row { $($name,)* }

        mod bodies {
            use super::*;
            $($crate::wrapper_body!($kind $name $handler);)*
        }

        mod stubs {
            $($crate::wrapper_stub!($kind $name $symbol [$(#[$doc])*]);)*
        }
    };
}

/// Generates the function to which a stub jumps. It resolves the real function and calls the row's handler. The stub adds
/// the caller's address as the last register argument that is free.
#[doc(hidden)]
#[macro_export]
macro_rules! wrapper_body {
    (narrow $name:ident $handler:expr) => {
        $crate::wrapper_body!(@function $name $handler; caller;
            (a: usize, b: usize, c: usize, d: usize, e: usize, caller: usize);
            [a, b, c, d, e]);
    };
    (by_id $name:ident $handler:expr) => {
        $crate::wrapper_body!(@function $name $handler; caller;
            (a: usize, b: usize, id: $crate::core::stub::UniqueId, c: usize, d: usize, e: usize, caller: usize);
            $crate::core::stub::ById { integers: [a, b, c, d, e], id });
    };
    (object $name:ident $handler:expr) => {
        $crate::wrapper_body!(@function $name $handler; caller;
            (result: usize, a: usize, b: usize, c: usize, d: usize, caller: usize);
            $crate::core::stub::ToMemory([result, a, b, c, d]));
    };
    (wide_object $name:ident $handler:expr) => {
        $crate::wrapper_body!(@function $name $handler; caller;
            (result: usize, a: usize, b: usize, c: usize, d: usize, e: usize, caller: usize, f: usize);
            $crate::core::stub::ToMemory([result, a, b, c, d, e, f]));
    };
    (wide $name:ident $handler:expr) => {
        $crate::wrapper_body!(@function $name $handler; caller;
            (a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, caller: usize,
             g: usize, h: usize, i: usize, j: usize, k: usize, l: usize);
            [a, b, c, d, e, f, g, h, i, j, k, l]);
    };
    (@function $name:ident $handler:expr; $caller:ident; ($($parameter:ident: $type:ty),+); $arguments:expr) => {
        #[allow(clippy::too_many_arguments, reason = "one per register and stack slot")]
        pub unsafe extern "C-unwind" fn $name($($parameter: $type),+) -> usize {
            let arguments = $arguments;
            // SAFETY: the row names the symbol that this stub replaces. The row's kind is that of its signature, and
            // `arguments` are the caller's own registers and stack words, unchanged. The caller waits in this frame. The
            // row names the handler, too.
            let call = unsafe { TABLE.call(Row::$name as usize, $caller, &arguments) };
            match call {
                Some(call) => $handler(call).into_register(),
                // No loaded library has this function, so there is nothing to forward to.
                None => MISSING,
            }
        }
    };
}

/// Generates an exported symbol from its instructions, which end in `{body}`: the row's function.
#[doc(hidden)]
#[macro_export]
macro_rules! naked_stub {
    ($name:ident $symbol:literal [$(#[$doc:meta])*] $($line:literal),+ $(,)?) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(export_name = $symbol)]
        pub unsafe extern "C-unwind" fn $name() {
            std::arch::naked_asm!($($line,)+ body = sym super::bodies::$name)
        }
    };
}
