//! Pictures on their way into the history: fitted to the model once, or replaced by a text that says what is missing.
//!
//! What comes out is stored as it is; a later switch of the model changes none of it. Must never know: where the pictures
//! come from, or how an endpoint is sent them.

use std::sync::Arc;

use crate::model::{Image, ModelSpec, PICTURE_UNSEEN, Part};
use crate::picture::{PictureFault, PictureLimits, fit};

/// Parts that are ready for the history.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entered {
    /// Text and pictures in their order.
    pub parts: Vec<Part>,
    /// What the person should know of pictures that the model does not see.
    pub notices: Vec<String>,
}

/// Makes a message's parts ready for the history of a run with this model. Text stays as it is.
pub async fn enter(parts: Vec<Part>, model: &ModelSpec) -> Entered {
    let has_pictures = parts.iter().any(|part| matches!(part, Part::Image(_)));
    if !has_pictures {
        return Entered {
            parts,
            notices: Vec::new(),
        };
    }
    if !model.vision {
        return unseen(parts, model);
    }
    let limits = PictureLimits {
        bytes: model.entry.picture_bytes,
        edge: model.entry.picture_edge,
    };
    let mut entered = Entered::default();
    let mut position = 0;
    for part in parts {
        let Part::Image(image) = part else {
            entered.parts.push(part);
            continue;
        };
        position += 1;
        // Decoding takes up to seconds and would keep a worker from everything else.
        let fitted = tokio::task::spawn_blocking(move || fit(&image.data, limits)).await;
        let fault = match fitted {
            Ok(Ok(picture)) => {
                entered.parts.push(Part::Image(Image {
                    mime_type: picture.mime_type.into(),
                    data: picture.data,
                }));
                continue;
            }
            Ok(Err(fault)) => fault.to_string(),
            Err(error) => {
                tracing::error!(%error, "a picture's decoder died");
                PictureFault::UnknownKind.to_string()
            }
        };
        let text = format!("[Picture {position} was left out: {fault}.]");
        entered.parts.push(Part::Text(text.into()));
        entered
            .notices
            .push(format!("Picture {position} was left out: {fault}."));
    }
    entered
}

fn unseen(parts: Vec<Part>, model: &ModelSpec) -> Entered {
    let parts = parts.into_iter().map(|part| match part {
        Part::Image(_) => Part::Text(Arc::from(PICTURE_UNSEEN)),
        text => text,
    });
    let name = model.display_name.as_ref().unwrap_or(&model.model_id);
    Entered {
        parts: parts.collect(),
        notices: vec![format!(
            "The model {name} cannot see pictures and was told so in their place. If it can, set vision = true for it."
        )],
    }
}
