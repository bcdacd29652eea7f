//! PNG files.

use egui::ColorImage;
use png::{BitDepth, ColorType, Encoder, EncodingError, PixelDimensions, Unit};
use rankscope_formats::whole_file;
use std::io;
use std::path::{Path, PathBuf};

/// Pixels per metre of a screen with one pixel per point: 96 per inch.
const POINTS_PER_METRE: f32 = 96.0 / 0.0254;

/// Error of writing a PNG file.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The picture is invalid: it has no pixels, or their number does not match its size.
    #[error("cannot encode {path}: {source}")]
    Encode {
        /// The file.
        path: PathBuf,
        /// The problem of the picture.
        source: EncodingError,
    },
    /// The operating system reported an error.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Writes a picture to the file `path`, completely or not at all.
///
/// The file contains the intended size of a pixel: there are `pixels_per_point` of them to a point, and 96 points to an
/// inch.
pub fn write(path: &Path, image: &ColorImage, pixels_per_point: f32) -> Result<(), PngError> {
    let encoded = encode(image, pixels_per_point).map_err(|source| {
        let path = path.to_owned();
        PngError::Encode { path, source }
    })?;
    whole_file::write(path, &encoded).map_err(|source| {
        let path = path.to_owned();
        PngError::Write { path, source }
    })
}

/// Encodes a picture. The file has an alpha channel only if necessary, and no pixel size if `pixels_per_point` is NaN.
pub fn encode(image: &ColorImage, pixels_per_point: f32) -> Result<Vec<u8>, EncodingError> {
    let [width, height] = image.size.map(|side| u32::try_from(side).unwrap_or(u32::MAX));
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, width, height);
    encoder.set_depth(BitDepth::Eight);
    let per_metre = (pixels_per_point * POINTS_PER_METRE).round();
    if (1.0..1e6).contains(&per_metre) {
        let per_metre = per_metre as u32;
        encoder.set_pixel_dims(Some(PixelDimensions {
            xppu: per_metre,
            yppu: per_metre,
            unit: Unit::Meter,
        }));
    }
    let channels: Vec<u8> = if image.pixels.iter().all(|pixel| pixel.is_opaque()) {
        encoder.set_color(ColorType::Rgb);
        image
            .pixels
            .iter()
            .flat_map(|pixel| [pixel.r(), pixel.g(), pixel.b()])
            .collect()
    } else {
        encoder.set_color(ColorType::Rgba);
        image
            .pixels
            .iter()
            .flat_map(|pixel| pixel.to_srgba_unmultiplied())
            .collect()
    };
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&channels)?;
    writer.finish()?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::Color32;
    use png::Decoder;
    use std::fs;

    fn read(path: &Path) -> (png::OutputInfo, Option<PixelDimensions>, Vec<u8>) {
        let file = fs::File::open(path).expect("the file");
        let mut reader = Decoder::new(io::BufReader::new(file))
            .read_info()
            .expect("a PNG file");
        let mut bytes = vec![0; reader.output_buffer_size().expect("a small picture")];
        let info = reader.next_frame(&mut bytes).expect("pixels");
        bytes.truncate(info.buffer_size());
        (info, reader.info().pixel_dims, bytes)
    }

    fn scratch(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("rankscope-png-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        directory
    }

    #[test]
    fn an_opaque_picture_comes_back() {
        let directory = scratch("opaque");
        let path = directory.join("out.png");
        let pixels = vec![Color32::from_rgb(1, 2, 3), Color32::WHITE];
        write(&path, &ColorImage::new([1, 2], pixels), 2.0).expect("written");
        let (info, dimensions, bytes) = read(&path);
        assert_eq!((info.width, info.height, info.color_type), (1, 2, ColorType::Rgb));
        assert_eq!(bytes, [1, 2, 3, 255, 255, 255]);
        let dimensions = dimensions.expect("the size of a pixel");
        assert_eq!((dimensions.xppu, dimensions.unit), (7559, Unit::Meter));
        assert_eq!(
            fs::read_dir(&directory).expect("listed").count(),
            1,
            "nothing unfinished"
        );
        fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn transparency_is_kept_and_not_multiplied() {
        let directory = scratch("transparent");
        let path = directory.join("out.png");
        let half = Color32::from_rgba_premultiplied(128, 0, 0, 128);
        write(
            &path,
            &ColorImage::new([2, 1], vec![half, Color32::TRANSPARENT]),
            f32::NAN,
        )
        .expect("written");
        let (info, dimensions, bytes) = read(&path);
        assert_eq!(info.color_type, ColorType::Rgba);
        assert_eq!(bytes, [255, 0, 0, 128, 0, 0, 0, 0]);
        assert!(dimensions.is_none());
        fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn errors_name_the_file() {
        let nowhere = Path::new("/nonexistent/out.png");
        let picture = ColorImage::filled([1, 1], Color32::BLACK);
        let refused = write(nowhere, &picture, 1.0).expect_err("no such directory");
        assert!(refused.to_string().contains("/nonexistent/out.png"), "{refused}");
        let empty = write(nowhere, &ColorImage::default(), 1.0).expect_err("no pixels");
        assert!(matches!(empty, PngError::Encode { .. }), "{empty}");
        assert!(empty.to_string().contains("/nonexistent/out.png"), "{empty}");
    }
}
