//! Functions of the CUPTI library that a process has loaded.
//!
//! This module never loads one and never calls any. Some versions end the process on the first call without a driver
//! (13.2), so a caller must know that there is one.

use crate::bindings as cupti;
use std::ffi::{CStr, c_void};

/// Names under which a loaded CUPTI is searched, newest first.
pub const NAMES: [&CStr; 3] = [c"libcupti.so.13", c"libcupti.so.12", c"libcupti.so.11.8"];

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $function:ident;)*) => {
        /// Functions of the interface; `None` if the library lacks one.
        #[derive(Clone, Copy, Default)]
        pub struct Table {
            $($(#[$doc])* pub $name: Option<cupti::$function>,)*
        }

        impl Table {
            /// Looks every function up in a library.
            ///
            /// # Safety
            /// `handle` must be a live handle of a library. If the library has these names, they must be CUPTI's.
            pub unsafe fn of(handle: *mut c_void) -> Self {
                let find = |name: &CStr| {
                    // SAFETY: the caller guarantees a live handle, and the name is NUL-terminated.
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
                            // SAFETY: the caller guarantees that this is CUPTI's function of that name. Its signature
                            // is the generated one.
                            Some(unsafe { std::mem::transmute::<*mut c_void, cupti::$function>(address) })
                        }
                    },)*
                }
            }

            /// Returns the names of the functions that the library lacks.
            pub fn missing(&self) -> Vec<&'static str> {
                let mut out = Vec::new();
                $(if self.$name.is_none() { out.push(stringify!($function)); })*
                out
            }
        }
    };
}

functions! {
    /// Returns the version, a number that grows with every version; 18 is 11.8, 12.0 and 12.1.
    version: cuptiGetVersion;
    /// Returns the text of a result.
    result_string: cuptiGetResultString;
    /// Registers the functions that supply and take back buffers. There is one pair per process; the last one wins.
    register_callbacks: cuptiActivityRegisterCallbacks;
    /// Enables a kind of records, for the whole process.
    enable: cuptiActivityEnable;
    /// Disables a kind of records.
    disable: cuptiActivityDisable;
    /// Returns the next record of a buffer.
    next_record: cuptiActivityGetNextRecord;
    /// Returns the number of records dropped since the last call.
    dropped_records: cuptiActivityGetNumDroppedRecords;
    /// Delivers buffers.
    flush: cuptiActivityFlushAll;
    /// Sets a period after which CUPTI itself delivers full buffers.
    flush_period: cuptiActivityFlushPeriod;
    /// Changes a setting.
    set_attribute: cuptiActivitySetAttribute;
    /// Reads a setting; see [`Table::set_attribute`].
    attribute: cuptiActivityGetAttribute;
    /// Pushes a number that is recorded with every driver call until it is popped, per thread and kind.
    push_external_id: cuptiActivityPushExternalCorrelationId;
    /// Pops a number; see [`Table::push_external_id`].
    pop_external_id: cuptiActivityPopExternalCorrelationId;
    /// Registers the host clock that timestamps of records come from.
    register_timestamp_callback: cuptiActivityRegisterTimestampCallback;
    /// Returns the time of that clock.
    timestamp: cuptiGetTimestamp;
    /// Excludes a single driver function from the records while its kind is enabled, or includes it again (12.6).
    enable_driver_api: cuptiActivityEnableDriverApi;
    /// Excludes a single function of the runtime library; see [`Table::enable_driver_api`].
    enable_runtime_api: cuptiActivityEnableRuntimeApi;
    /// Returns a stream's number in records.
    stream_id: cuptiGetStreamIdEx;
    /// Returns a context's number in records.
    context_id: cuptiGetContextId;
    /// Subscribes as the only subscriber.
    subscribe: cuptiSubscribe;
    /// Subscribes as one of several subscribers (13.3, with a driver of the same time).
    subscribe_v2: cuptiSubscribe_v2;
    /// Ends a subscription.
    unsubscribe: cuptiUnsubscribe;
    /// Enables the subscriber's callback for a function.
    enable_callback: cuptiEnableCallback;
    /// Enables the subscriber's callback for all functions of a domain.
    enable_domain: cuptiEnableDomain;
    /// Returns whether any tracing session runs (13.3).
    is_tracing: cuptiIsTracingSessionRunning;
}

impl Table {
    /// Returns the table of the loaded CUPTI, if there is one. The handle is never closed, because the addresses are
    /// kept.
    pub fn of_loaded() -> Option<Self> {
        NAMES.iter().find_map(|name| {
            // SAFETY: dlopen gets a NUL-terminated name and only searches loaded libraries. The handle is live, and a
            // library of that name is CUPTI.
            unsafe {
                let handle = libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
                (!handle.is_null()).then(|| Self::of(handle))
            }
        })
    }

    /// Returns true if all functions exist that are necessary to record activity. Every version since 11.8 has them.
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
    fn nothing_is_found_if_no_cupti_is_loaded() {
        assert!(Table::of_loaded().is_none());
        // SAFETY: the handle is this process's own scope, which has none of these names.
        let table = unsafe { Table::of(libc::RTLD_DEFAULT) };
        assert!(!table.is_usable());
        assert!(table.missing().contains(&"cuptiActivityEnable"));
        assert_eq!(table.missing().len(), 25);
    }
}
