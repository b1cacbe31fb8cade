//! Between typed tools and the wire's messages. Must never know: which call is at which stage.

pub(super) mod card;
pub(super) mod request;
pub(super) mod response;
pub(super) mod task;
pub(super) mod update;
