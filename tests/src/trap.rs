//! A filter that traps: ours cannot be made to, and what Envoy does then has to be seen all the same.

/// A proxy-wasm module (ABI 0.2.1) whose every third request ends in `unreachable`, as a panic would. Written by
/// hand in WebAssembly's binary format (WebAssembly core specification 1.0, chapter 5), since a crate of its own
/// would have to be built with another target and profile for these two hundred bytes.
pub fn module() -> Vec<u8> {
    const I32: u8 = 0x7f;
    let mut exports = vec![5];
    for (name, kind, index) in [
        ("memory", 2, 0),
        ("proxy_abi_version_0_2_1", 0, 0),
        ("malloc", 0, 1),
        ("proxy_on_context_create", 0, 2),
        ("proxy_on_request_headers", 0, 3),
    ] {
        exports.push(length(name.as_bytes()));
        exports.extend_from_slice(name.as_bytes());
        exports.extend([kind, index]);
    }
    let nothing: &[u8] = &[0, 0x0b];
    // i32.const 1024
    let place: &[u8] = &[0, 0x41, 0x80, 0x08, 0x0b];
    // count = count + 1; if count == 3 { unreachable }; 0
    let count: &[u8] = &[
        0, 0x23, 0, 0x41, 1, 0x6a, 0x24, 0, 0x23, 0, 0x41, 3, 0x46, 0x04, 0x40, 0x00, 0x0b, 0x41,
        0, 0x0b,
    ];
    let mut code = vec![4];
    for body in [nothing, place, nothing, count] {
        code.push(length(body));
        code.extend_from_slice(body);
    }
    let types = [
        &[4][..],
        &[0x60, 0, 0],
        &[0x60, 1, I32, 1, I32],
        &[0x60, 2, I32, I32, 0],
        &[0x60, 3, I32, I32, I32, 1, I32],
    ]
    .concat();
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    for (id, section) in [
        (1, types),
        (3, vec![4, 0, 1, 2, 3]),
        (5, vec![1, 0, 2]),
        // One variable, which begins with 0.
        (6, vec![1, I32, 1, 0x41, 0, 0x0b]),
        (7, exports),
        (10, code),
    ] {
        module.extend([id, length(&section)]);
        module.extend(section);
    }
    module
}

/// Every length here is below 128, and so is one byte in LEB128.
fn length(bytes: &[u8]) -> u8 {
    u8::try_from(bytes.len()).unwrap_or(u8::MAX)
}
