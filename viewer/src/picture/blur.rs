//! Blur along the time axis: the true position is within some pixels to either side.

use egui::{Color32, ColorImage};

/// Replaces every pixel by the mean of all pixels within `radius` in its row.
///
/// The result is the average colour over all possible times. `plain` is the same picture without patterns. Where it has
/// one colour within the radius, the pattern is kept, because nothing there depends on the time.
pub fn blur(image: &mut ColorImage, plain: &ColorImage, radius: usize) {
    let [width, height] = image.size;
    if radius == 0 || width == 0 || plain.size != image.size {
        return;
    }
    // Number of pixels of equal colour from this one on, itself included.
    let mut same = vec![0usize; width];
    for y in 0..height {
        let row = &plain.pixels[y * width..(y + 1) * width];
        for x in (0..width).rev() {
            same[x] = match row.get(x + 1) {
                Some(next) if *next == row[x] => same[x + 1] + 1,
                _ => 1,
            };
        }
        let mut sums = [0u32; 4];
        let add = |sums: &mut [u32; 4], colour: Color32, is_new: bool| {
            for (sum, part) in sums.iter_mut().zip(colour.to_array()) {
                *sum = if is_new {
                    *sum + u32::from(part)
                } else {
                    *sum - u32::from(part)
                };
            }
        };
        row[..radius.min(width)]
            .iter()
            .for_each(|&colour| add(&mut sums, colour, true));
        for x in 0..width {
            if let Some(&colour) = row.get(x + radius) {
                add(&mut sums, colour, true);
            }
            if let Some(gone) = x.checked_sub(radius + 1) {
                add(&mut sums, row[gone], false);
            }
            let (from, to) = (x.saturating_sub(radius), (x + radius + 1).min(width));
            if same[from] >= to - from {
                continue;
            }
            let count = (to - from) as u32;
            let [r, g, b, a] = sums.map(|sum| ((sum + count / 2) / count) as u8);
            image.pixels[y * width + x] = Color32::from_rgba_premultiplied(r, g, b, a);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The result is the mean of a row's own pixels. A pattern is kept where its plain colour continues.
        #[test]
        fn a_pixel_is_the_mean_of_its_neighbours(
            row in proptest::collection::vec((0u8..3, any::<bool>()), 1..60), radius in 0usize..30,
        ) {
            let colours = [Color32::TRANSPARENT, Color32::from_rgb(200, 10, 90), Color32::from_rgb(0, 120, 255)];
            let plain = ColorImage::new([row.len(), 1], row.iter().map(|&(class, _)| colours[usize::from(class)]).collect());
            let patterned: Vec<Color32> = row.iter().map(|&(class, is_dim)| {
                let colour = colours[usize::from(class)];
                if is_dim && class > 0 { colour.gamma_multiply(0.5) } else { colour }
            }).collect();
            let mut image = ColorImage::new([row.len(), 1], patterned.clone());
            blur(&mut image, &plain, radius);
            for (x, &own) in patterned.iter().enumerate() {
                let around = &plain.pixels[x.saturating_sub(radius)..(x + radius + 1).min(row.len())];
                if radius == 0 || around.iter().all(|colour| *colour == plain.pixels[x]) {
                    prop_assert_eq!(image.pixels[x], own);
                    continue;
                }
                for part in 0..4 {
                    let sum: u32 = around.iter().map(|colour| u32::from(colour.to_array()[part])).sum();
                    let mean = f64::from(sum) / around.len() as f64;
                    prop_assert!((f64::from(image.pixels[x].to_array()[part]) - mean).abs() <= 0.5 + 1e-9);
                }
            }
        }
    }
}
