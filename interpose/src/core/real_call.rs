//! One intercepted call: what the caller passed, and the function that it would have reached without this library.
//!
//! A hook calls the real function exactly once, and the types check it. A handler gets a [`RealCall`] and must return a
//! [`Returned`]. Only forwarding makes a [`Returned`], and it consumes the call.

use super::stub::Arguments;
use std::num::NonZero;

/// An intercepted call that has not been forwarded yet.
///
/// The generated body of each exported symbol makes it, so a handler needs no unsafe code to forward it. Reading memory
/// through an argument stays unsafe: the type does not know the function's signature, only how many integers it passes.
///
/// A second call does not compile:
///
/// ```compile_fail,E0382
/// use rankscope::core::real_call::{RealCall, Returned};
/// use rankscope::core::stub::Narrow;
///
/// fn handler(call: RealCall<'_, Narrow>) -> Returned {
///     let _first = call.forward();
///     call.forward()
/// }
/// ```
#[must_use = "a hook forwards its call"]
pub struct RealCall<'a, A> {
    real: NonZero<usize>,
    arguments: &'a A,
}

impl<'a, A: Arguments> RealCall<'a, A> {
    /// Creates the call of the function at address `real` with these arguments.
    ///
    /// # Safety
    /// `real` must be the function that the caller wanted, as [`Arguments::call`] requires it. `arguments` must be the
    /// values that the caller passed, unchanged, while the caller still waits for the result. The handler that gets
    /// this call must be written for this function: it reads memory through the arguments that are addresses.
    #[inline(always)]
    pub const unsafe fn new(real: NonZero<usize>, arguments: &'a A) -> Self {
        Self { real, arguments }
    }

    /// Returns the caller's arguments.
    #[inline(always)]
    pub const fn arguments(&self) -> &'a A {
        self.arguments
    }

    /// Returns the address of the real function. Other functions of its library are looked up by it.
    #[inline(always)]
    pub const fn real(&self) -> usize {
        self.real.get()
    }

    /// Calls the real function with the caller's arguments. Its exceptions pass through.
    #[inline(always)]
    pub fn forward(self) -> Returned {
        // SAFETY: `new` requires that `real` is the function that the caller called, and that these are the caller's
        // own arguments. So this is the call that the program made.
        Returned(unsafe { self.arguments.call(self.real.get()) })
    }

    /// Calls the real function with other arguments than the caller's.
    ///
    /// # Safety
    /// The real function must accept these arguments at this time.
    #[inline(always)]
    pub unsafe fn forward_changed(self, arguments: &A) -> Returned {
        // SAFETY: `new` requires that `real` is a function for arguments of this type, and the caller guarantees that
        // it accepts these.
        Returned(unsafe { arguments.call(self.real.get()) })
    }
}

/// Result of a real function, as the register that contains it.
#[must_use = "the caller of an intercepted function gets its result"]
pub struct Returned(usize);

impl Returned {
    /// Returns the whole register, for the caller.
    #[inline(always)]
    pub const fn into_register(self) -> usize {
        self.0
    }

    /// Returns the result of a function whose C type is an `int` or an enumeration. The upper half of the register means
    /// nothing.
    #[inline(always)]
    pub const fn as_u32(&self) -> u32 {
        self.0 as u32
    }

    /// Returns the result of a function whose C++ type is `bool`. Only the low byte of the register is defined.
    #[inline(always)]
    pub const fn as_bool(&self) -> bool {
        self.0 & 0xFF != 0
    }
}
