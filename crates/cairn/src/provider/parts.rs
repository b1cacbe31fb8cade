//! Text and pictures as a model can take them: the one rule for what stands where a picture cannot be sent.
//!
//! Pure: a part, the model and nothing else decide, so a part has the same bytes in every request to a model. Must never
//! know: the shape of any API's requests.

use crate::model::{Image, ModelSpec, PICTURE_UNSEEN, Part};

/// Kinds of pictures that all APIs take.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// What stands in place of a picture of another kind, which only a history from elsewhere can hold.
const PICTURE_OF_ANOTHER_KIND: &str = "[A picture of a kind that cannot be shown to you stands here.]";

/// A part as it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shown<'a> {
    /// Text; never empty.
    Text(&'a str),
    /// A picture that the model takes.
    Image(&'a Image),
}

/// The parts as they are sent. Empty text says nothing, and endpoints refuse it.
pub(crate) fn shown<'a>(parts: &'a [Part], model: &ModelSpec) -> Vec<Shown<'a>> {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) if text.is_empty() => None,
            Part::Text(text) => Some(Shown::Text(text)),
            Part::Image(_) if !model.vision => Some(Shown::Text(PICTURE_UNSEEN)),
            Part::Image(image) if IMAGE_TYPES.contains(&&*image.mime_type) => Some(Shown::Image(image)),
            Part::Image(_) => Some(Shown::Text(PICTURE_OF_ANOTHER_KIND)),
        })
        .collect()
}

/// The parts as one text, if there is no picture among them.
pub(crate) fn only_text(parts: &[Shown<'_>]) -> Option<String> {
    let texts = parts.iter().map(|part| match part {
        Shown::Text(text) => Some(*text),
        Shown::Image(_) => None,
    });
    Some(texts.collect::<Option<Vec<_>>>()?.join("\n"))
}
