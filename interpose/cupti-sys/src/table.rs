//! The functions of the CUPTI that a process has loaded. Never loads one, and never calls any: some versions end the
//! process on the first call without a driver (13.2), so whoever calls must know that there is one.

use crate::bindings as cupti;
use std::ffi::{CStr, c_void};

/// Names by which a loaded CUPTI is found, the newest first.
pub const NAMES: [&CStr; 3] = [c"libcupti.so.13", c"libcupti.so.12", c"libcupti.so.11.8"];

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $function:ident;)*) => {
        /// What of the interface is there.
        #[derive(Clone, Copy, Default)]
        pub struct Table {
            $($(#[$doc])* pub $name: Option<cupti::$function>,)*
        }

        impl Table {
            /// Looks every function up in a library.
            ///
            /// # Safety
            /// `handle` must be a live handle of a library in which these names, if they are there, are CUPTI's.
            pub unsafe fn of(handle: *mut c_void) -> Self {
                let find = |name: &CStr| {
                    // SAFETY: the caller's promise; the name ends with a zero byte.
                    unsafe { libc::dlsym(handle, name.as_ptr()) }
                };
                Self {
                    $($name: {
                        const NAME: &CStr = match CStr::from_bytes_with_nul(
                            concat!(stringify!($function), "\0").as_bytes(),
                        ) {
                            Ok(name) => name,
                            Err(_) => panic!("a name holds a zero byte"),
                        };
                        let address = find(NAME);
                        if address.is_null() {
                            None
                        } else {
                            // SAFETY: the function of that name, whose signature is the generated one.
                            Some(unsafe { std::mem::transmute::<*mut c_void, cupti::$function>(address) })
                        }
                    },)*
                }
            }

            /// Names of the functions that are not there.
            pub fn missing(&self) -> Vec<&'static str> {
                let mut out = Vec::new();
                $(if self.$name.is_none() { out.push(stringify!($function)); })*
                out
            }
        }
    };
}

functions! {
    /// A number that grows with every version; 18 is 11.8, 12.0 and 12.1.
    version: cuptiGetVersion;
    /// A result in words.
    result_string: cuptiGetResultString;
    /// Whom to call with full and with empty buffers. One per process: the last one wins.
    register_callbacks: cuptiActivityRegisterCallbacks;
    /// Starts records of a kind, for the whole process.
    enable: cuptiActivityEnable;
    /// Ends them.
    disable: cuptiActivityDisable;
    /// The next record of a buffer.
    next_record: cuptiActivityGetNextRecord;
    /// How many records found no place since the last question.
    dropped_records: cuptiActivityGetNumDroppedRecords;
    /// Hands out buffers.
    flush: cuptiActivityFlushAll;
    /// Does so by itself, when they are full.
    flush_period: cuptiActivityFlushPeriod;
    /// Settings.
    set_attribute: cuptiActivitySetAttribute;
    /// See [`Table::set_attribute`].
    attribute: cuptiActivityGetAttribute;
    /// A number that is recorded with every call of the driver until it is popped, per thread and kind.
    push_external_id: cuptiActivityPushExternalCorrelationId;
    /// See [`Table::push_external_id`].
    pop_external_id: cuptiActivityPopExternalCorrelationId;
    /// The host's clock that records are stamped by.
    register_timestamp_callback: cuptiActivityRegisterTimestampCallback;
    /// Now, by that clock.
    timestamp: cuptiGetTimestamp;
    /// Records of one function of the driver only (12.6).
    enable_driver_api: cuptiActivityEnableDriverApi;
    /// Of one of the run-time library (12.6).
    enable_runtime_api: cuptiActivityEnableRuntimeApi;
    /// Number of a stream in records.
    stream_id: cuptiGetStreamIdEx;
    /// Number of a context in records.
    context_id: cuptiGetContextId;
    /// Takes the one place of a subscriber.
    subscribe: cuptiSubscribe;
    /// Takes one of several places (13.3 and a driver of that time).
    subscribe_v2: cuptiSubscribe_v2;
    /// Gives it back.
    unsubscribe: cuptiUnsubscribe;
    /// Calls the subscriber for a function.
    enable_callback: cuptiEnableCallback;
    /// Calls it for all of a domain.
    enable_domain: cuptiEnableDomain;
    /// Whether anybody traces (13.3).
    is_tracing: cuptiIsTracingSessionRunning;
}

impl Table {
    /// The table of the CUPTI that is loaded, if one is. Its handle is kept for ever: the addresses are.
    pub fn of_loaded() -> Option<Self> {
        NAMES.iter().find_map(|name| {
            // SAFETY: looks for what is loaded, by a name that is CUPTI's.
            unsafe {
                let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
                (!handle.is_null()).then(|| Self::of(handle))
            }
        })
    }

    /// True if there is what recording activity takes; every version since 11.8 has it.
    pub fn is_usable(&self) -> bool {
        self.version.is_some()
            && self.register_callbacks.is_some()
            && self.enable.is_some()
            && self.disable.is_some()
            && self.next_record.is_some()
            && self.dropped_records.is_some()
            && self.flush.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_found_where_no_cupti_is_loaded() {
        assert!(Table::of_loaded().is_none());
        // SAFETY: this process's own scope, which has none of these names.
        let table = unsafe { Table::of(libc::RTLD_DEFAULT) };
        assert!(!table.is_usable());
        assert!(table.missing().contains(&"cuptiActivityEnable"));
        assert_eq!(table.missing().len(), 25);
    }
}
