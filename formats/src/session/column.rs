//! Column of the row group that is being written. It encodes values as they arrive.

use super::encoding::{Delta, Sequence};
use super::storage::Storage;
use parquet::basic::{Encoding, Type};
use parquet::file::statistics::Statistics;
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Maximum number of distinct values in a dictionary. A column with more values stores differences, or plain text.
const MAX_KEYS: usize = 1 << 12;

/// Encoded values of a column so far.
enum Values {
    Delta(Delta),
    Numbers(Numbers),
    Texts(Texts),
    /// Bytes as in the file, and the number of values.
    Plain(Vec<u8>, usize),
    Bits(Vec<u8>, usize),
}

/// Dictionary of numbers: indices into the list of distinct values. Values of fixed sets of names are stored as numbers
/// too.
#[derive(Default)]
struct Numbers {
    places: Sequence,
    known: FxHashMap<i64, u16>,
    keys: Vec<i64>,
    last: Option<(i64, u16)>,
    /// Returns the name of a number, if the numbers represent names.
    name_of: Option<fn(i64) -> &'static str>,
}

/// Dictionary of texts: indices into the list of distinct values.
#[derive(Default)]
struct Texts {
    places: Sequence,
    known: FxHashMap<Box<str>, u16>,
    keys: Vec<Box<str>>,
    last: Option<u16>,
}

/// Returns the next index of a dictionary; `None` if the dictionary is full.
fn next_place(keys: usize) -> Option<u16> {
    (keys < MAX_KEYS).then_some(keys as u16)
}

impl Numbers {
    /// Appends a value `count` times. Returns false and appends nothing if the dictionary is full.
    #[inline]
    fn push_run(&mut self, value: i64, count: usize) -> bool {
        let place = match self.last {
            Some((last, place)) if last == value => place,
            _ => {
                let place = match self.known.get(&value) {
                    Some(&place) => place,
                    None => {
                        let Some(place) = next_place(self.keys.len()) else {
                            return false;
                        };
                        self.known.insert(value, place);
                        self.keys.push(value);
                        place
                    }
                };
                self.last = Some((value, place));
                place
            }
        };
        self.places.push_run(place, count);
        true
    }
}

impl Texts {
    fn push(&mut self, value: &str) -> bool {
        let is_last = |&place: &u16| &*self.keys[usize::from(place)] == value;
        let known = self
            .last
            .filter(is_last)
            .or_else(|| self.known.get(value).copied());
        let place = match known {
            Some(place) => place,
            None => {
                let Some(place) = next_place(self.keys.len()) else {
                    return false;
                };
                self.known.insert(value.into(), place);
                self.keys.push(value.into());
                place
            }
        };
        self.last = Some(place);
        self.places.push_run(place, 1);
        true
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Maps the bits of a double to a number with the same order. The function is its own inverse.
fn in_order(bits: i64) -> i64 {
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// Column chunk before compression.
pub(super) struct Chunk {
    /// Encoded values of the dictionary and their number, if there is a dictionary.
    pub dictionary: Option<(Vec<u8>, u32)>,
    /// Levels and values of the chunk's only page.
    pub page: Vec<u8>,
    /// Encoding of the values in the page.
    pub encoding: Encoding,
    /// Number of rows without a value.
    pub nulls: u32,
    /// Smallest and largest value, in the order that [`statistics`] expects.
    pub range: Option<(i64, i64)>,
}

/// Column of a row group.
pub(super) struct Column {
    physical: Type,
    is_nullable: bool,
    storage: Storage,
    /// For each row, 1 if it has a value and 0 if not.
    present: Sequence,
    nulls: u32,
    range: Option<(i64, i64)>,
    is_unsigned: bool,
    values: Values,
    /// True if an earlier row group had too many distinct values. Later row groups then do not start with a dictionary.
    overflowed: bool,
}

impl Column {
    /// Creates an empty column. `physical` is Parquet's type; `is_unsigned` defines the order of the values.
    pub fn new(physical: Type, is_nullable: bool, is_unsigned: bool, storage: Storage) -> Self {
        let mut column = Self {
            physical,
            is_nullable,
            storage,
            present: Sequence::default(),
            nulls: 0,
            range: None,
            is_unsigned,
            values: Values::Plain(Vec::new(), 0),
            overflowed: false,
        };
        column.values = column.empty();
        column
    }

    fn empty(&self) -> Values {
        let by_keys = self.storage == Storage::Dictionary && !self.overflowed;
        match self.physical {
            Type::BOOLEAN => Values::Bits(Vec::new(), 0),
            Type::BYTE_ARRAY if by_keys => Values::Texts(Texts::default()),
            Type::INT32 | Type::INT64 if by_keys => Values::Numbers(Numbers::default()),
            Type::INT32 | Type::INT64 if self.storage != Storage::Plain => self.differences(),
            _ => Values::Plain(Vec::new(), 0),
        }
    }

    fn differences(&self) -> Values {
        Values::Delta(Delta::new(self.physical == Type::INT32))
    }

    /// Returns true if compression of the encoded values may pay off.
    pub fn may_shrink(&self) -> bool {
        self.storage != Storage::Moment
    }

    /// Counts `count` rows that all have a value, or all have none.
    #[inline]
    fn rows(&mut self, are_there: bool, count: usize) {
        if !are_there {
            self.nulls += count as u32;
        }
        if self.is_nullable {
            self.present.push_run(u16::from(are_there), count);
        }
    }

    /// Appends numbers as 64-bit values. Unsigned 64-bit numbers are passed by their bits.
    #[inline]
    pub fn numbers(&mut self, values: impl Iterator<Item = Option<i64>>) {
        let flip = if self.is_unsigned { i64::MIN } else { 0 };
        self.each(values, |value| value ^ flip);
    }

    /// Appends doubles.
    #[inline]
    pub fn doubles(&mut self, values: impl Iterator<Item = Option<f64>>) {
        self.each(
            values.map(|value| value.map(|value| value.to_bits() as i64)),
            in_order,
        );
    }

    /// Appends values. `key` returns the number that orders a value.
    #[inline]
    fn each(&mut self, values: impl Iterator<Item = Option<i64>>, key: impl Fn(i64) -> i64) {
        let (mut least, mut most) = self.range.unwrap_or((i64::MAX, i64::MIN));
        let mut bound = |value: i64| {
            let key = key(value);
            least = least.min(key);
            most = most.max(key);
        };
        // Counts equal neighbours as runs: most columns of most tables keep one value for a long time.
        let mut alike = (true, 0);
        if let Values::Delta(delta) = &mut self.values {
            for value in values {
                if value.is_some() != alike.0 {
                    self.nulls += if alike.0 { 0 } else { alike.1 as u32 };
                    self.present.push_run(u16::from(alike.0), alike.1);
                    alike = (value.is_some(), 0);
                }
                alike.1 += 1;
                if let Some(value) = value {
                    bound(value);
                    delta.push(value);
                }
            }
        } else {
            let mut run = (0, 0);
            for value in values {
                if value.is_some() != alike.0 {
                    self.rows(alike.0, alike.1);
                    alike = (value.is_some(), 0);
                }
                alike.1 += 1;
                if let Some(value) = value {
                    if value != run.0 || run.1 == 0 {
                        bound(value);
                        self.number(run.0, run.1);
                        run = (value, 0);
                    }
                    run.1 += 1;
                }
            }
            self.number(run.0, run.1);
        }
        self.rows(alike.0, alike.1);
        self.range = (least <= most).then_some((least, most));
    }

    /// Appends a number `times` times.
    #[inline]
    fn number(&mut self, value: i64, times: usize) {
        if times == 0 {
            return;
        }
        match &mut self.values {
            Values::Delta(delta) => (0..times).for_each(|_| delta.push(value)),
            Values::Numbers(numbers) => {
                if !numbers.push_run(value, times) {
                    self.overflow();
                    self.number(value, times);
                }
            }
            Values::Plain(out, count) => {
                *count += times;
                for _ in 0..times {
                    match self.physical {
                        Type::INT32 => out.extend_from_slice(&(value as i32).to_le_bytes()),
                        _ => out.extend_from_slice(&value.to_le_bytes()),
                    }
                }
            }
            // Columns of texts and bits never receive numbers.
            Values::Texts(_) | Values::Bits(..) => {}
        }
    }

    /// Encodes the values so far again without a dictionary, because the dictionary is full.
    #[cold]
    fn overflow(&mut self) {
        self.overflowed = true;
        let other = self.empty();
        match std::mem::replace(&mut self.values, other) {
            Values::Numbers(numbers) => {
                // The recursion ends after one level: differences and plain values accept every number.
                (0..numbers.places.len())
                    .for_each(|row| self.number(numbers.keys[usize::from(numbers.places.at(row))], 1));
            }
            Values::Texts(texts) => {
                (0..texts.places.len())
                    .for_each(|row| self.put(&texts.keys[usize::from(texts.places.at(row))]));
            }
            others => self.values = others,
        }
    }

    /// Appends booleans.
    pub fn bits(&mut self, values: impl Iterator<Item = bool>) {
        for value in values {
            self.rows(true, 1);
            if let Values::Bits(out, count) = &mut self.values {
                if *count % 8 == 0 {
                    out.push(0);
                }
                if let Some(last) = out.last_mut() {
                    *last |= u8::from(value) << (*count % 8);
                }
                *count += 1;
            }
        }
    }

    /// Appends names of a fixed set, given by their numbers.
    pub fn names(&mut self, values: impl Iterator<Item = u8>, name_of: fn(i64) -> &'static str) {
        if let Values::Texts(texts) = &self.values
            && texts.keys.is_empty()
        {
            self.values = Values::Numbers(Numbers {
                name_of: Some(name_of),
                ..Numbers::default()
            });
        }
        let mut run = (0, 0);
        for value in values {
            if value != run.0 {
                self.name(run);
                run = (value, 0);
            }
            run.1 += 1;
        }
        self.name(run);
    }

    #[inline]
    fn name(&mut self, (value, count): (u8, usize)) {
        self.rows(true, count);
        if count > 0
            && let Values::Numbers(numbers) = &mut self.values
        {
            // A dictionary has space for all values of a byte, so this never fails.
            numbers.push_run(i64::from(value), count);
        }
    }

    /// Appends texts.
    pub fn texts<'t>(&mut self, values: impl Iterator<Item = Option<Cow<'t, str>>>) {
        for value in values {
            self.rows(value.is_some(), 1);
            if let Some(value) = value {
                self.put(&value);
            }
        }
    }

    fn put(&mut self, text: &str) {
        match &mut self.values {
            Values::Texts(texts) => {
                if !texts.push(text) {
                    self.overflow();
                    self.put(text);
                }
            }
            Values::Plain(out, count) => {
                *count += 1;
                put_text(text, out);
            }
            Values::Delta(_) | Values::Numbers(_) | Values::Bits(..) => {}
        }
    }

    /// Returns the encoded rows and empties the column.
    pub fn finish(&mut self) -> Chunk {
        let mut page = Vec::new();
        if self.is_nullable {
            page.extend_from_slice(&[0; 4]);
            self.present.put_hybrid(1, &mut page);
            let levels = (page.len() - 4) as u32;
            page[..4].copy_from_slice(&levels.to_le_bytes());
        }
        let mut dictionary = None;
        let empty = self.empty();
        let encoding = match std::mem::replace(&mut self.values, empty) {
            Values::Delta(mut delta) if delta.len() > 0 => {
                delta.finish(&mut page);
                Encoding::DELTA_BINARY_PACKED
            }
            Values::Numbers(numbers) if numbers.places.len() > 0 => {
                let mut keys = Vec::new();
                for &key in &numbers.keys {
                    match (numbers.name_of, self.physical) {
                        (Some(name_of), _) => put_text(name_of(key), &mut keys),
                        (None, Type::INT32) => keys.extend_from_slice(&(key as i32).to_le_bytes()),
                        (None, _) => keys.extend_from_slice(&key.to_le_bytes()),
                    }
                }
                put_places(&numbers.places, numbers.keys.len(), &mut page);
                dictionary = Some((keys, numbers.keys.len() as u32));
                Encoding::RLE_DICTIONARY
            }
            Values::Texts(texts) if texts.places.len() > 0 => {
                let mut keys = Vec::new();
                texts.keys.iter().for_each(|key| put_text(key, &mut keys));
                put_places(&texts.places, texts.keys.len(), &mut page);
                dictionary = Some((keys, texts.keys.len() as u32));
                Encoding::RLE_DICTIONARY
            }
            Values::Plain(bytes, _) | Values::Bits(bytes, _) => {
                page.extend_from_slice(&bytes);
                Encoding::PLAIN
            }
            // No row has a value.
            Values::Delta(_) | Values::Numbers(_) | Values::Texts(_) => Encoding::PLAIN,
        };
        self.present = Sequence::default();
        Chunk {
            dictionary,
            page,
            encoding,
            nulls: std::mem::take(&mut self.nulls),
            range: self.range.take(),
        }
    }
}

fn put_places(places: &Sequence, keys: usize, page: &mut Vec<u8>) {
    let width = usize::BITS - keys.saturating_sub(1).leading_zeros();
    page.push(width as u8);
    places.put_hybrid(width, page);
}

/// Returns the statistics of a chunk for the footer.
pub(super) fn statistics(
    physical: Type,
    is_unsigned: bool,
    range: Option<(i64, i64)>,
    nulls: u32,
) -> Option<Statistics> {
    let (least, most) = range?;
    let nulls = Some(u64::from(nulls));
    let flip = if is_unsigned { i64::MIN } else { 0 };
    Some(match physical {
        Type::INT32 => {
            let [least, most] = [least, most].map(|key| Some((key ^ flip) as i32));
            Statistics::int32(least, most, None, nulls, false)
        }
        Type::INT64 => {
            let [least, most] = [least, most].map(|key| Some(key ^ flip));
            Statistics::int64(least, most, None, nulls, false)
        }
        Type::DOUBLE => {
            let [least, most] = [least, most].map(|key| Some(f64::from_bits(in_order(key) as u64)));
            Statistics::double(least, most, None, nulls, false)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::table::table;
    use crate::ids::{CommunicatorId, RankIndex, StepIndex};
    use crate::session::{RowLimits, Table, TableReader, TableWriter};
    use parquet::file::reader::FileReader;
    use parquet::file::serialized_reader::SerializedFileReader;
    use parquet::file::statistics::Statistics;
    use proptest::prelude::*;
    use rankscope_ranklog::Library;
    use std::borrow::Cow;

    table! {
        /// Row with a column of every type in every storage that sessions use.
        EveryRow = "every", sorted by |_| 0;
        /// Unsigned, stored as differences.
        unsigned: u64 = Delta,
        /// Stored with a dictionary.
        keys: Option<u64> = Dictionary,
        /// 32 bits, stored as differences.
        narrow: u32 = Delta,
        /// 32 bits, stored with a dictionary.
        narrow_keys: Option<u32> = Dictionary,
        /// Timestamp.
        moment: i64 = Moment,
        /// Signed and optional.
        signed: Option<i64> = Delta,
        /// Byte.
        byte: u8 = Delta,
        /// Stored plain.
        plain: u64 = Plain,
        /// Optional double.
        double: Option<f64> = Plain,
        /// Boolean.
        bit: bool = Plain,
        /// Name of a fixed set.
        library: Library = Dictionary,
        /// Text, stored with a dictionary.
        text: Option<Cow<'static, str>> = Dictionary,
        /// Text, stored plain.
        plain_text: String = Plain,
    }

    table! {
        /// Row of plain numbers.
        Numbers = "numbers", sorted by |_| 0;
        /// In every row, stored as differences.
        own: u32 = Delta,
        /// In some rows, stored as differences.
        other: Option<u32> = Delta,
        /// In some rows, stored with a dictionary.
        key: Option<u32> = Dictionary,
    }

    table! {
        /// Row of identifiers in the same columns.
        Identifiers = "numbers", sorted by |_| 0;
        /// See [`Numbers::own`].
        own: CommunicatorId = Delta,
        /// See [`Numbers::other`].
        other: Option<StepIndex> = Delta,
        /// See [`Numbers::key`].
        key: Option<RankIndex> = Dictionary,
    }

    /// Writes rows as a table. Returns the bytes of the file, and the rows that are read back.
    fn written<T: Table>(rows: &mut Vec<T>) -> (Vec<u8>, Vec<T>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("numbers.parquet");
        let limits = RowLimits {
            per_group: 100,
            held: 1,
        };
        let mut writer = TableWriter::create(&path, limits).expect("a table");
        writer.write(rows).expect("rows");
        writer.finish().expect("a footer");
        let read = TableReader::<T>::read_all(&path).expect("rows");
        (std::fs::read(&path).expect("a file"), read)
    }

    #[test]
    fn identifiers_are_stored_as_numbers() {
        let some = |row: u32| (!row.is_multiple_of(3)).then_some(row * 7);
        let mut numbers: Vec<Numbers> = (0..250)
            .map(|row| Numbers {
                own: row / 5,
                other: some(row),
                key: some(row % 9),
            })
            .collect();
        let mut identifiers: Vec<Identifiers> = (0..250)
            .map(|row| Identifiers {
                own: CommunicatorId(row / 5),
                other: some(row).map(StepIndex),
                key: some(row % 9).map(RankIndex),
            })
            .collect();
        let expected = identifiers.clone();
        let (bytes, _) = written(&mut numbers);
        let (bytes_of_identifiers, read) = written(&mut identifiers);
        assert_eq!(bytes, bytes_of_identifiers);
        assert_eq!(read, expected);
    }

    /// Sequence of values in a column.
    #[derive(Clone, Copy, Debug)]
    enum Run {
        Constant,
        Steady,
        Few,
        Noise,
        Missing,
    }

    fn any_run() -> impl Strategy<Value = Run> {
        prop_oneof![
            Just(Run::Constant),
            Just(Run::Steady),
            Just(Run::Few),
            Just(Run::Noise),
            Just(Run::Missing)
        ]
    }

    /// Returns a deterministic pseudo-random number for a row (splitmix64).
    fn noise(row: u64) -> u64 {
        let mut z = row.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 31)
    }

    fn value(run: Run, row: u64) -> Option<u64> {
        match run {
            Run::Constant => Some(u64::MAX),
            // Also wraps around past the largest number.
            Run::Steady => Some((u64::MAX - 700).wrapping_add(row * 3)),
            Run::Few => (!noise(row).is_multiple_of(11)).then(|| noise(row) % 7),
            Run::Noise => Some(noise(row)),
            Run::Missing => None,
        }
    }

    fn row(runs: &[Run], row: u64) -> EveryRow {
        let number = |column: usize| value(runs[column % runs.len()], row);
        let there = |column: usize| number(column).unwrap_or(row);
        EveryRow {
            unsigned: there(0),
            keys: number(1),
            narrow: there(2) as u32,
            narrow_keys: number(3).map(|value| value as u32),
            moment: there(4) as i64,
            signed: number(5).map(|value| value as i64),
            byte: there(6) as u8,
            plain: there(7),
            double: number(8).map(|value| value as i64 as f64 / 7.0),
            bit: there(9) % 2 == 1,
            library: Library::ALL[there(10) as usize % Library::ALL.len()],
            text: number(11).map(|value| Cow::Owned(value.to_string())),
            plain_text: format!("{:x}", there(12)),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Every column is read back by another implementation, and the bounds in the footer are those of its values.
        #[test]
        fn every_kind_of_column_comes_back(
            runs in proptest::collection::vec(any_run(), 13),
            rows in prop_oneof![0u64..3, 120u64..140, 5000u64..6000],
            per_group in prop_oneof![Just(100usize), Just(1 << 16)],
        ) {
            let folder = tempfile::tempdir()?;
            let path = folder.path().join("every.parquet");
            let limits = RowLimits { per_group, held: 1 };
            let mut writer = TableWriter::create(&path, limits)?;
            let written: Vec<EveryRow> = (0..rows).map(|number| row(&runs, number)).collect();
            for part in written.chunks(100) {
                writer.write(&mut part.to_vec())?;
            }
            let (count, bytes) = writer.finish()?;
            prop_assert_eq!((count, bytes), (rows, std::fs::metadata(&path)?.len()));
            let back = TableReader::<EveryRow>::read_all(&path)?;
            prop_assert_eq!(back.len(), written.len());
            for (back, written) in back.iter().zip(&written) {
                prop_assert_eq!(back, written);
            }
            let footer = SerializedFileReader::new(std::fs::File::open(&path)?)?;
            let mut at = 0;
            for group in footer.metadata().row_groups() {
                let rows = &written[at..at + group.num_rows() as usize];
                at += rows.len();
                let Some(Statistics::Int64(unsigned)) = group.column(0).statistics() else {
                    return Err(TestCaseError::fail("no bounds of unsigned numbers"));
                };
                let bounds = (unsigned.min_opt().map(|&least| least as u64), unsigned.max_opt().map(|&most| most as u64));
                let true_bounds = (rows.iter().map(|row| row.unsigned).min(), rows.iter().map(|row| row.unsigned).max());
                prop_assert_eq!(bounds, true_bounds);
                let signed: Vec<i64> = rows.iter().filter_map(|row| row.signed).collect();
                match group.column(5).statistics() {
                    Some(Statistics::Int64(found)) => {
                        prop_assert_eq!((found.min_opt(), found.max_opt()), (signed.iter().min(), signed.iter().max()));
                        prop_assert_eq!(found.null_count_opt(), Some((rows.len() - signed.len()) as u64));
                    }
                    _ => prop_assert!(signed.is_empty()),
                }
            }
            prop_assert_eq!(at, written.len());
        }
    }
}
