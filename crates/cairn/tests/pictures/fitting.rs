//! What a picture becomes: its own bytes where it is whole and fits, else a fixed other file, else a named fault.

use bytes::Bytes;
use cairn::picture::{Picture, PictureFault, PictureLimits, fit};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use sha2::{Digest, Sha256};

use crate::files::{blank, file, noise, picture, size};

const LIMITS: PictureLimits = PictureLimits {
    bytes: 100_000,
    edge: 100,
};

#[test]
fn a_picture_within_the_limits_keeps_its_bytes_and_gets_its_real_type() {
    for (format, mime_type) in [
        (ImageFormat::Png, "image/png"),
        (ImageFormat::Jpeg, "image/jpeg"),
        (ImageFormat::Gif, "image/gif"),
        (ImageFormat::WebP, "image/webp"),
    ] {
        let data = picture(100, 60, format);
        let same = Picture {
            mime_type,
            data: data.clone(),
        };
        assert_eq!(fit(&data, LIMITS), Ok(same));
    }
}

#[test]
fn a_larger_picture_is_scaled_to_the_edge_and_keeps_its_shape() {
    for (format, mime_type) in [
        (ImageFormat::Png, "image/png"),
        (ImageFormat::Jpeg, "image/jpeg"),
        (ImageFormat::Gif, "image/png"),
        (ImageFormat::WebP, "image/png"),
    ] {
        let fitted = fit(&picture(300, 150, format), LIMITS).unwrap();
        assert_eq!((fitted.mime_type, size(&fitted.data)), (mime_type, (100, 50)));
        let again = fit(&fitted.data, LIMITS).unwrap();
        assert_eq!(again, fitted, "what fits is left alone");
    }
}

/// Pinned: other bytes for the same picture would be another message for the same input.
#[test]
fn the_same_picture_always_becomes_the_same_bytes() {
    let hash = |data: Bytes| hex::encode(&Sha256::digest(fit(&data, LIMITS).unwrap().data)[..8]);
    assert_eq!(
        [
            hash(picture(300, 150, ImageFormat::Png)),
            hash(picture(150, 300, ImageFormat::Jpeg)),
            hash(noise(200)),
        ],
        PINNED
    );
}

const PINNED: [&str; 3] = ["30d78948d2b7d136", "3546dc35ffe2e792", "4edadbffcaba01c6"];

#[test]
fn a_file_that_is_too_long_is_encoded_anew_and_then_made_smaller() {
    let data = noise(100);
    let limits = |bytes| PictureLimits { bytes, edge: 100 };
    assert!(data.len() > 30_000);
    let as_jpeg = fit(&data, limits(20_000)).unwrap();
    assert_eq!(
        (as_jpeg.mime_type, size(&as_jpeg.data)),
        ("image/jpeg", (100, 100))
    );
    let smaller = fit(&data, limits(4_000)).unwrap();
    assert!(smaller.data.len() <= 4_000 && size(&smaller.data).0 < 100);
    assert_eq!(
        fit(&data, limits(100)),
        Err(PictureFault::NeverFits { bytes: 100 })
    );
}

#[test]
fn what_is_no_whole_picture_is_named() {
    let unknown = [&b""[..], b"<svg></svg>", b"BM\0\0", b"\x89P", b"%PDF-1.4"];
    for data in unknown {
        assert_eq!(
            fit(&Bytes::from_static(data), LIMITS),
            Err(PictureFault::UnknownKind)
        );
    }
    for (format, kind) in [
        (ImageFormat::Png, "PNG"),
        (ImageFormat::Gif, "GIF"),
        (ImageFormat::WebP, "WebP"),
    ] {
        let whole = picture(20, 20, format);
        for end in 12..whole.len() / 2 {
            let cut = fit(&whole.slice(..end), LIMITS);
            assert_eq!(cut, Err(PictureFault::Damaged { kind }), "{kind} {end}");
        }
    }
    let header_only = picture(20, 20, ImageFormat::Jpeg).slice(..20);
    assert_eq!(
        fit(&header_only, LIMITS),
        Err(PictureFault::Damaged { kind: "JPEG" })
    );
}

/// A few kilobytes that would unpack to gigabytes.
#[test]
fn a_picture_of_too_many_pixels_is_never_unpacked() {
    let mut bomb = blank(16, 16).to_vec();
    // Width and height stand at a fixed place; their checksum follows the header.
    bomb[16..24].copy_from_slice(&[0, 0, 0x80, 0, 0, 0, 0x80, 0]);
    let checksum = crc32(&bomb[12..29]);
    bomb[29..33].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(
        fit(&bomb.into(), LIMITS),
        Err(PictureFault::TooManyPixels {
            width: 32_768,
            height: 32_768
        })
    );
}

fn crc32(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[test]
fn a_photograph_stands_upright_when_it_is_encoded_anew() {
    // Left half red, right half blue, and a note that it is to be turned by a quarter.
    let pixels = RgbImage::from_fn(200, 100, |x, _| {
        if x < 100 {
            Rgb([255, 0, 0])
        } else {
            Rgb([0, 0, 255])
        }
    });
    let mut data = file(&DynamicImage::from(pixels), ImageFormat::Jpeg).to_vec();
    let exif: [u8; 36] = [
        0xff, 0xe1, 0, 34, b'E', b'x', b'i', b'f', 0, 0, b'M', b'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3,
        0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0,
    ];
    data.splice(2..2, exif);
    let fitted = fit(&data.into(), LIMITS).unwrap();
    let upright = image::load_from_memory(&fitted.data).unwrap().to_rgb8();
    assert_eq!(upright.dimensions(), (50, 100));
    let (top, bottom) = (upright.get_pixel(25, 10).0, upright.get_pixel(25, 90).0);
    assert!(top[0] > 200 && top[2] < 50, "{top:?}");
    assert!(bottom[2] > 200 && bottom[0] < 50, "{bottom:?}");
}
