//! Where JSON values begin and end: all that is needed to hand out an event without looking into what nobody asks for.

/// True between values.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',')
}

/// Strings that are longer are looked through many bytes at a time.
const SHORT: usize = 16;

/// Bytes that begin or end a string, an object or a list.
static IS_STRUCTURE: [bool; 256] = {
    let mut table = [false; 256];
    let bytes = *b"\"{}[]";
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    table
};

/// The first quote or backslash.
#[inline]
fn string_byte(rest: &[u8]) -> Option<usize> {
    let short = &rest[..rest.len().min(SHORT)];
    short
        .iter()
        .position(|&byte| byte == b'"' || byte == b'\\')
        .or_else(|| memchr::memchr2(b'"', b'\\', &rest[short.len()..]).map(|hit| hit + short.len()))
}

/// How far the end of a value was looked for.
pub struct Scan {
    /// Where to go on.
    pub at: usize,
    /// Objects and lists that are open.
    pub depth: usize,
    /// Inside a string.
    pub in_string: bool,
}

impl Scan {
    /// Looks for the end of the value that begins at `start`.
    pub fn new(start: usize) -> Self {
        Self {
            at: start,
            depth: 0,
            in_string: false,
        }
    }

    /// The end, if it is in `data`; else the scan goes on when there is more.
    pub fn end(&mut self, data: &[u8]) -> Option<usize> {
        while self.at < data.len() {
            if self.in_string {
                let rest = &data[self.at..];
                let Some(hit) = string_byte(rest) else {
                    self.at = data.len();
                    return None;
                };
                if rest[hit] == b'\\' {
                    if self.at + hit + 1 >= data.len() {
                        // What is escaped is not there yet.
                        self.at += hit;
                        return None;
                    }
                    self.at += hit + 2;
                    continue;
                }
                self.at += hit + 1;
                self.in_string = false;
                if self.depth == 0 {
                    return Some(self.at);
                }
                continue;
            }
            if self.depth > 0 {
                // Most bytes mean nothing here.
                let plain = data[self.at..]
                    .iter()
                    .position(|&byte| IS_STRUCTURE[usize::from(byte)]);
                let Some(plain) = plain else {
                    self.at = data.len();
                    return None;
                };
                self.at += plain;
            }
            match data[self.at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    if self.depth <= 1 {
                        // Of a scalar this is the end of what holds it.
                        return Some(self.at + self.depth);
                    }
                    self.depth -= 1;
                }
                byte if self.depth == 0 && is_space(byte) => return Some(self.at),
                _ => {}
            }
            self.at += 1;
        }
        None
    }
}

/// Why the members of an object cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The data ends before the object does.
    Unfinished,
    /// This is no JSON.
    Malformed(&'static str),
}

/// Hands out name and value of each member of the object that begins at `start`, as they stand there, without the name's
/// quotes. The object's end.
pub fn members<'a>(
    data: &'a [u8],
    start: usize,
    visit: &mut impl FnMut(&'a [u8], &'a [u8]),
) -> Result<usize, Broken> {
    let mut at = start + 1;
    let mut is_first = true;
    loop {
        let mut has_comma = is_first;
        while let Some(&byte) = data.get(at).filter(|&&byte| is_space(byte)) {
            has_comma |= byte == b',';
            at += 1;
        }
        match data.get(at) {
            None => return Err(Broken::Unfinished),
            Some(b'}') => return Ok(at + 1),
            Some(b'"') if has_comma => {}
            Some(_) => return Err(Broken::Malformed("a comma or the name of a member is missing")),
        }
        is_first = false;
        let name_end = Scan::new(at).end(data).ok_or(Broken::Unfinished)?;
        let name = &data[at + 1..name_end - 1];
        at = name_end;
        while data.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        match data.get(at) {
            None => return Err(Broken::Unfinished),
            Some(b':') => at += 1,
            Some(_) => return Err(Broken::Malformed("a member has no value")),
        }
        while data.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        let value_end = Scan::new(at).end(data).ok_or(Broken::Unfinished)?;
        if value_end == at {
            return Err(Broken::Malformed("a member has no value"));
        }
        visit(name, &data[at..value_end]);
        at = value_end;
    }
}
