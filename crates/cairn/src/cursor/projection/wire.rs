//! The JSON shapes of roots, and the capsule in which replay state travels as a reasoning signature.
//!
//! Must never know: messages of the model room; encode and decode translate.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::ReplayState;

/// Marks a signature as one of ours; the version of what follows and a dot come next. Any other signature is foreign
/// and opaque.
const CAPSULE_MARK: &str = "cairn.replay.";
/// The version that is written, and the only one that is read.
const CAPSULE_VERSION: &str = "1";

/// Official data repeats this id for every assistant message; it is no identity. [capture]
pub(super) const ASSISTANT_ID: &str = "1";

/// A root as it is written. Key order is fixed by the order of the fields.
#[derive(Serialize)]
pub(super) struct RootOut<'a> {
    pub role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a str>,
    pub content: ContentOut<'a>,
    #[serde(rename = "providerOptions", skip_serializing_if = "Option::is_none")]
    pub provider_options: Option<Box<RawValue>>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ContentOut<'a> {
    Text(&'a str),
    Parts(Vec<PartOut<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum PartOut<'a> {
    #[serde(rename = "text")]
    Text { text: &'a str },
    #[serde(rename = "image")]
    Image {
        data: String,
        #[serde(rename = "mimeType")]
        mime_type: &'a str,
    },
    #[serde(rename = "reasoning")]
    Reasoning {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    #[serde(rename = "tool-call")]
    ToolCall {
        #[serde(rename = "toolCallId")]
        tool_call_id: &'a str,
        #[serde(rename = "toolName")]
        tool_name: &'a str,
        args: &'a RawValue,
        #[serde(rename = "providerOptions", skip_serializing_if = "Option::is_none")]
        provider_options: Option<CallOptions>,
    },
    #[serde(rename = "tool-result")]
    ToolResult {
        #[serde(rename = "toolCallId")]
        tool_call_id: &'a str,
        #[serde(rename = "toolName")]
        tool_name: &'a str,
        /// The text alone.
        result: &'a str,
        /// The text and pictures in their order, where there are pictures.
        #[serde(rename = "experimental_content", skip_serializing_if = "Option::is_none")]
        content: Option<Vec<PartOut<'a>>>,
    },
}

/// A root as it is read. Unknown keys are allowed: the official data has more than is needed here.
#[derive(Deserialize)]
pub(super) struct RootIn {
    pub role: String,
    #[serde(default)]
    pub id: Option<String>,
    /// Text or parts. Read in a second step: raw JSON inside a part does not survive an untagged enum.
    content: Box<RawValue>,
    #[serde(default, rename = "providerOptions")]
    pub provider_options: Option<RootOptions>,
}

/// The content of a root as it is read.
pub(super) enum ContentIn {
    Text(String),
    Parts(Vec<PartIn>),
}

impl RootIn {
    pub(super) fn content(&self) -> Result<ContentIn, serde_json::Error> {
        let json = self.content.get();
        if json.starts_with('"') {
            serde_json::from_str(json).map(ContentIn::Text)
        } else {
            serde_json::from_str(json).map(ContentIn::Parts)
        }
    }
}

/// A content part as it is read; which keys must be there follows from `kind`.
#[derive(Deserialize)]
pub(super) struct PartIn {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub signature: Option<String>,
    #[serde(default)]
    pub data: Option<String>,
    #[serde(default, rename = "mimeType")]
    pub mime_type: Option<String>,
    #[serde(default, rename = "toolCallId")]
    pub tool_call_id: Option<String>,
    #[serde(default, rename = "toolName")]
    pub tool_name: Option<String>,
    #[serde(default)]
    pub args: Option<Box<RawValue>>,
    #[serde(default)]
    pub result: Option<Box<RawValue>>,
    #[serde(default, rename = "experimental_content")]
    pub content: Option<Vec<PartIn>>,
    #[serde(default, rename = "providerOptions")]
    pub provider_options: Option<CallOptions>,
}

/// Options of a tool-call part that only we write: the exact argument text where `args` cannot hold it.
#[derive(Serialize, Deserialize)]
pub(super) struct CallOptions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cairn: Option<CairnCallOptions>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct CairnCallOptions {
    #[serde(rename = "argumentsText")]
    pub arguments_text: String,
}

#[derive(Deserialize)]
pub(super) struct RootOptions {
    #[serde(default)]
    pub cursor: Option<CursorRootOptions>,
    #[serde(default)]
    pub cairn: Option<CairnRootOptions>,
}

/// Options of a system root that only we write: the note about the prompt.
#[derive(Deserialize)]
pub(super) struct CairnRootOptions {
    pub prompt: Box<RawValue>,
}

#[derive(Deserialize)]
pub(super) struct CursorRootOptions {
    #[serde(default, rename = "highLevelToolCallResult")]
    pub result: Option<HighLevelResult>,
    #[serde(default, rename = "modelProviderMessageId")]
    pub provider_message_id: Option<String>,
    #[serde(default, rename = "pendingToolCallStartedAtMs")]
    pub started_at_ms: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct HighLevelResult {
    #[serde(default, rename = "isError")]
    pub is_error: bool,
}

#[derive(Serialize, Deserialize)]
struct Capsule<'a> {
    issuer: std::borrow::Cow<'a, str>,
    payload: std::borrow::Cow<'a, str>,
}

/// Packs replay state into a signature that only [`open_capsule`] reads.
pub(super) fn seal_capsule(state: &ReplayState) -> Result<String, serde_json::Error> {
    let capsule = Capsule {
        issuer: (&*state.issuer).into(),
        payload: (&*state.payload).into(),
    };
    Ok(format!(
        "{CAPSULE_MARK}{CAPSULE_VERSION}.{}",
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&capsule)?)
    ))
}

/// Reads a signature: ours gives replay state, a foreign one gives `None`, one of ours that cannot be read is an error.
pub(super) fn open_capsule(signature: &str) -> Result<Option<ReplayState>, CapsuleFault> {
    let Some(marked) = signature.strip_prefix(CAPSULE_MARK) else {
        return Ok(None);
    };
    let (version, packed) = marked.split_once('.').ok_or(CapsuleFault::Damaged)?;
    if version != CAPSULE_VERSION {
        return Err(match version.parse() {
            Ok(version) => CapsuleFault::Version(version),
            Err(_) => CapsuleFault::Damaged,
        });
    }
    let json = URL_SAFE_NO_PAD
        .decode(packed)
        .map_err(|_| CapsuleFault::Damaged)?;
    let capsule: Capsule<'_> = serde_json::from_slice(&json).map_err(|_| CapsuleFault::Damaged)?;
    Ok(Some(ReplayState {
        issuer: Arc::from(capsule.issuer.as_ref()),
        payload: Arc::from(capsule.payload.as_ref()),
    }))
}

/// Why a signature that carries our mark cannot be read.
pub(super) enum CapsuleFault {
    /// It was written by a version of cairn that this one does not know.
    Version(u32),
    /// It is not what cairn writes.
    Damaged,
}
