//! Colour map cividis: dark blue to yellow, with uniform lightness, readable with any colour vision and in grey. After
//! Nuñez, Anderton and Renslow, 2018 (doi 10.1371/journal.pone.0199239).
//!
//! It has 255 colours, which are distinct except for some neighbours. So a colour in a picture gives its number within
//! one, and its value with the scale.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Number of colours. One value of a byte is left for *no value*.
pub const COLOURS: usize = 255;

const STOPS: [[u8; 3]; 12] = [
    [0x00, 0x20, 0x4d],
    [0x00, 0x30, 0x6f],
    [0x2a, 0x40, 0x6c],
    [0x48, 0x52, 0x6b],
    [0x5e, 0x62, 0x6e],
    [0x72, 0x73, 0x74],
    [0x87, 0x84, 0x79],
    [0x9e, 0x96, 0x77],
    [0xb6, 0xa9, 0x71],
    [0xd0, 0xbe, 0x67],
    [0xea, 0xd3, 0x57],
    [0xff, 0xea, 0x46],
];

/// Returns the colour with this number; larger numbers mean the last colour.
pub fn colour(number: u8) -> [u8; 3] {
    static ALL: OnceLock<[[u8; 3]; COLOURS]> = OnceLock::new();
    let all = ALL.get_or_init(|| std::array::from_fn(|number| mixed(number as u8)));
    all[usize::from(number).min(COLOURS - 1)]
}

fn mixed(number: u8) -> [u8; 3] {
    let at = f64::from(number).min((COLOURS - 1) as f64) / (COLOURS - 1) as f64 * (STOPS.len() - 1) as f64;
    let low = (at.floor() as usize).min(STOPS.len() - 2);
    let part = at - low as f64;
    let mix = |channel: usize| {
        let (from, to) = (f64::from(STOPS[low][channel]), f64::from(STOPS[low + 1][channel]));
        (from + (to - from) * part).round() as u8
    };
    [mix(0), mix(1), mix(2)]
}

/// Returns the number of a colour, the lower one if two neighbours are equal. `None`: the colour is not on the map.
pub fn number(colour_of: [u8; 3]) -> Option<u8> {
    static NUMBERS: OnceLock<BTreeMap<[u8; 3], u8>> = OnceLock::new();
    let numbers = NUMBERS.get_or_init(|| {
        (0..COLOURS as u8)
            .rev()
            .map(|number| (colour(number), number))
            .collect()
    });
    numbers.get(&colour_of).copied()
}

/// Whether white letters are more readable than black ones on this colour.
pub fn is_dark(number: u8) -> bool {
    // At this luminance both have the same contrast: (1 + 0.05) / (l + 0.05) = (l + 0.05) / 0.05.
    luminance(colour(number)) < 0.179
}

/// Computes the relative luminance as defined by the contrast rules of the web.
fn luminance(colour: [u8; 3]) -> f64 {
    let [r, g, b] = colour.map(|channel| {
        let value = f64::from(channel) / 255.0;
        if value <= 0.04045 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lightness_only_grows_and_a_colour_gives_its_number_within_one() {
        let all: Vec<[u8; 3]> = (0..COLOURS as u8).map(colour).collect();
        // A channel is rounded: a step may lose as much as rounding changes.
        assert!(
            all.windows(2)
                .all(|pair| luminance(pair[0]) <= luminance(pair[1]) + 0.002)
        );
        for (expected, &of) in (0..COLOURS as u8).zip(&all) {
            let found = number(of).expect("on the map");
            assert!(expected - found <= 1, "{expected}: {found}");
        }
        assert_eq!(all[0], [0x00, 0x20, 0x4d]);
        assert_eq!(all[COLOURS - 1], [0xff, 0xea, 0x46]);
        assert_eq!(number([0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn letters_are_readable_on_every_colour() {
        for number in 0..COLOURS as u8 {
            let cell = luminance(colour(number));
            let letters = if is_dark(number) { 1.0 } else { 0.0 };
            let (light, dark) = (cell.max(letters), cell.min(letters));
            let contrast = (light + 0.05) / (dark + 0.05);
            assert!(contrast >= 4.5, "{number}: {contrast:.2}");
        }
    }
}
