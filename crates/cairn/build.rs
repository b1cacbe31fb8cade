//! Generates the wire types from `proto/`. The compiler is pure Rust, so a fresh machine needs no `protoc`.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    // `sqlx::migrate!` sees an edited migration by itself, but not a new one.
    println!("cargo:rerun-if-changed=migrations");
    let files = protox::compile(
        [
            "agent/v1/run.proto",
            "aiserver/v1/bidi.proto",
            "aiserver/v1/errors.proto",
        ],
        [&root],
    )?;
    prost_build::Config::new()
        // Blobs are sliced out of the received buffer, not copied.
        .bytes(["."])
        // Ordered maps: encoding must not depend on a hash seed.
        .btree_map(["."])
        .compile_fds(files)?;
    Ok(())
}
