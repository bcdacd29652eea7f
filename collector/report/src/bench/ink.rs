//! Colours of the operations: those of Okabe and Ito, which colour-blind readers can distinguish.

/// Red, green, blue, for the operations in the order of the results.
pub const OPERATIONS: [[u8; 3]; 8] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xe6, 0x9f, 0x00],
    [0x56, 0xb4, 0xe9],
    [0x8c, 0x6d, 0x31],
    [0x4d, 0x4d, 0x4d],
];

/// Returns the colour of an operation by its place.
pub fn of(place: usize) -> [u8; 3] {
    OPERATIONS[place % OPERATIONS.len()]
}
