//! What the two APIs of OpenAI have in common.
//!
//! Must never know: the shape of either API's requests or streams.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};

use super::endpoint::Endpoint;
use super::extra_body::ExtraBody;
use super::json::Json;
use super::sent;
use crate::model::{
    ConversationId, Image, ItemDigest, ItemKind, ModelRequest, ProviderFailure, ProviderFault, ToolDefinition,
};

/// Longest name of a tool that the APIs take.
pub(crate) const LONGEST_NAME: usize = 64;

/// An opaque key that is the same for all requests of a conversation.
pub(crate) fn prompt_cache_key(conversation: &ConversationId) -> String {
    let mut hash = Sha256::new();
    hash.update(b"cairn prompt cache key 1\n");
    hash.update(conversation.as_str().as_bytes());
    hex::encode(&hash.finalize()[..16])
}

/// A picture as the address that carries it whole.
pub(crate) fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.mime_type, STANDARD.encode(&image.data))
}

/// Writes what follows the API's own parameters in a body's head: the conversation's cache key if it is wanted, what the
/// configuration adds, and the tools, which `write_tool` writes.
pub(crate) fn write_rest(
    json: &mut Json,
    items: &mut Vec<ItemDigest>,
    request: &ModelRequest,
    wants_cache_key: bool,
    extra_body: &ExtraBody,
    endpoint: &Endpoint,
    write_tool: impl Fn(&mut Json, &ToolDefinition),
) -> Result<(), ProviderFailure> {
    if wants_cache_key {
        json.raw("\"prompt_cache_key\":");
        json.string(&prompt_cache_key(&request.conversation));
        json.raw(",");
    }
    extra_body.write(json, request.model.latency, endpoint)?;
    write_tools(json, items, &request.prompt.tools, endpoint, write_tool)
}

/// Writes the member with the tools, if there are any, and adds what they are remembered by. Their schemas go out as they
/// are, so it is checked that they do not break the body.
fn write_tools(
    json: &mut Json,
    items: &mut Vec<ItemDigest>,
    tools: &[ToolDefinition],
    endpoint: &Endpoint,
    write: impl Fn(&mut Json, &ToolDefinition),
) -> Result<(), ProviderFailure> {
    if tools.is_empty() {
        return Ok(());
    }
    json.raw("\"tools\":[");
    for (index, tool) in tools.iter().enumerate() {
        if let Err(fault) = serde_json::from_str::<IgnoredAny>(&tool.parameters) {
            return Err(endpoint.failure(
                ProviderFault::InvalidRequest,
                &format!("the parameters of the tool {} are no JSON: {fault}", tool.name),
            ));
        }
        if index > 0 {
            json.raw(",");
        }
        let start = json.bytes.len();
        write(json, tool);
        items.push(sent::item(ItemKind::Tool, &json.bytes[start..]));
    }
    json.raw("],");
    Ok(())
}
