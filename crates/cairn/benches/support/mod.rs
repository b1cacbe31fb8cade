//! What both benchmarks need: a served cairn in a process of its own, and a thin client of its wire.
//!
//! It costs as little as it can, because the client and the endpoint share the machine with what is measured. Must never
//! know: what is measured.
//!
//! Each benchmark uses a part of it.
#![allow(dead_code, reason = "shared by benchmarks that use different parts")]

pub mod client;
pub mod http;
pub mod mover;
pub mod process;
pub mod statistics;

/// Whether to run: `cargo bench` says so; `cargo test --all-targets` only wants to see that the benchmark builds.
pub fn wanted() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// What follows `--name` on the command line.
pub fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.next()?;
    Some(arguments.next().unwrap_or_else(|| panic!("{name} needs a value")))
}

/// A number given as `--name N`.
pub fn number(name: &str, default: usize) -> usize {
    option(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, not {text}"))
    })
}
