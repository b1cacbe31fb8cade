//! The demonstration does what it says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test says what it saw by failing"
)]

#[tokio::test]
async fn the_demonstration_plays_two_turns_and_shows_a_whole_prefix() {
    let mut shown = Vec::new();
    cairn::demo::run(&mut shown).await.unwrap();
    let shown = String::from_utf8(shown).unwrap();
    for part in [
        "First turn",
        "Second turn",
        "read harbour.txt",
        "exit code 0: 3",
        "2 turns",
        "0 pending",
    ] {
        assert!(shown.contains(part), "{part:?} is not shown:\n{shown}");
    }
    assert_eq!(shown.matches("tools the same").count(), 3, "{shown}");
}
