//! Picture files made for the tests.

use std::io::Cursor;

use bytes::Bytes;
use image::{DynamicImage, GrayImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};

/// A picture of many colours in this format.
pub fn picture(width: u32, height: u32, format: ImageFormat) -> Bytes {
    let pixels = RgbImage::from_fn(width, height, |x, y| {
        let byte = |value: u32| u8::try_from(value % 256).unwrap();
        Rgb([byte(x * 7), byte(y * 5), byte(x * y)])
    });
    file(&pixels.into(), format)
}

/// A picture that is half transparent and hard to compress.
pub fn noise(edge: u32) -> Bytes {
    let mut state = 1_u32;
    let pixels = RgbaImage::from_fn(edge, edge, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [red, green, blue, _] = state.to_be_bytes();
        Rgba([red, green, blue, 128])
    });
    file(&pixels.into(), ImageFormat::Png)
}

/// A one-coloured picture: small on disk whatever its size.
pub fn blank(width: u32, height: u32) -> Bytes {
    file(&GrayImage::new(width, height).into(), ImageFormat::Png)
}

pub fn file(picture: &DynamicImage, format: ImageFormat) -> Bytes {
    let mut data = Cursor::new(Vec::new());
    picture.write_to(&mut data, format).unwrap();
    data.into_inner().into()
}

/// Width and height of a file.
pub fn size(data: &[u8]) -> (u32, u32) {
    let picture = image::load_from_memory(data).unwrap();
    (picture.width(), picture.height())
}
