//! Small ELF files with the parts that `rankscope doctor` reads. They contain no code.

/// Contents of an ELF file.
#[derive(Clone, Default)]
pub struct Elf<'a> {
    /// Loader; empty for a library or a static program.
    pub interpreter: &'a str,
    /// Libraries that it needs.
    pub needed: &'a [&'a str],
    /// Directories in `DT_RPATH`, separated by colons.
    pub rpath: &'a str,
    /// String literals.
    pub constants: &'a [&'a str],
    /// Names of dynamic symbols and of symbol versions.
    pub symbols: &'a [&'a str],
    /// Number of another processor; 0 for x86-64.
    pub machine: u16,
}

const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const X86_64: u16 = 62;
const DT_NEEDED: u64 = 1;
const DT_RPATH: u64 = 15;
const SHT_PROGBITS: u32 = 1;
const SHT_STRTAB: u32 = 3;
const SHT_DYNAMIC: u32 = 6;

/// Appends a NUL-terminated text and returns its offset.
fn push(table: &mut Vec<u8>, text: &str) -> u64 {
    let at = table.len() as u64;
    table.extend_from_slice(text.as_bytes());
    table.push(0);
    at
}

impl Elf<'_> {
    /// Returns the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut strings = vec![0];
        for symbol in self.symbols {
            push(&mut strings, symbol);
        }
        let mut dynamic = Vec::new();
        let mut entry = |tag: u64, value: u64| {
            dynamic.extend(tag.to_le_bytes());
            dynamic.extend(value.to_le_bytes());
        };
        for name in self.needed {
            entry(DT_NEEDED, push(&mut strings, name));
        }
        if !self.rpath.is_empty() {
            entry(DT_RPATH, push(&mut strings, self.rpath));
        }
        entry(0, 0);
        let mut constants = vec![0];
        for text in self.constants {
            push(&mut constants, text);
        }
        let mut names = vec![0];
        // Name, kind, content, and the section of its strings.
        let sections: Vec<(u64, u32, &[u8], u32)> = vec![
            (0, 0, &[], 0),
            (push(&mut names, ".rodata"), SHT_PROGBITS, &constants, 0),
            (push(&mut names, ".dynstr"), SHT_STRTAB, &strings, 0),
            (push(&mut names, ".dynamic"), SHT_DYNAMIC, &dynamic, 2),
        ];
        let own_name = push(&mut names, ".shstrtab");
        let programs = usize::from(!self.interpreter.is_empty());
        let mut out = vec![0; HEADER_BYTES + programs * PROGRAM_HEADER_BYTES];
        let interpreter = out.len();
        out.extend_from_slice(self.interpreter.as_bytes());
        out.push(0);
        let mut table = Vec::new();
        let own: (u64, u32, &[u8], u32) = (own_name, SHT_STRTAB, &names, 0);
        for (name, kind, content, link) in sections.into_iter().chain([own]) {
            out.resize(out.len().next_multiple_of(8), 0);
            table.extend((name as u32).to_le_bytes());
            table.extend(kind.to_le_bytes());
            for number in [0, 0, out.len() as u64, content.len() as u64] {
                table.extend(number.to_le_bytes());
            }
            table.extend(link.to_le_bytes());
            table.extend(0_u32.to_le_bytes());
            let entry_bytes = if kind == SHT_DYNAMIC { 16_u64 } else { 0 };
            table.extend(1_u64.to_le_bytes());
            table.extend(entry_bytes.to_le_bytes());
            out.extend_from_slice(content);
        }
        out.resize(out.len().next_multiple_of(8), 0);
        let table_offset = out.len() as u64;
        out.extend(table);
        self.fill_header(&mut out, table_offset, programs as u16, interpreter as u64);
        out
    }

    fn fill_header(&self, out: &mut [u8], table_offset: u64, programs: u16, interpreter: u64) {
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[0x7f, b'E', b'L', b'F', 2, 1, 1]);
        put(16, &3_u16.to_le_bytes());
        let machine = if self.machine == 0 { X86_64 } else { self.machine };
        put(18, &machine.to_le_bytes());
        put(20, &1_u32.to_le_bytes());
        put(32, &(HEADER_BYTES as u64).to_le_bytes());
        put(40, &table_offset.to_le_bytes());
        put(52, &(HEADER_BYTES as u16).to_le_bytes());
        put(54, &(PROGRAM_HEADER_BYTES as u16).to_le_bytes());
        put(56, &programs.to_le_bytes());
        put(58, &64_u16.to_le_bytes());
        put(60, &5_u16.to_le_bytes());
        put(62, &4_u16.to_le_bytes());
        if programs > 0 {
            let size = self.interpreter.len() as u64 + 1;
            put(HEADER_BYTES, &3_u32.to_le_bytes());
            put(HEADER_BYTES + 8, &interpreter.to_le_bytes());
            put(HEADER_BYTES + 32, &size.to_le_bytes());
            put(HEADER_BYTES + 40, &size.to_le_bytes());
        }
    }
}
