//! The embedded prompt assets, checked once at start.
//!
//! Owns which files there are and that they fit together. Must never know: a request.

use serde::Deserialize;

use super::catalog::Catalog;
use super::compaction::CompactionAssets;
use super::template::RuntimeTemplate;
use crate::cursor::request::Mode;
use crate::cursor::tools::PROGRESS_TOOL;
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
    compaction: CompactionAssets,
    /// The tools of a subagent; it shares the agent's instructions.
    subagent_tools: Vec<ToolDefinition>,
    /// What a subagent is told of itself.
    subagent_identity: &'static str,
}

/// Whom a prompt is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// The agent that a person talks to.
    Main(Mode),
    /// An agent that another one started.
    Subagent(Mode),
    /// The same, where its steps shall not be told.
    QuietSubagent(Mode),
}

impl Profile {
    /// The mode that it works in.
    pub fn mode(self) -> Mode {
        let (Self::Main(mode) | Self::Subagent(mode) | Self::QuietSubagent(mode)) = self;
        mode
    }
}

impl From<Mode> for Profile {
    fn from(mode: Mode) -> Self {
        Self::Main(mode)
    }
}

/// What one mode tells the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModeAssets {
    /// The system prompt.
    pub instructions: &'static str,
    /// The form of a turn's message.
    pub runtime: RuntimeTemplate,
    /// What the model is told once, when a conversation goes over to the mode from another one.
    pub entered: &'static str,
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

/// The tools that no subagent has.
const NOT_FOR_SUBAGENTS: [&str; 2] = ["AskQuestion", "CreatePlan"];

macro_rules! mode_files {
    ($mode:literal) => {
        [
            include_str!(concat!("../../../prompt/cursor/", $mode, "/prompt.md")),
            include_str!(concat!("../../../prompt/cursor/", $mode, "/runtime.md")),
            include_str!(concat!("../../../prompt/cursor/", $mode, "/entered.md")),
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
            compaction: CompactionAssets::parse(
                include_str!("../../../prompt/cursor/compaction/prompt.md"),
                include_str!("../../../prompt/cursor/compaction/runtime.md"),
                include_str!("../../../prompt/cursor/compaction/shortened.md"),
            )?,
            subagent_tools: parse_manifest(
                "subagent",
                include_str!("../../../prompt/cursor/modes/subagent.json"),
                &catalog,
            )?,
            subagent_identity: include_str!("../../../prompt/cursor/subagent/identity.md"),
            catalog,
        })
    }

    /// The one schema catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The words around a compaction.
    pub fn compaction(&self) -> &CompactionAssets {
        &self.compaction
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

    /// What a subagent is told of itself, once, in its history.
    pub fn subagent_identity(&self) -> &'static str {
        self.subagent_identity
    }

    /// What a subagent of one of the client's own kinds is told beside that; nothing where the kind says nothing that
    /// could be followed here.
    pub fn subagent_instructions(&self, kind: &str) -> Option<&'static str> {
        match kind {
            "explore" => Some(include_str!("../../../prompt/cursor/subagent/explore.md")),
            "shell" | "bash" => Some(include_str!("../../../prompt/cursor/subagent/shell.md")),
            "debug" => Some(include_str!("../../../prompt/cursor/subagent/debug.md")),
            _ => None,
        }
    }

    /// The static tools in manifest order. A subagent has its own list where it carries a task out; in a mode that
    /// narrows what may be done, the mode's list holds for it too.
    pub fn tools(&self, profile: Profile) -> Vec<ToolDefinition> {
        let mut tools = match profile {
            Profile::Main(mode) => return self.mode(mode).tools.clone(),
            Profile::Subagent(Mode::Agent | Mode::Debug | Mode::Multitask)
            | Profile::QuietSubagent(Mode::Agent | Mode::Debug | Mode::Multitask) => {
                self.subagent_tools.clone()
            }
            // A mode that only looks narrows a subagent too; it tells its steps, and nobody is there to answer its
            // questions or to take a plan.
            Profile::Subagent(mode @ (Mode::Ask | Mode::Plan))
            | Profile::QuietSubagent(mode @ (Mode::Ask | Mode::Plan)) => {
                let looks = self.mode(mode).tools.iter();
                let looks = looks.filter(|tool| !NOT_FOR_SUBAGENTS.contains(&&*tool.name));
                let steps = self.subagent_tools.iter();
                looks
                    .chain(steps.filter(|tool| &*tool.name == PROGRESS_TOOL))
                    .cloned()
                    .collect()
            }
        };
        if matches!(profile, Profile::QuietSubagent(_)) {
            tools.retain(|tool| &*tool.name != PROGRESS_TOOL);
        }
        tools
    }
}

impl ModeAssets {
    fn parse(mode: &str, files: [&'static str; 4], catalog: &Catalog) -> Result<Self, AssetError> {
        let [instructions, runtime, entered, manifest] = files;
        for (name, text) in [("prompt.md", instructions), ("entered.md", entered)] {
            if text.trim().is_empty() {
                return Err(AssetError::new(format!("{mode}/{name}"), "is empty"));
            }
        }
        let runtime = RuntimeTemplate::parse(runtime)
            .map_err(|fault| AssetError::new(format!("{mode}/runtime.md"), fault))?;
        Ok(Self {
            instructions,
            runtime,
            entered: entered.trim_end(),
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
