//! Damaged files of every kind that the doctor reads: nothing panics, and results stay within their limits.

use proptest::prelude::*;
use rankscope_doctor::facts::elf::{Elf, Range};
use rankscope_doctor::facts::loader_cache;
use rankscope_doctor::facts::names::{self, Names};
use std::io::Cursor;

const LIBRARY: &[u8] = include_bytes!("../../../tests/fuzz/corpus/machine_files/seed-library");
const CACHE: &[u8] = include_bytes!("../../../tests/fuzz/corpus/machine_files/seed-cache");

/// Returns a seed without its first byte, with some bytes replaced, and truncated.
fn damaged(seed: &[u8], changes: &[(usize, u8)], end: usize) -> Vec<u8> {
    let mut bytes = seed[1..].to_vec();
    for (at, value) in changes {
        let at = at % bytes.len();
        bytes[at] = *value;
    }
    bytes.truncate(end.max(1));
    bytes
}

#[test]
fn the_seeds_are_sound() {
    let elf = Elf::read(Cursor::new(&LIBRARY[1..])).expect("an ELF file");
    assert_eq!(elf.needed, ["libnccl.so.2"]);
    assert_eq!(elf.rpath, ["$ORIGIN/../lib"]);
    let names = Names::read(Cursor::new(&LIBRARY[1..]), &elf.constants);
    assert_eq!(names.nccl_version.as_deref(), Some("2.27.5"));
    assert!(names.has_gloo && names.variables.contains("NCCL_ALGO"));
    let range = elf.symbol_names.expect("names of symbols");
    assert_eq!(
        names::highest_glibc(Cursor::new(&LIBRARY[1..]), range),
        Some((2, 34))
    );
    assert_eq!(loader_cache::parse(&CACHE[1..])[0].path, "/opt/nccl/libnccl.so.2");
}

proptest! {
    #[test]
    fn a_damaged_library_is_read_as_far_as_possible(
        changes in prop::collection::vec((0..600_usize, any::<u8>()), 0..12),
        end in 0..1000_usize,
    ) {
        let bytes = damaged(LIBRARY, &changes, end);
        if let Some(elf) = Elf::read(Cursor::new(&bytes)) {
            let _ = Names::read(Cursor::new(&bytes), &elf.constants);
            if let Some(range) = elf.symbol_names {
                let _ = names::highest_glibc(Cursor::new(&bytes), range);
            }
        }
    }

    #[test]
    fn a_damaged_cache_is_read_as_far_as_possible(
        changes in prop::collection::vec((0..200_usize, any::<u8>()), 0..8),
        end in 0..200_usize,
    ) {
        for cached in loader_cache::parse(&damaged(CACHE, &changes, end)) {
            prop_assert!(cached.name.len() <= 4096 && cached.path.len() <= 4096);
        }
    }

    #[test]
    fn any_bytes_are_searched(bytes in prop::collection::vec(prop::sample::select(&b"NCL_GO\0aV2.28 version"[..]), 0..400)) {
        let all = Range { offset: 0, bytes: bytes.len() as u64 };
        let _ = Names::read(Cursor::new(&bytes), &[all]);
    }
}
