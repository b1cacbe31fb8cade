//! Pictures made fit for a model once, before anything keeps them: checked, turned upright and scaled down.
//!
//! Pure and fixed: the same bytes and limits give the same bytes. Slow for large pictures; callers keep it off the threads
//! that serve. Must never know: where a picture comes from, or any room.

use std::io::Cursor;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType as PngFilter, PngEncoder};
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, Rgb, RgbImage};

/// The most pixels that are decoded. A file of a few kilobytes can claim any number.
const MOST_PIXELS: u64 = 64_000_000;
/// The most bytes that a decoder may allocate.
const MOST_BYTES: u64 = 1 << 30;
/// Quality of pictures that are encoded as JPEG, from 1 to 100.
const JPEG_QUALITY: u8 = 85;
/// No picture is scaled below this.
const SMALLEST_EDGE: u32 = 32;

/// What a picture is fitted to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PictureLimits {
    /// The most bytes of the file.
    pub bytes: usize,
    /// The most pixels of the longer edge.
    pub edge: u32,
}

/// A picture that is whole and within its limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// The type that the bytes have, whatever their sender called them.
    pub mime_type: &'static str,
    /// The file.
    pub data: Bytes,
}

/// Why a picture cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PictureFault {
    /// The file is of no known kind.
    #[error("it is not a PNG, JPEG, GIF or WebP file")]
    UnknownKind,
    /// The file cannot be read to its end.
    #[error("its {kind} file is damaged")]
    Damaged {
        /// The kind that its first bytes claim.
        kind: &'static str,
    },
    /// The picture has more pixels than are read.
    #[error("it has {width} x {height} pixels, and at most {most} can be read", most = MOST_PIXELS)]
    TooManyPixels {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// The limit of bytes is too small for any readable form of the picture.
    #[error("it does not fit into {bytes} bytes at any size")]
    NeverFits {
        /// The limit.
        bytes: usize,
    },
}

/// Makes a picture fit.
///
/// A whole picture within the limits keeps its bytes. Any other is turned upright, scaled down to the limit of its longer
/// edge, and encoded anew: a JPEG as JPEG, anything else as PNG, or as JPEG on white where the PNG has too many bytes.
/// While that has too many bytes as well, the edge gets a quarter shorter. Of an animation its first picture remains.
///
/// # Errors
/// A [`PictureFault`] for what is no picture, or cannot be made to fit.
pub fn fit(data: &Bytes, limits: PictureLimits) -> Result<Picture, PictureFault> {
    let (format, kind, mime_type) = kind_of(data).ok_or(PictureFault::UnknownKind)?;
    let damaged = |_| PictureFault::Damaged { kind };
    let mut reader = ImageReader::with_format(Cursor::new(&data[..]), format);
    let mut allowed = Limits::no_limits();
    allowed.max_alloc = Some(MOST_BYTES);
    reader.limits(allowed);
    let mut decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(PictureFault::TooManyPixels { width, height });
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    if data.len() <= limits.bytes && width.max(height) <= limits.edge {
        return Ok(Picture {
            mime_type,
            data: data.clone(),
        });
    }
    picture.apply_orientation(orientation);
    encode_within(&plain(picture), format, limits)
}

fn encode_within(
    picture: &DynamicImage,
    format: ImageFormat,
    limits: PictureLimits,
) -> Result<Picture, PictureFault> {
    let mut edge = limits.edge.min(picture.width().max(picture.height()));
    loop {
        let scaled = scaled_to(picture, edge);
        // Neither encoder fails for pixels of these kinds in memory.
        let never_fits = |_| PictureFault::NeverFits { bytes: limits.bytes };
        if format != ImageFormat::Jpeg {
            let data = png(&scaled).map_err(never_fits)?;
            if data.len() <= limits.bytes {
                return Ok(Picture {
                    mime_type: "image/png",
                    data: data.into(),
                });
            }
        }
        let data = jpeg(&scaled).map_err(never_fits)?;
        if data.len() <= limits.bytes {
            return Ok(Picture {
                mime_type: "image/jpeg",
                data: data.into(),
            });
        }
        edge = edge / 4 * 3;
        if edge < SMALLEST_EDGE {
            return Err(PictureFault::NeverFits { bytes: limits.bytes });
        }
    }
}

/// A picture's kind by its first bytes: what reads it, its name, and its MIME type.
fn kind_of(data: &[u8]) -> Option<(ImageFormat, &'static str, &'static str)> {
    Some(match data {
        [0x89, b'P', b'N', b'G', ..] => (ImageFormat::Png, "PNG", "image/png"),
        [0xff, 0xd8, 0xff, ..] => (ImageFormat::Jpeg, "JPEG", "image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => (ImageFormat::Gif, "GIF", "image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
            (ImageFormat::WebP, "WebP", "image/webp")
        }
        _ => return None,
    })
}

/// Eight bits for each channel, in colour, with transparency only where the picture has it.
fn plain(picture: DynamicImage) -> DynamicImage {
    match picture.color().has_alpha() {
        true => DynamicImage::ImageRgba8(picture.into_rgba8()),
        false => DynamicImage::ImageRgb8(picture.into_rgb8()),
    }
}

fn scaled_to(picture: &DynamicImage, edge: u32) -> DynamicImage {
    if picture.width().max(picture.height()) <= edge {
        return picture.clone();
    }
    picture.resize(edge, edge, FilterType::Lanczos3)
}

fn png(picture: &DynamicImage) -> image::ImageResult<Vec<u8>> {
    let mut data = Vec::new();
    let encoder = PngEncoder::new_with_quality(&mut data, CompressionType::Default, PngFilter::Adaptive);
    picture.write_with_encoder(encoder)?;
    Ok(data)
}

/// JPEG has no transparency: what is transparent becomes white.
fn jpeg(picture: &DynamicImage) -> image::ImageResult<Vec<u8>> {
    let opaque = match picture {
        DynamicImage::ImageRgba8(picture) => {
            let on_white = |channel: u8, alpha: u8| {
                let (channel, alpha) = (u32::from(channel), u32::from(alpha));
                u8::try_from((channel * alpha + 255 * (255 - alpha)) / 255).unwrap_or(u8::MAX)
            };
            RgbImage::from_fn(picture.width(), picture.height(), |x, y| {
                let [red, green, blue, alpha] = picture.get_pixel(x, y).0;
                Rgb([red, green, blue].map(|channel| on_white(channel, alpha)))
            })
        }
        other => other.to_rgb8(),
    };
    let mut data = Vec::new();
    opaque.write_with_encoder(JpegEncoder::new_with_quality(&mut data, JPEG_QUALITY))?;
    Ok(data)
}
