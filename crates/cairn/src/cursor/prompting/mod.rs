//! What the model is told by way of the Cursor client: instructions, tools and the form of a turn's message.
//!
//! Owns the assets in `prompt/cursor/`, the names that tools have towards the model and the compilation of a frozen
//! prompt. Must never know: a wire message's shape, where a blob comes from, the clock, or any I/O.

mod assets;
mod basis;
mod catalog;
mod compaction;
mod compiler;
mod mcp;
mod schema;
mod template;

pub use assets::{AssetError, ModeAssets, Profile, PromptAssets};
pub use basis::{PromptNote, UnreadableNote};
pub use catalog::{Catalog, CatalogEntry};
pub use compaction::CompactionAssets;
pub use compiler::{CompiledPrompt, LeftOutTool, OfferedTools, compile_prompt};
pub use mcp::{McpDirectory, McpTool};
pub use schema::{SchemaFault, canonical_schema};
pub use template::{RuntimeSlots, RuntimeTemplate};
