//! The configuration contract: defaults, precedence, and one-line errors that name the key and no secret.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a failed expectation is a failed test"
)]

use std::path::{Path, PathBuf};

use cairn::config::{Api, ConfigError, EntryLimits, Flags, Loaded, SearchProvider, load, load_client_key};
use secrecy::ExposeSecret as _;

const KEY: &str = "client_key = \"k\"\n";
const MODEL: &str = "[[models]]\nid = \"fast\"\napi = \"scripted\"\n";

fn load_with(flags: &Flags, env: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    load(flags, &|name| {
        env.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| (*value).to_owned())
    })
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn load(&self, text: &str, env: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
        let flags = Flags {
            config: Some(self.write("cairn.toml", text)),
            ..Flags::default()
        };
        load_with(&flags, env)
    }
}

fn error_of(text: &str, env: &[(&str, &str)]) -> ConfigError {
    let error = Folder::new()
        .load(text, env)
        .err()
        .unwrap_or_else(|| panic!("accepted: {text}"));
    let line = error.to_string();
    assert!(!line.contains('\n') && !line.contains("CANARY"), "{line}");
    error
}

#[test]
fn a_whole_file() {
    let folder = Folder::new();
    folder.write("key", "sk-file\n");
    let text = r#"
        listen = "127.0.0.1:0"
        data_dir = "data"
        client_key = "secret"
        upstream = "https://upstream.test"
        [[models]]
        id = "fast"
        name = "Fast"
        api = "openai-chat"
        base_url = "http://127.0.0.1:8080/v1"
        api_key_env = "MY_KEY"
        model = "real"
        context_window = 128000
        max_output_tokens = 8192
        vision = true
        tool_result_limit = 5000
        picture_max_bytes = 20000
        picture_max_edge = 1024
        [models.options]
        dialect = "x"
        [[models]]
        id = "local"
        api = "anthropic"
        base_url = "http://127.0.0.1:8081"
        api_key_file = "key"
        max_output_tokens = 1
    "#;
    let Loaded {
        config,
        new_client_key,
    } = folder.load(text, &[("MY_KEY", "sk-env")]).unwrap();
    assert_eq!(new_client_key, None);
    assert_eq!(config.listen, "127.0.0.1:0".parse().unwrap());
    assert_eq!(config.data_dir, folder.path().join("data"));
    assert!(!config.data_dir.exists());
    assert_eq!(config.client_key.expose_secret(), "secret");
    assert_eq!(config.upstream.unwrap().as_str(), "https://upstream.test/");
    let [fast, local] = &config.models[..] else {
        panic!("{:?}", config.models);
    };
    assert_eq!(
        (fast.id.as_str(), fast.name.as_deref(), fast.api),
        ("fast", Some("Fast"), Api::OpenAiChat)
    );
    assert_eq!(
        fast.base_url.as_ref().unwrap().as_str(),
        "http://127.0.0.1:8080/v1"
    );
    assert_eq!(fast.api_key.as_ref().unwrap().expose_secret(), "sk-env");
    assert_eq!(fast.upstream_model, "real");
    assert_eq!(
        (fast.context_window, fast.max_output_tokens, fast.vision),
        (Some(128_000), Some(8192), true)
    );
    let limits = |result_characters, picture_bytes, picture_edge| EntryLimits {
        result_characters,
        picture_bytes,
        picture_edge,
    };
    assert_eq!(fast.limits, limits(5000, 20_000, 1024));
    assert_eq!(local.limits, limits(100_000, 3_750_000, 1568));
    assert_eq!(fast.options["dialect"].as_str(), Some("x"));
    assert_eq!(
        (local.upstream_model.as_str(), local.name.as_deref(), local.vision),
        ("local", None, false)
    );
    assert_eq!(local.api_key.as_ref().unwrap().expose_secret(), "sk-file");
    assert!(local.options.is_empty());
}

#[test]
fn defaults() {
    let config = Folder::new().load(&format!("{KEY}{MODEL}"), &[]).unwrap().config;
    assert_eq!(config.listen, "127.0.0.1:7437".parse().unwrap());
    assert!(config.data_dir.ends_with("cairn"), "{:?}", config.data_dir);
    assert!(config.upstream.is_none());
}

#[test]
fn flags_win_over_environment_over_file() {
    let folder = Folder::new();
    let text = format!("listen = \"127.0.0.1:1\"\ndata_dir = \"file\"\n{KEY}{MODEL}");
    let config = folder.write("cairn.toml", &text);
    let env = [
        ("CAIRN_CONFIG", config.to_str().unwrap()),
        ("CAIRN_LISTEN", "127.0.0.1:2"),
        ("CAIRN_DATA_DIR", "/env"),
    ];
    let of = |flags: Flags, env: &[(&str, &str)]| {
        let config = load_with(&flags, env).unwrap().config;
        (config.listen.port(), config.data_dir)
    };
    assert_eq!(of(Flags::default(), &env[..1]), (1, folder.path().join("file")));
    assert_eq!(of(Flags::default(), &env), (2, PathBuf::from("/env")));
    let other = folder.write("other.toml", &format!("{KEY}{MODEL}"));
    let flags = Flags {
        config: Some(other),
        listen: Some("127.0.0.1:3".to_owned()),
        data_dir: Some(PathBuf::from("/flag")),
    };
    assert_eq!(
        of(flags, &[("CAIRN_CONFIG", "/missing"), env[1], env[2]]),
        (3, PathBuf::from("/flag"))
    );
    // An empty variable is as good as none.
    let empty = [env[0], ("CAIRN_LISTEN", ""), ("CAIRN_DATA_DIR", "")];
    assert_eq!(of(Flags::default(), &empty), (1, folder.path().join("file")));
}

#[test]
fn the_environment_describes_one_model_where_there_is_no_file() {
    let folder = Folder::new();
    let flags = Flags {
        data_dir: Some(folder.path().to_owned()),
        ..Flags::default()
    };
    let env = [
        ("CAIRN_API", "openai-chat"),
        ("CAIRN_BASE_URL", "http://127.0.0.1:9/v1"),
        ("CAIRN_MODEL", "m"),
        ("CAIRN_API_KEY", "sk-1"),
    ];
    let config = load_with(&flags, &env).unwrap().config;
    let [model] = &config.models[..] else {
        panic!("{:?}", config.models);
    };
    assert_eq!(
        (model.id.as_str(), model.upstream_model.as_str(), model.api),
        ("m", "m", Api::OpenAiChat)
    );
    assert_eq!(model.api_key.as_ref().unwrap().expose_secret(), "sk-1");
    assert_eq!(model.base_url.as_ref().unwrap().as_str(), "http://127.0.0.1:9/v1");
    assert!(
        load_with(&flags, &env[..3]).unwrap().config.models[0]
            .api_key
            .is_none()
    );

    let key = |env: &[(&str, &str)]| load_with(&flags, env).unwrap_err().key().to_owned();
    assert_eq!(key(&[]), "CAIRN_API");
    assert_eq!(key(&[("CAIRN_API", "openai")]), "CAIRN_API");
    assert_eq!(key(&[env[0], env[1]]), "CAIRN_MODEL");
    assert_eq!(key(&[env[0], env[2]]), "CAIRN_BASE_URL");
    assert_eq!(
        key(&[env[0], env[2], ("CAIRN_BASE_URL", "nonsense")]),
        "CAIRN_BASE_URL"
    );
    assert_eq!(
        key(&[("CAIRN_API", "anthropic"), env[1], env[2]]),
        "CAIRN_MAX_OUTPUT_TOKENS"
    );
    let anthropic = [
        ("CAIRN_API", "anthropic"),
        env[1],
        env[2],
        ("CAIRN_MAX_OUTPUT_TOKENS", "4096"),
    ];
    assert_eq!(
        load_with(&flags, &anthropic).unwrap().config.models[0].max_output_tokens,
        Some(4096)
    );
    let scripted = [("CAIRN_API", "scripted"), env[2]];
    assert!(
        load_with(&flags, &scripted).unwrap().config.models[0]
            .base_url
            .is_none()
    );
}

#[test]
fn services_on_the_web_are_read_from_their_tables() {
    let text = format!(
        "{KEY}{MODEL}[web_search]\nprovider = \"brave\"\napi_key_env = \"SET\"\n\
         [image_generation]\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"painter\"\n"
    );
    let web = Folder::new()
        .load(&text, &[("SET", "brave-key")])
        .unwrap()
        .config
        .web;
    let search = web.search.unwrap();
    assert_eq!(search.provider, SearchProvider::Brave);
    assert_eq!(search.base_url.as_str(), "https://api.search.brave.com/res/v1");
    assert_eq!(search.api_key.unwrap().expose_secret(), "brave-key");
    let images = web.images.unwrap();
    assert_eq!(images.base_url.as_str(), "http://127.0.0.1:1/v1");
    assert_eq!(images.model, "painter");
    assert!(images.api_key.is_none());
}

#[test]
fn each_fault_names_its_key() {
    let model = |line: &str| format!("{KEY}{MODEL}{line}");
    let endpoint = |lines: &str| format!("{KEY}[[models]]\nid = \"a\"\n{lines}");
    let cases = [
        (KEY.to_owned(), "models"),
        (format!("{KEY}models = []"), "models"),
        (format!("{KEY}models = 1"), "models"),
        (format!("{KEY}models = [1]"), "models[0]"),
        (format!("{KEY}{MODEL}{MODEL}"), "models[1].id"),
        (format!("listn = \"x\"\n{KEY}{MODEL}"), "listn"),
        (format!("listen = 7437\n{KEY}{MODEL}"), "listen"),
        (format!("listen = \"localhost\"\n{KEY}{MODEL}"), "listen"),
        (format!("data_dir = \"\"\n{KEY}{MODEL}"), "data_dir"),
        (format!("client_key = \"\"\n{MODEL}"), "client_key"),
        (format!("client_key = \"CANARY key\"\n{MODEL}"), "client_key"),
        (format!("client_key = [\"CANARY\"]\n{MODEL}"), "client_key"),
        (format!("upstream = \"ftp://x\"\n{KEY}{MODEL}"), "upstream"),
        (format!("upstream = \"https://x/path\"\n{KEY}{MODEL}"), "upstream"),
        (
            format!("upstream = \"https://u:CANARY@x\"\n{KEY}{MODEL}"),
            "upstream",
        ),
        (format!("{KEY}[[models]]\napi = \"scripted\""), "models[0].id"),
        (
            format!("{KEY}[[models]]\nid = \"a\\nb\"\napi = \"scripted\""),
            "models[0].id",
        ),
        (format!("{KEY}[[models]]\nid = \"a\""), "models[0].api"),
        (endpoint("api = \"gemini\""), "models[0].api"),
        (endpoint("api = \"openai-chat\""), "models[0].base_url"),
        (endpoint("api = \"openai-responses\""), "models[0].base_url"),
        (
            endpoint("api = \"anthropic\"\nbase_url = \"http://x\""),
            "models[0].max_output_tokens",
        ),
        (
            endpoint("api = \"openai-chat\"\nbase_url = \"sk-CANARY\""),
            "models[0].base_url",
        ),
        (
            endpoint("api = \"openai-chat\"\nbase_url = \"https://u:CANARY@x/v1\""),
            "models[0].base_url",
        ),
        (
            endpoint("api = \"openai-chat\"\nbase_url = \"https://x/v1#CANARY\""),
            "models[0].base_url",
        ),
        (model("contxt_window = 1"), "models[0].contxt_window"),
        (model("context_window = 0"), "models[0].context_window"),
        (model("context_window = 4294967296"), "models[0].context_window"),
        (
            model("max_output_tokens = \"CANARY\""),
            "models[0].max_output_tokens",
        ),
        (model("vision = \"CANARY\""), "models[0].vision"),
        (model("options = \"CANARY\""), "models[0].options"),
        (model("tool_result_limit = 999"), "models[0].tool_result_limit"),
        (
            model("tool_result_limit = 1000001"),
            "models[0].tool_result_limit",
        ),
        (
            model("picture_max_bytes = \"CANARY\""),
            "models[0].picture_max_bytes",
        ),
        (model("picture_max_edge = 63"), "models[0].picture_max_edge"),
        (model("api_key = \"CANARY\""), "models[0].api_key"),
        (model("api_key_env = \"CANARY_UNSET\""), "models[0].api_key_env"),
        (model("api_key_env = \"BROKEN\""), "models[0].api_key_env"),
        (
            model("api_key_file = \"CANARY-missing\""),
            "models[0].api_key_file",
        ),
        (
            model("api_key_env = \"SET\"\napi_key_file = \"x\""),
            "models[0].api_key_file",
        ),
        (model("[web_search]"), "web_search.provider"),
        (
            model("[web_search]\nprovider = \"CANARY\""),
            "web_search.provider",
        ),
        (
            model("[web_search]\nprovider = \"searxng\""),
            "web_search.base_url",
        ),
        (
            model("[web_search]\nprovider = \"brave\""),
            "web_search.api_key_env",
        ),
        (
            model("[web_search]\nprovider = \"brave\"\napi_key_env = \"CANARY_UNSET\""),
            "web_search.api_key_env",
        ),
        (
            model("[web_search]\nprovider = \"searxng\"\nbase_url = \"http://x\"\nkey = \"CANARY\""),
            "web_search.key",
        ),
        (
            model("[image_generation]\nmodel = \"a\""),
            "image_generation.base_url",
        ),
        (
            model("[image_generation]\nbase_url = \"http://x\""),
            "image_generation.model",
        ),
    ];
    for (text, key) in cases {
        let error = error_of(&text, &[("SET", "sk-CANARY"), ("BROKEN", "sk CANARY\n")]);
        assert_eq!(error.key(), key, "{text}\n{error}");
    }
    let unknown = error_of(&format!("{KEY}{MODEL}[other]\n"), &[]).to_string();
    assert_eq!(
        unknown,
        "other: unknown key; the keys here are listen, data_dir, client_key, upstream, models, web_search, image_generation"
    );
}

#[test]
fn what_is_no_toml_is_never_quoted() {
    let cases = [
        ("client_key = \"sk-CANARY\n", "client_key", "line 1 "),
        ("client_key = sk-CANARY\n", "client_key", "line 1 "),
        (
            "listen = \"127.0.0.1:1\"\nclient_key = 'sk-CANARY' x\n",
            "client_key",
            "line 2 ",
        ),
        ("sk-CANARY\n", "--config", "line 1 "),
        (
            "client_key = \"a\"\nclient_key = \"sk-CANARY\"\n",
            "client_key",
            "line 2 ",
        ),
        ("[[models]]\nid = \"\\q CANARY\"\n", "id", "line 2 "),
    ];
    for (text, key, line) in cases {
        let error = error_of(text, &[]);
        assert_eq!(error.key(), key, "{text}");
        assert!(error.to_string().contains(line), "{error}");
    }
    let flags = Flags {
        config: Some(PathBuf::from("/missing/cairn.toml")),
        ..Flags::default()
    };
    assert_eq!(load_with(&flags, &[]).unwrap_err().key(), "--config");
}

#[test]
fn a_configuration_prints_no_secret() {
    let text = "client_key = \"sk-CANARY\"\n[[models]]\nid = \"a\"\napi = \"openai-chat\"\nbase_url = \
         \"https://x/v1?key=CANARY\"\napi_key_env = \"SET\"\n[models.options]\nheader = \"CANARY\"\n";
    let loaded = Folder::new().load(text, &[("SET", "sk-CANARY")]).unwrap();
    let printed = format!("{loaded:?}");
    assert!(
        printed.contains("https://x") && !printed.contains("CANARY"),
        "{printed}"
    );
}

#[test]
fn an_absent_client_key_is_made_once() {
    let folder = Folder::new();
    let data_dir = folder.path().join("a/b");
    let flags = Flags {
        config: Some(folder.write("cairn.toml", MODEL)),
        data_dir: Some(data_dir.clone()),
        ..Flags::default()
    };
    let first = load_with(&flags, &[]).unwrap();
    let path = data_dir.join("client_key");
    assert_eq!(first.new_client_key.as_ref(), Some(&path));
    let key = first.config.client_key.expose_secret().to_owned();
    assert!(
        key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{key}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&data_dir)), (0o600, 0o700));
    }
    let names: Vec<_> = std::fs::read_dir(&data_dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["client_key"]);

    let second = load_with(&flags, &[]).unwrap();
    assert_eq!(second.new_client_key, None);
    assert_eq!(second.config.client_key.expose_secret(), key);
    let without_models = Flags {
        data_dir: Some(data_dir.clone()),
        ..Flags::default()
    };
    // Nor does it need an endpoint's key: it is asked for in another terminal.
    let elsewhere = Flags {
        config: Some(folder.write(
            "other.toml",
            "client_key = \"of-the-file\"\n[[models]]\nid = \"m\"\napi = \"openai-chat\"\nbase_url = \"http://x/v1\"\napi_key_env = \"UNSET\"\n",
        )),
        ..Flags::default()
    };
    assert_eq!(
        load_client_key(&elsewhere, &|_| None).unwrap().expose_secret(),
        "of-the-file"
    );
    assert_eq!(
        load_client_key(&without_models, &|_| None)
            .unwrap()
            .expose_secret(),
        key
    );

    std::fs::write(&path, "\n").unwrap();
    assert_eq!(load_with(&flags, &[]).unwrap_err().key(), "client_key");
    let blocked = Flags {
        data_dir: Some(folder.write("file", "").join("data")),
        ..flags
    };
    assert!(["client_key", "data_dir"].contains(&load_with(&blocked, &[]).unwrap_err().key()));
}
