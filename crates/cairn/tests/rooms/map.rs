//! The rooms of the server and what each must never know: the executable half of `ARCHITECTURE.md`.

/// A folder of `crates/cairn/src/` that is a boundary.
pub struct Room {
    pub name: &'static str,
    /// Other modules of the crate that it may use.
    pub may_use: &'static [&'static str],
    /// Crates and modules of crates that it must not name, as paths.
    pub never_paths: &'static [&'static str],
    /// Words that its names and texts must not hold, singular or plural; comments may say what is not here.
    pub never_words: &'static [&'static str],
    /// Whether it may be asynchronous.
    pub may_wait: bool,
    /// Whether it may hold the names of tools.
    pub may_name_tools: bool,
    /// Whether it may hold the names of model vendors.
    pub may_name_vendors: bool,
    /// Whether it may hold SQL.
    pub may_speak_sql: bool,
}

const INPUT_AND_OUTPUT: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "tokio::fs",
    "tokio::net",
    "tokio::process",
    "axum",
    "hyper",
    "reqwest",
    "prost",
    "sqlx",
];

pub const ROOMS: &[Room] = &[
    Room {
        name: "model",
        may_use: &[],
        never_paths: &[
            "std::env",
            "std::fs",
            "std::net",
            "std::process",
            "std::thread",
            "axum",
            "hyper",
            "reqwest",
            "prost",
            "sqlx",
            "tokio",
            "futures_util",
            "serde",
            "serde_json",
            "toml",
            "tracing",
        ],
        never_words: &["cursor", "blob", "checkpoint", "wire", "protobuf"],
        may_wait: false,
        may_name_tools: false,
        may_name_vendors: false,
        may_speak_sql: false,
    },
    Room {
        name: "client",
        may_use: &["model"],
        never_paths: INPUT_AND_OUTPUT,
        never_words: &["cursor", "blob", "checkpoint", "wire", "protobuf", "connect"],
        may_wait: true,
        may_name_tools: false,
        may_name_vendors: false,
        may_speak_sql: false,
    },
    Room {
        name: "run",
        may_use: &["client", "clock", "model", "provider", "store"],
        never_paths: INPUT_AND_OUTPUT,
        never_words: &["cursor", "blob", "checkpoint", "wire", "protobuf"],
        may_wait: true,
        may_name_tools: false,
        may_name_vendors: false,
        may_speak_sql: false,
    },
    Room {
        name: "provider",
        may_use: &["clock", "config", "http_client", "model"],
        never_paths: &["std::env", "std::process", "tokio::process", "prost", "sqlx"],
        never_words: &["cursor", "checkpoint", "protobuf"],
        may_wait: true,
        may_name_tools: true,
        may_name_vendors: true,
        may_speak_sql: false,
    },
    Room {
        name: "store",
        may_use: &["clock", "model"],
        never_paths: &[
            "std::env",
            "std::net",
            "std::process",
            "tokio::net",
            "tokio::process",
            "axum",
            "hyper",
            "reqwest",
            "prost",
        ],
        // A checkpoint is also the database's own word for emptying its log.
        never_words: &["cursor", "wire", "protobuf"],
        may_wait: true,
        may_name_tools: false,
        may_name_vendors: false,
        may_speak_sql: true,
    },
    Room {
        name: "web",
        may_use: &["config", "http_client"],
        never_paths: &[
            "std::env",
            "std::process",
            "tokio::process",
            "axum",
            "prost",
            "sqlx",
        ],
        never_words: &["cursor", "blob", "checkpoint", "wire", "protobuf"],
        may_wait: true,
        may_name_tools: false,
        may_name_vendors: true,
        may_speak_sql: false,
    },
    Room {
        name: "cursor",
        may_use: &[
            "client", "clock", "config", "model", "picture", "run", "store", "web",
        ],
        never_paths: &["sqlx"],
        never_words: &[],
        may_wait: true,
        may_name_tools: true,
        may_name_vendors: true,
        may_speak_sql: false,
    },
];

/// Modules beside the rooms that join them and may use all: the entry, the wiring and the demonstration.
pub const WIRING: &[&str] = &["lib", "main", "app", "demo", "prefix_report"];

/// Modules beside the rooms that everyone may be told to use and that use none of them.
pub const LEAVES: &[&str] = &["clock", "config", "guard", "http_client", "picture", "server"];

/// What a run may take from `provider/`: the port, not what stands behind it.
pub const PROVIDER_PORT: &[&str] = &[
    "Provider",
    "ModelEvent",
    "ModelInvocation",
    "ModelStream",
    "StopReason",
];

/// The names that the model knows tools by.
pub const TOOL_NAMES: &[&str] = &[
    "AskQuestion",
    "AwaitShell",
    "CallMcpTool",
    "CreatePlan",
    "Delete",
    "EditNotebook",
    "FetchMcpResource",
    "GenerateImage",
    "GetMcpTools",
    "Glob",
    "Grep",
    "Read",
    "ReadLints",
    "Shell",
    "StrReplace",
    "SwitchMode",
    "Task",
    "TodoWrite",
    "UpdateCurrentStep",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// Model vendors and model families, in lower case and without separators.
pub const VENDORS: &[&str] = &[
    "anthropic",
    "chatgpt",
    "claude",
    "deepseek",
    "gemini",
    "mistral",
    "moonshot",
    "openai",
    "openrouter",
    "qwen",
];

/// The room with this name.
pub fn room(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}
