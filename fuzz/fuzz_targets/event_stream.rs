#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| glacis_laws::event_stream(input));
