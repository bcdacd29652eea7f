//! Search for the ends of JSON values, so that events can be split off without parsing members that nobody needs.

/// Returns true for bytes between values.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',')
}

/// Strings above this length are searched with a vectorised search.
const SHORT: usize = 16;

/// Bytes that start or end a string, an object or a list.
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

/// Returns the position of the first quote or backslash.
#[inline]
fn string_byte(rest: &[u8]) -> Option<usize> {
    let short = &rest[..rest.len().min(SHORT)];
    short
        .iter()
        .position(|&byte| byte == b'"' || byte == b'\\')
        .or_else(|| memchr::memchr2(b'"', b'\\', &rest[short.len()..]).map(|hit| hit + short.len()))
}

/// State of the search for the end of a value.
pub struct Scan {
    /// Position at which the search continues.
    pub at: usize,
    /// Number of open objects and lists.
    pub depth: usize,
    /// True inside a string.
    pub in_string: bool,
}

impl Scan {
    /// Starts a search for the end of the value that starts at `start`.
    pub fn new(start: usize) -> Self {
        Self {
            at: start,
            depth: 0,
            in_string: false,
        }
    }

    /// Returns the end if it is in `data`. Otherwise the search can continue once there is more data.
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
                        // The escaped byte has not been read yet.
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
                // Most bytes are irrelevant here.
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
                        // For a scalar, this is the end of the enclosing object or list.
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

/// Reason why the members of an object cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The data ends before the object.
    Unfinished,
    /// The data is not JSON.
    Malformed(&'static str),
}

/// Calls `visit` with the name and the value of each member of the object that starts at `start`. Both are as in the
/// file, the name without quotes. Returns the end of the object.
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
