# Short names for the commands of daily work. `.ci/run` is the truth; without `just`, run it and the lines below by hand.

# Shows this list.
default:
    @just --list

# All that CI does.
check:
    .ci/run

# Tests without node; arguments go to cargo: `just test --test rooms`.
test *arguments:
    cargo test --workspace --locked {{arguments}}

# Formats all Rust.
fmt:
    cargo fmt --all

# Lints as CI has them.
lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# The official client against a fresh debug build, the same that the tests use.
e2e:
    cargo test --workspace --locked --no-run
    CAIRN_BIN="$(cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/debug/cairn" e2e/run

# Two turns against the offline model, through the real wire.
demo:
    cargo run --release --locked -- demo
