//! Decoder for the part of Python's pickle format that describes data: numbers, texts, lists, tuples and dictionaries.
//!
//! A pickle is a program for a stack machine. Some of its instructions import and call Python functions. Dumps do not
//! need these, so this decoder does not implement them: it stops at the first one and reports it.
//!
//! Lists and dictionaries are in one list and refer to each other by number. A pickle that names a value many times
//! therefore needs only a small multiple of its file in memory. Python's `pickletools` documents the format.
//!
//! The crate `serde-pickle` was considered. It copies a value each time a pickle names it, so a file of a few hundred
//! bytes can fill the memory. It returns nothing from a file that was cut off.

use crate::problem::Problem;

/// Maximum number of values. A dump of more than a hundred thousand operations with their stacks has fewer.
pub const MAX_VALUES: u32 = 1 << 24;

/// Number of a list, tuple or dictionary in [`Pickle::containers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(u32);

/// Value of a pickle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// `None`.
    Nothing,
    /// `True` or `False`.
    Truth(bool),
    /// Integer.
    Integer(i64),
    /// Floating-point number.
    Float(f64),
    /// Text; bytes that are no UTF-8 are replaced when it is read.
    Text(&'a [u8]),
    /// List, tuple or dictionary.
    Container(Number),
}

/// List, tuple or dictionary.
#[derive(Clone, Debug, PartialEq)]
pub enum Container<'a> {
    /// Elements of a list or a tuple.
    List(Vec<Value<'a>>),
    /// Keys and values of a dictionary, in the order of the pickle.
    Dictionary(Vec<(Value<'a>, Value<'a>)>),
}

/// Decoded pickle.
#[derive(Debug)]
pub struct Pickle<'a> {
    containers: Vec<Container<'a>>,
    /// Outermost value, as far as the pickle was read.
    pub top: Value<'a>,
    /// Why the pickle was not read to its end; `None` if it was.
    pub damage: Option<Problem>,
}

impl<'a> Pickle<'a> {
    /// Returns a list, tuple or dictionary.
    pub fn container(&self, number: Number) -> &Container<'a> {
        &self.containers[number.0 as usize]
    }
}

/// Element of the machine's stack.
#[derive(Clone, Copy)]
enum Slot<'a> {
    Value(Value<'a>),
    Mark,
}

/// The stack machine.
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Slot<'a>>,
    /// Number of marks on the stack.
    marks: usize,
    /// Number of values, marks and memo numbers so far.
    values: u32,
    memo: Memo<'a>,
    containers: Vec<Container<'a>>,
}

/// Values by the number that the pickle assigns to them. Writers count from 0, so a skipped number is damage.
#[derive(Default)]
struct Memo<'a>(Vec<Value<'a>>);

impl<'a> Memo<'a> {
    fn put(&mut self, number: usize, value: Value<'a>) -> Result<(), String> {
        let count = self.0.len();
        match self.0.get_mut(number) {
            Some(known) => *known = value,
            None if number == count => self.0.push(value),
            None => return Err(format!("a value gets number {number} after {count} numbers")),
        }
        Ok(())
    }

    fn get(&self, number: usize) -> Result<Value<'a>, String> {
        let known = self.0.get(number).copied();
        known.ok_or_else(|| format!("value number {number} is used before it is defined"))
    }
}

/// Decodes a pickle. What precedes damage is kept.
pub fn decode(bytes: &[u8]) -> Pickle<'_> {
    let mut machine = Machine {
        bytes,
        at: 0,
        stack: Vec::new(),
        marks: 0,
        values: 0,
        memo: Memo::default(),
        containers: Vec::new(),
    };
    let damage = loop {
        let start = machine.at;
        match machine.step() {
            Ok(true) => {
                let rest = bytes.len() - machine.at;
                break (rest > 0).then(|| Problem {
                    offset: machine.at as u64,
                    what: format!("bytes after the end of the pickle were left out: {rest}"),
                });
            }
            Ok(false) => {}
            Err(what) => {
                break Some(Problem {
                    offset: start as u64,
                    what,
                });
            }
        }
    };
    let top = machine.close();
    Pickle {
        containers: machine.containers,
        top,
        damage,
    }
}

impl<'a> Machine<'a> {
    /// Runs one instruction. Returns true if it was the last one.
    fn step(&mut self) -> Result<bool, String> {
        if self.values > MAX_VALUES {
            return Err(format!(
                "the pickle has more than {MAX_VALUES} values; the rest of the file was left out"
            ));
        }
        match self.byte()? {
            b'.' => return Ok(true),
            // PROTO, FRAME: the version, and a length that only helps to read ahead.
            0x80 => {
                self.take(1)?;
            }
            0x95 => {
                self.take(8)?;
            }
            b'(' => {
                self.stack.push(Slot::Mark);
                self.marks += 1;
                self.values += 1;
            }
            b'0' => {
                self.pop()?;
            }
            b'N' => self.push(Value::Nothing),
            0x88 => self.push(Value::Truth(true)),
            0x89 => self.push(Value::Truth(false)),
            b'K' => self.integer(1)?,
            b'M' => self.integer(2)?,
            b'J' => {
                let number = self.unsigned(4)? as u32 as i32;
                self.push(Value::Integer(i64::from(number)));
            }
            0x8A => self.long()?,
            b'G' => {
                let bits = self
                    .take(8)?
                    .iter()
                    .fold(0, |bits, &byte| bits << 8 | u64::from(byte));
                self.push(Value::Float(f64::from_bits(bits)));
            }
            // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8
            b'X' => self.text(4)?,
            0x8C => self.text(1)?,
            0x8D => self.text(8)?,
            // BINSTRING, SHORT_BINSTRING, SHORT_BINBYTES, BINBYTES
            b'T' | b'B' => self.text(4)?,
            b'U' | b'C' => self.text(1)?,
            b']' | b')' => self.open(Container::List(Vec::new())),
            b'}' => self.open(Container::Dictionary(Vec::new())),
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            b't' | b'l' => {
                let elements = self.above_mark()?;
                self.open(Container::List(elements));
            }
            b'd' => {
                let elements = self.above_mark()?;
                self.open(Container::Dictionary(pairs(&elements)));
            }
            // APPEND, APPENDS, SETITEM, SETITEMS
            b'a' => {
                let element = self.pop()?;
                self.extend(&[element])?;
            }
            b'e' | b'u' => {
                let elements = self.above_mark()?;
                self.extend(&elements)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.extend(&[key, value])?;
            }
            // BINPUT, LONG_BINPUT, MEMOIZE
            b'q' => self.put(1)?,
            b'r' => self.put(4)?,
            0x94 => {
                let number = self.memo.0.len();
                self.define(number)?;
            }
            // BINGET, LONG_BINGET
            b'h' => self.get(1)?,
            b'j' => self.get(4)?,
            code @ (b'c' | b'R' | b'b' | b'i' | b'o' | b'P' | b'Q' | 0x81 | 0x82..=0x84 | 0x92 | 0x93) => {
                return Err(format!(
                    "instruction 0x{code:02x} of the pickle would run code, which a dump never needs; the rest of the \
                     file was left out"
                ));
            }
            code => {
                return Err(format!(
                    "PyTorch never writes instruction 0x{code:02x}; the rest of the file was left out"
                ));
            }
        }
        Ok(false)
    }

    /// Ends all open containers, as if their ends followed here. Returns the outermost value.
    fn close(&mut self) -> Value<'a> {
        while self.marks > 0 {
            let Ok(elements) = self.above_mark() else { break };
            if self.extend(&elements).is_err() {
                // An open tuple has no container yet.
                self.open(Container::List(elements));
            }
        }
        match self.stack.first() {
            Some(&Slot::Value(value)) => value,
            _ => Value::Nothing,
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let rest = &self.bytes[self.at..];
        let taken = rest
            .get(..count)
            .ok_or_else(|| format!("the file ends here, {} bytes early", count - rest.len()))?;
        self.at += count;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    /// Reads a little-endian number of at most 8 bytes.
    fn unsigned(&mut self, count: usize) -> Result<u64, String> {
        let bytes = self.take(count)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn push(&mut self, value: Value<'a>) {
        self.values += 1;
        self.stack.push(Slot::Value(value));
    }

    fn pop(&mut self) -> Result<Value<'a>, String> {
        let value = self.last()?;
        self.stack.pop();
        Ok(value)
    }

    fn last(&self) -> Result<Value<'a>, String> {
        match self.stack.last() {
            Some(&Slot::Value(value)) => Ok(value),
            _ => Err("an instruction of the pickle has no value to work on".to_owned()),
        }
    }

    fn integer(&mut self, count: usize) -> Result<(), String> {
        let number = self.unsigned(count)?;
        self.push(Value::Integer(number as i64));
        Ok(())
    }

    /// Reads LONG1: a signed number of any length. A dump has no number beyond 64 bits.
    fn long(&mut self) -> Result<(), String> {
        let count = usize::from(self.byte()?);
        if count > 8 {
            return Err(format!("a number has {count} bytes, a dump at most 8"));
        }
        let number = self.unsigned(count)?;
        let unused = 64 - 8 * count as u32;
        let signed = if count == 0 {
            0
        } else {
            (number << unused) as i64 >> unused
        };
        self.push(Value::Integer(signed));
        Ok(())
    }

    fn text(&mut self, size_bytes: usize) -> Result<(), String> {
        let size = self.unsigned(size_bytes)?;
        let size = usize::try_from(size).map_err(|_| format!("a text has {size} bytes"))?;
        let text = self.take(size)?;
        self.push(Value::Text(text));
        Ok(())
    }

    fn open(&mut self, container: Container<'a>) {
        let number = Number(self.containers.len() as u32);
        self.containers.push(container);
        self.push(Value::Container(number));
    }

    fn tuple(&mut self, count: usize) -> Result<(), String> {
        let mut elements = vec![Value::Nothing; count];
        for place in elements.iter_mut().rev() {
            *place = self.pop()?;
        }
        self.open(Container::List(elements));
        Ok(())
    }

    /// Takes all values above the last mark, and the mark.
    fn above_mark(&mut self) -> Result<Vec<Value<'a>>, String> {
        let mark = self.stack.iter().rposition(|slot| matches!(slot, Slot::Mark));
        let mark = mark.ok_or("an instruction of the pickle has no mark")?;
        self.marks -= 1;
        let taken = self.stack.drain(mark..).filter_map(|slot| match slot {
            Slot::Value(value) => Some(value),
            Slot::Mark => None,
        });
        Ok(taken.collect())
    }

    /// Adds elements, or alternating keys and values, to the container on the stack.
    fn extend(&mut self, elements: &[Value<'a>]) -> Result<(), String> {
        let Value::Container(number) = self.last()? else {
            return Err("an element of the pickle has no list or dictionary".to_owned());
        };
        match &mut self.containers[number.0 as usize] {
            Container::List(list) => list.extend_from_slice(elements),
            Container::Dictionary(dictionary) => dictionary.extend(pairs(elements)),
        }
        Ok(())
    }

    fn put(&mut self, number_bytes: usize) -> Result<(), String> {
        let number = self.unsigned(number_bytes)? as usize;
        self.define(number)
    }

    fn define(&mut self, number: usize) -> Result<(), String> {
        self.values += 1;
        self.memo.put(number, self.last()?)
    }

    fn get(&mut self, number_bytes: usize) -> Result<(), String> {
        let number = self.unsigned(number_bytes)? as usize;
        let value = self.memo.get(number)?;
        self.push(value);
        Ok(())
    }
}

/// Returns keys and values. A key without a value is left out.
fn pairs<'a>(elements: &[Value<'a>]) -> Vec<(Value<'a>, Value<'a>)> {
    elements.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_values_are_decoded() {
        // {"a": [1, -1, 300, (None, True)], "b": 2**40} as PyTorch's pickler writes it.
        let bytes = b"\x80\x02}(X\x01\0\0\0aq\0](K\x01J\xff\xff\xff\xffM\x2c\x01(N\x88te\
            X\x01\0\0\0bq\x01\x8a\x08\0\0\0\0\0\x01\0\0u.";
        let pickle = decode(bytes);
        assert_eq!(pickle.damage, None);
        let Value::Container(top) = pickle.top else {
            panic!("{:?}", pickle.top)
        };
        let Container::Dictionary(pairs) = pickle.container(top) else {
            panic!("a dictionary")
        };
        assert_eq!(pairs[1], (Value::Text(b"b"), Value::Integer(1 << 40)));
        let Value::Container(list) = pairs[0].1 else {
            panic!("a list")
        };
        let Container::List(list) = pickle.container(list) else {
            panic!("a list")
        };
        assert_eq!(
            list[..3],
            [Value::Integer(1), Value::Integer(-1), Value::Integer(300)]
        );
    }

    #[test]
    fn bytes_after_the_end_are_reported() {
        let damage = decode(b"\x80\x02N.N").damage.expect("one byte");
        assert_eq!((damage.offset, damage.what.ends_with(": 1")), (4, true));
    }

    #[test]
    fn code_is_never_run_and_what_precedes_it_is_kept() {
        // [1, os.system("true")]
        let bytes = b"\x80\x02](K\x01cos\nsystem\nX\x04\0\0\0true\x85Re.";
        let pickle = decode(bytes);
        let damage = pickle.damage.as_ref().expect("refused");
        assert_eq!(damage.offset, 6);
        assert!(damage.what.contains("would run code"), "{}", damage.what);
        let Value::Container(top) = pickle.top else {
            panic!("{:?}", pickle.top)
        };
        assert_eq!(pickle.container(top), &Container::List(vec![Value::Integer(1)]));
    }

    #[test]
    fn a_pickle_that_names_values_many_times_stays_small() {
        // Each list has the previous one twice: 2^60 values in 300 bytes.
        let mut bytes = b"]q\0".to_vec();
        for number in 0..60u8 {
            bytes.extend([b']', b'(', b'h', number, b'h', number, b'e', b'q', number + 1]);
        }
        bytes.push(b'.');
        let pickle = decode(&bytes);
        assert_eq!(pickle.damage, None);
        assert_eq!(pickle.containers.len(), 61);
    }
}
