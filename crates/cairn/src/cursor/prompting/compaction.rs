//! What the model is told when its conversation is summarised, and the size from which on that is done.
//!
//! Must never know: how a run summarises, or what a summary says.

use super::assets::AssetError;
use crate::model::{CompactionSpec, ModelSpec};

/// Where the summary stands in the message that carries it.
const SLOT: &str = "{{summary}}";

/// How full the room for input may be, in percent: what is left has to hold the tool results of a round, and the
/// summary request itself must still fit.
const FULL_PERCENT: u64 = 85;

/// The words around a compaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionAssets {
    instruction: &'static str,
    summary_tag: &'static str,
    before_summary: &'static str,
    after_summary: &'static str,
}

impl CompactionAssets {
    /// Checks the two files of `prompt/cursor/compaction/`.
    pub(super) fn parse(instruction: &'static str, runtime: &'static str) -> Result<Self, AssetError> {
        let fault = |file: &str, what: &str| AssetError::new(format!("compaction/{file}"), what);
        if instruction.trim().is_empty() {
            return Err(fault("prompt.md", "is empty"));
        }
        let (before_summary, after_summary) = match runtime.split_once(SLOT) {
            Some((before, after)) if !after.contains(SLOT) => (before, after.trim_end()),
            _ => return Err(fault("runtime.md", "needs {{summary}} exactly once")),
        };
        let summary_tag = before_summary
            .strip_prefix('<')
            .and_then(|rest| rest.split_once('>'))
            .map(|(tag, _)| tag)
            .filter(|tag| after_summary.ends_with(&format!("</{tag}>")))
            .ok_or_else(|| fault("runtime.md", "needs one tag around all of it"))?;
        Ok(Self {
            instruction: instruction.trim_end(),
            summary_tag,
            before_summary,
            after_summary,
        })
    }

    /// How a run on this model compacts a history that held `base_size` tokens when it was last reported.
    pub fn spec(&self, model: &ModelSpec, base_size: Option<u64>) -> CompactionSpec {
        CompactionSpec {
            instruction: self.instruction.into(),
            summary_tag: self.summary_tag.into(),
            before_summary: self.before_summary.into(),
            after_summary: self.after_summary.into(),
            threshold: threshold(model),
            base_size,
        }
    }
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

    #[test]
    fn the_answers_room_is_left_out_of_the_threshold() {
        let check = |context_window, max_output_tokens, expected| {
            let model = ModelSpec {
                model_id: "m".into(),
                display_name: None,
                reasoning: Default::default(),
                latency: Default::default(),
                max_output_tokens,
                context_window,
                vision: false,
                entry: Default::default(),
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
    fn the_summary_has_one_place() {
        let fault = |file: &str, what: &str| Err(AssetError::new(format!("compaction/{file}"), what));
        assert_eq!(
            CompactionAssets::parse(" \n", "{{summary}}"),
            fault("prompt.md", "is empty")
        );
        for summary in ["", "{{summary}} {{summary}}"] {
            assert_eq!(
                CompactionAssets::parse("Summarise.", summary),
                fault("runtime.md", "needs {{summary}} exactly once")
            );
        }
        for untagged in [
            "{{summary}}",
            "<s>{{summary}}",
            "<s>{{summary}}</t>",
            "s>{{summary}}</s>",
        ] {
            assert_eq!(
                CompactionAssets::parse("Summarise.", untagged),
                fault("runtime.md", "needs one tag around all of it")
            );
        }
        let assets = CompactionAssets::parse("Summarise.\n", "<s>\n{{summary}}\n</s>\n").unwrap();
        let expected = CompactionAssets {
            instruction: "Summarise.",
            summary_tag: "s",
            before_summary: "<s>\n",
            after_summary: "\n</s>",
        };
        assert_eq!(assets, expected);
    }
}
