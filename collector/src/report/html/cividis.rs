//! The colour map cividis: dark blue to yellow, its lightness even, readable with any colour vision and in grey.
//! After Nuñez, Anderton and Renslow, 2018 (doi 10.1371/journal.pone.0199239).

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

/// The colour of a share, 0 to 1, as `#rrggbb`.
pub fn colour(share: f64) -> String {
    let at = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let low = (at.floor() as usize).min(STOPS.len() - 2);
    let part = at - low as f64;
    let mix = |channel: usize| {
        let (from, to) = (f64::from(STOPS[low][channel]), f64::from(STOPS[low + 1][channel]));
        (from + (to - from) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lightness_only_grows() {
        let lightness: Vec<f64> = STOPS
            .iter()
            .map(|[r, g, b]| 0.2126 * f64::from(*r) + 0.7152 * f64::from(*g) + 0.0722 * f64::from(*b))
            .collect();
        assert!(lightness.is_sorted());
        assert_eq!(colour(0.0), "#00204d");
        assert_eq!(colour(7.0), "#ffea46");
    }
}
