//! The embedded prompt assets, checked once at start.
//!
//! Owns which files there are and that they fit together. Must never know: a request.

use serde::Deserialize;

use super::catalog::Catalog;
use super::template::RuntimeTemplate;
use crate::cursor::request::Mode;
use crate::model::ToolDefinition;

/// An embedded asset that is wrong. Always a defect of this build; the start stops on it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("prompt asset {file}: {fault}")]
pub struct AssetError {
    file: String,
    fault: String,
}

impl AssetError {
    pub(super) fn new(file: impl Into<String>, fault: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            fault: fault.into(),
        }
    }
}

/// All assets, read and checked. Made once at start and shared by every run.
#[derive(Clone, Debug)]
pub struct PromptAssets {
    catalog: Catalog,
    agent: ModeAssets,
    ask: ModeAssets,
    plan: ModeAssets,
    debug: ModeAssets,
    multitask: ModeAssets,
}

/// What one mode tells the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModeAssets {
    /// The system prompt.
    pub instructions: &'static str,
    /// The form of a turn's message.
    pub runtime: RuntimeTemplate,
    /// What the first message after a switch to this mode says of it.
    pub reminder: &'static str,
    /// The static tools in manifest order.
    pub tools: Vec<ToolDefinition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    /// Why the mode has these tools; for people.
    comment: String,
    tools: Vec<String>,
}

macro_rules! mode_files {
    ($mode:literal) => {
        [
            include_str!(concat!("../../../prompt/cursor/", $mode, "/prompt.md")),
            include_str!(concat!("../../../prompt/cursor/", $mode, "/runtime.md")),
            include_str!(concat!("../../../prompt/cursor/", $mode, "/reminder.md")),
            include_str!(concat!("../../../prompt/cursor/modes/", $mode, ".json")),
        ]
    };
}

impl PromptAssets {
    /// Reads and checks all embedded assets.
    pub fn load() -> Result<Self, AssetError> {
        let catalog = Catalog::parse(include_str!("../../../prompt/cursor/tools.json"))?;
        Ok(Self {
            agent: ModeAssets::parse("agent", mode_files!("agent"), &catalog)?,
            ask: ModeAssets::parse("ask", mode_files!("ask"), &catalog)?,
            plan: ModeAssets::parse("plan", mode_files!("plan"), &catalog)?,
            debug: ModeAssets::parse("debug", mode_files!("debug"), &catalog)?,
            multitask: ModeAssets::parse("multitask", mode_files!("multitask"), &catalog)?,
            catalog,
        })
    }

    /// The one schema catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What a mode tells the model.
    pub fn mode(&self, mode: Mode) -> &ModeAssets {
        match mode {
            Mode::Agent => &self.agent,
            Mode::Ask => &self.ask,
            Mode::Plan => &self.plan,
            Mode::Debug => &self.debug,
            Mode::Multitask => &self.multitask,
        }
    }
}

impl ModeAssets {
    fn parse(mode: &str, files: [&'static str; 4], catalog: &Catalog) -> Result<Self, AssetError> {
        let [instructions, runtime, reminder, manifest] = files;
        if instructions.trim().is_empty() {
            return Err(AssetError::new(format!("{mode}/prompt.md"), "is empty"));
        }
        // The template's own line end follows it.
        let reminder = reminder.trim_end();
        if reminder.is_empty() {
            return Err(AssetError::new(format!("{mode}/reminder.md"), "is empty"));
        }
        let runtime = RuntimeTemplate::parse(runtime)
            .map_err(|fault| AssetError::new(format!("{mode}/runtime.md"), fault))?;
        Ok(Self {
            instructions,
            runtime,
            reminder,
            tools: parse_manifest(mode, manifest, catalog)?,
        })
    }
}

fn parse_manifest(mode: &str, text: &str, catalog: &Catalog) -> Result<Vec<ToolDefinition>, AssetError> {
    let fault = |what: String| AssetError::new(format!("modes/{mode}.json"), what);
    let manifest: Manifest = serde_json::from_str(text).map_err(|e| fault(e.to_string()))?;
    if manifest.comment.trim().is_empty() {
        return Err(fault("gives no reason for its tools".to_owned()));
    }
    let mut tools: Vec<ToolDefinition> = Vec::with_capacity(manifest.tools.len());
    for name in manifest.tools {
        let tool = catalog
            .get(&name)
            .ok_or_else(|| fault(format!("{name} is not in tools.json")))?;
        if tools.iter().any(|other| other.name == tool.name) {
            return Err(fault(format!("{name} stands in it twice")));
        }
        tools.push(tool.clone());
    }
    Ok(tools)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_embedded_assets_fit_together() {
        let assets = PromptAssets::load().unwrap();
        // Every catalogued tool is reachable in some mode.
        for tool in assets.catalog().tools() {
            assert!(
                Mode::ALL
                    .iter()
                    .any(|mode| assets.mode(*mode).tools.contains(tool))
            );
        }
    }

    #[test]
    fn a_manifest_names_only_catalogued_tools_and_each_once() {
        let assets = PromptAssets::load().unwrap();
        let check = |tools: &str, fault: &str| {
            let text = format!(r#"{{"comment":"why","tools":{tools}}}"#);
            assert_eq!(
                parse_manifest("ask", &text, assets.catalog()),
                Err(AssetError::new("modes/ask.json", fault))
            );
        };
        check(r#"["Read","Bash"]"#, "Bash is not in tools.json");
        check(r#"["Read","Grep","Read"]"#, "Read stands in it twice");
    }
}
