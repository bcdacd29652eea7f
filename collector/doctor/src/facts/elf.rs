//! Facts of an ELF file, read without loading it.

use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ReadCache, elf};
use std::io::{Read, Seek, SeekFrom};

/// Size of the header of a 64-bit ELF file, in bytes.
const HEADER_BYTES: usize = 64;
/// Maximum size of a dynamic section that is read, in bytes.
const MAX_DYNAMIC_BYTES: u64 = 1 << 20;
/// Maximum size of the strings that are read, in bytes. Those of the largest known library are a third of it.
const MAX_STRINGS_BYTES: u64 = 64 << 20;
/// Maximum length of a string, in bytes.
const MAX_TEXT_BYTES: usize = 4096;
/// Maximum number of sections and of needed libraries that are read.
const MAX_ENTRIES: usize = 4096;

/// Range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Offset in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Facts of a 64-bit ELF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elf {
    /// Names of the libraries that it needs.
    pub needed: Vec<String>,
    /// Directories that the loader searches before LD_LIBRARY_PATH (`DT_RPATH`).
    pub rpath: Vec<String>,
    /// Directories that the loader searches after LD_LIBRARY_PATH (`DT_RUNPATH`).
    pub runpath: Vec<String>,
    /// Places of its constants: string literals are there.
    pub constants: Vec<Range>,
    /// Place of the names of its dynamic symbols and of the symbol versions that it needs or defines.
    pub symbol_names: Option<Range>,
}

impl Elf {
    /// Reads the facts; `None` if this is no complete 64-bit ELF file.
    pub fn read<R: Read + Seek>(mut file: R) -> Option<Self> {
        let mut head = [0; HEADER_BYTES];
        file.seek(SeekFrom::Start(0)).ok()?;
        file.read_exact(&mut head).ok()?;
        let header = elf::FileHeader64::<Endianness>::parse(&head[..]).ok()?;
        let endian = header.endian().ok()?;
        // Zero means that the first section contains a larger number. No library has as many sections.
        if header.e_shnum(endian) == 0 {
            return None;
        }
        let cache = ReadCache::new(file);
        let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let mut out = Self::default();
        for section in file.sections().take(MAX_ENTRIES) {
            let Some((offset, bytes)) = section.file_range() else {
                continue;
            };
            let range = Range { offset, bytes };
            match section.name_bytes().unwrap_or_default() {
                b".dynstr" => out.symbol_names = Some(range),
                name if name.starts_with(b".rodata") || name.starts_with(b".data") => {
                    out.constants.push(range);
                }
                _ => {}
            }
        }
        let dynamic = file
            .elf_section_table()
            .iter()
            .find(|section| section.sh_type(endian) == elf::SHT_DYNAMIC);
        let has_small_dynamic = dynamic.is_some_and(|section| section.sh_size(endian) <= MAX_DYNAMIC_BYTES);
        if has_small_dynamic {
            out.read_dynamic(&file, &cache);
        }
        Some(out)
    }

    fn read_dynamic<'a, R: Read + Seek>(
        &mut self,
        file: &ElfFile64<'a, Endianness, &'a ReadCache<R>>,
        cache: &'a ReadCache<R>,
    ) {
        let Ok(table) = file.elf_section_table().dynamic_table(file.endian(), cache) else {
            return;
        };
        // The strings are read once. Otherwise a damaged file could cause the same bytes to be kept many times.
        let Some(strings) = file
            .section_by_name(".dynstr")
            .filter(|section| section.size() <= MAX_STRINGS_BYTES)
            .and_then(|section| section.data().ok())
        else {
            return;
        };
        for entry in table.iter().take(MAX_ENTRIES) {
            let list = match entry.tag {
                elf::DT_NEEDED => &mut self.needed,
                elf::DT_RPATH => &mut self.rpath,
                elf::DT_RUNPATH => &mut self.runpath,
                _ => continue,
            };
            let Some(text) = usize::try_from(entry.val)
                .ok()
                .and_then(|at| text_at(strings, at))
            else {
                continue;
            };
            if entry.tag == elf::DT_NEEDED {
                list.push(text);
            } else {
                list.extend(text.split(':').map(str::to_owned));
            }
        }
    }
}

/// Returns the NUL-terminated text at an offset.
fn text_at(strings: &[u8], at: usize) -> Option<String> {
    let rest = strings.get(at..)?;
    let rest = rest.get(..MAX_TEXT_BYTES).unwrap_or(rest);
    let end = memchr::memchr(0, rest)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}
