//! What the model is told when its conversation is summarised, and the size from which on that is done.
//!
//! Must never know: how a run summarises, or what a summary says.

use super::assets::AssetError;
use crate::model::{CompactionSpec, Frame, MeasuredHistory, ModelSpec};

/// Where the summary stands in the message that carries it.
const SLOT: &str = "{{summary}}";

/// How full the room for input may be, in percent: what is left has to hold the tool results of a round, and the
/// summary request itself must still fit.
const FULL_PERCENT: u64 = 85;

/// The most characters that all messages shortened for a model keep together, whatever its context holds: about 5,000
/// tokens.
const SHORTENED_CHARACTERS: usize = 16_000;

/// The words around a compaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionAssets {
    instruction: &'static str,
    summary: FrameText,
    shortened: FrameText,
}

/// A frame as a file has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FrameText {
    tag: &'static str,
    before: &'static str,
    after: &'static str,
}

impl CompactionAssets {
    /// Checks the three files of `prompt/cursor/compaction/`.
    pub(super) fn parse(
        instruction: &'static str,
        runtime: &'static str,
        shortened: &'static str,
    ) -> Result<Self, AssetError> {
        if instruction.trim().is_empty() {
            return Err(fault("prompt.md", "is empty"));
        }
        Ok(Self {
            instruction: instruction.trim_end(),
            summary: FrameText::parse("runtime.md", runtime)?,
            shortened: FrameText::parse("shortened.md", shortened)?,
        })
    }

    /// How a run on this model compacts a history of which this was known after its last model call.
    pub fn spec(&self, model: &ModelSpec, base: Option<MeasuredHistory>) -> CompactionSpec {
        CompactionSpec {
            instruction: self.instruction.into(),
            summary: self.summary.frame(),
            shortened: self.shortened.frame(),
            shortened_characters: shortened_characters(model),
            threshold: threshold(model),
            base,
        }
    }
}

impl FrameText {
    fn parse(file: &str, text: &'static str) -> Result<Self, AssetError> {
        let (before, after) = match text.split_once(SLOT) {
            Some((before, after)) if !after.contains(SLOT) => (before, after.trim_end()),
            _ => return Err(fault(file, "needs {{summary}} exactly once")),
        };
        let tag = before
            .strip_prefix('<')
            .and_then(|rest| rest.split_once('>'))
            .map(|(tag, _)| tag)
            .filter(|tag| after.ends_with(&format!("</{tag}>")))
            .ok_or_else(|| fault(file, "needs one tag around all of it"))?;
        Ok(Self { tag, before, after })
    }

    fn frame(self) -> Frame {
        Frame {
            tag: self.tag.into(),
            before: self.before.into(),
            after: self.after.into(),
        }
    }
}

fn fault(file: &str, what: &str) -> AssetError {
    AssetError::new(format!("compaction/{file}"), what)
}

/// A quarter of the context, if every character were a token, as in some languages it is.
fn shortened_characters(model: &ModelSpec) -> usize {
    let window = model.context_window.filter(|window| *window > 0);
    let quarter = window.and_then(|window| usize::try_from(window / 4).ok());
    quarter.map_or(SHORTENED_CHARACTERS, |quarter| quarter.min(SHORTENED_CHARACTERS))
}

/// 85 % of the context that the longest answer leaves, of which at least half counts as left. Unknown for a model
/// whose context is.
fn threshold(model: &ModelSpec) -> Option<u64> {
    let window = u64::from(model.context_window.filter(|window| *window > 0)?);
    let answer = u64::from(model.max_output_tokens.unwrap_or(0)).min(window / 2);
    Some((window - answer) * FULL_PERCENT / 100)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn model() -> ModelSpec {
        ModelSpec {
            model_id: "m".into(),
            display_name: None,
            reasoning: Default::default(),
            latency: Default::default(),
            max_output_tokens: None,
            context_window: None,
            vision: false,
            entry: Default::default(),
        }
    }

    #[test]
    fn the_answers_room_is_left_out_of_the_threshold() {
        let check = |context_window, max_output_tokens, expected| {
            let model = ModelSpec {
                max_output_tokens,
                context_window,
                ..model()
            };
            assert_eq!(threshold(&model), expected);
        };
        check(None, Some(8_192), None);
        check(Some(200_000), None, Some(170_000));
        check(Some(200_000), Some(32_000), Some(142_800));
        check(Some(16_384), Some(0), Some(13_926));
        // An output limit as large as the context leaves half of it.
        check(Some(16_384), Some(16_384), Some(6_963));
        check(Some(0), None, None);
    }

    #[test]
    fn what_is_shortened_keeps_a_quarter_of_the_context_at_most() {
        for (context_window, expected) in [
            (None, 16_000),
            (Some(0), 16_000),
            (Some(128_000), 16_000),
            (Some(8_192), 2_048),
        ] {
            let model = ModelSpec {
                context_window,
                ..model()
            };
            assert_eq!(shortened_characters(&model), expected);
        }
    }

    #[test]
    fn the_summary_has_one_place_inside_one_tag() {
        const FRAME: &str = "<s>\n{{summary}}\n</s>\n";
        assert_eq!(
            CompactionAssets::parse(" \n", FRAME, FRAME),
            Err(fault("prompt.md", "is empty"))
        );
        for summary in ["", "{{summary}} {{summary}}"] {
            let expected = |file| Err(fault(file, "needs {{summary}} exactly once"));
            assert_eq!(
                CompactionAssets::parse("Summarise.", summary, FRAME),
                expected("runtime.md")
            );
            assert_eq!(
                CompactionAssets::parse("Summarise.", FRAME, summary),
                expected("shortened.md")
            );
        }
        for untagged in [
            "{{summary}}",
            "<s>{{summary}}",
            "<s>{{summary}}</t>",
            "s>{{summary}}</s>",
        ] {
            assert_eq!(
                CompactionAssets::parse("Summarise.", untagged, FRAME),
                Err(fault("runtime.md", "needs one tag around all of it"))
            );
        }
        let assets = CompactionAssets::parse("Summarise.\n", FRAME, FRAME).unwrap();
        let frame = FrameText {
            tag: "s",
            before: "<s>\n",
            after: "\n</s>",
        };
        let expected = CompactionAssets {
            instruction: "Summarise.",
            summary: frame,
            shortened: frame,
        };
        assert_eq!(assets, expected);
    }
}
