#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rankscope_fuzz_bodies::ray_timeline(input));
