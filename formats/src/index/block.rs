//! Encoding of the spans of a block: about eight bytes per span.
//!
//! ```text
//! per span, variable-length integers (LEB128):
//!   start − end of the previous span (first span: − start of the block)
//!   end − start
//!   name << 6 | was queued << 5 | has an instance << 4 | has waited << 3 | class
//!   waiting, if it has waited
//!   time in the queue, if it was queued
//!   instance − that of the previous span with one (first such span: − 0), zigzag, if it has an instance
//! ```

use super::Span;

pub(super) const MAX_NAME: u32 = (1 << 26) - 1;

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Encodes spans that are in order and do not overlap. The block starts with the first of them.
pub(super) fn encode(spans: &[Span], out: &mut Vec<u8>) {
    let mut at = spans.first().map_or(0, |first| first.start_ns);
    let mut instance = 0u64;
    for span in spans {
        put(out, span.start_ns.wrapping_sub(at) as u64);
        put(out, span.end_ns.wrapping_sub(span.start_ns) as u64);
        let flags = u64::from(span.queued_ns > 0) << 5
            | u64::from(span.instance.is_some()) << 4
            | u64::from(span.wait_ns > 0) << 3;
        put(
            out,
            u64::from(span.name.min(MAX_NAME)) << 6 | flags | u64::from(span.class),
        );
        if span.wait_ns > 0 {
            put(out, span.wait_ns as u64);
        }
        if span.queued_ns > 0 {
            put(out, span.queued_ns as u64);
        }
        if let Some(number) = span.instance {
            let delta = number.wrapping_sub(instance) as i64;
            put(out, ((delta << 1) ^ (delta >> 63)) as u64);
            instance = number;
        }
        at = span.end_ns;
    }
}

/// Decodes at most `count` spans of a block that starts at `start_ns`. Damaged bytes give fewer spans. The spans are in
/// order for any input.
pub(super) fn decode(mut bytes: &[u8], start_ns: i64, count: usize, out: &mut Vec<Span>) {
    let mut at = start_ns;
    let mut instance = 0u64;
    for _ in 0..count {
        let Some(span) = next(&mut bytes, at, &mut instance) else {
            return;
        };
        at = span.end_ns;
        out.push(span);
    }
}

#[inline]
fn next(bytes: &mut &[u8], at: i64, instance: &mut u64) -> Option<Span> {
    let start_ns = at.checked_add_unsigned(take(bytes)?)?;
    let duration = i64::try_from(take(bytes)?).ok()?;
    let end_ns = start_ns.checked_add(duration)?;
    let packed = take(bytes)?;
    let wait_ns = if packed & 1 << 3 == 0 {
        0
    } else {
        i64::try_from(take(bytes)?).ok()?.min(duration)
    };
    let queued_ns = if packed & 1 << 5 == 0 {
        0
    } else {
        i64::try_from(take(bytes)?).ok()?
    };
    let has_instance = packed & 1 << 4 != 0;
    if has_instance {
        let zigzag = take(bytes)?;
        *instance = instance.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg());
    }
    Some(Span {
        start_ns,
        end_ns,
        wait_ns,
        queued_ns,
        class: (packed & 7) as u8,
        name: u32::try_from(packed >> 6).ok()?,
        instance: has_instance.then_some(*instance),
    })
}
