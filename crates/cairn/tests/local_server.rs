//! Who may speak to the server, what it answers by itself, and that no secret leaves it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a failed expectation is a failed test"
)]

#[path = "support/wire.rs"]
mod wire;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use cairn::cursor::connect::{ConnectCode, ConnectError};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use wire::{CLIENT_KEY, Seen, Server, all_seen, append_request, client_message};

const EMPTY_ANSWERS: [&str; 6] = [
    "/aiserver.v1.DashboardService/GetUserPrivacyMode",
    "/aiserver.v1.DashboardService/GetTeamAdminSettingsOrEmptyIfNotInTeam",
    "/aiserver.v1.DashboardService/GetTeamReposOrEmptyIfNotInTeam",
    "/aiserver.v1.ServerConfigService/GetServerConfig",
    "/aiserver.v1.AnalyticsService/BootstrapStatsig",
    "/aiserver.v1.AnalyticsService/TrackEvents",
];

/// Status of a request written by hand.
async fn raw(port: u16, head: &str) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("{head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(!answer.to_lowercase().contains("access-control-"), "{answer}");
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

// === the guard ===

#[tokio::test]
async fn only_requests_to_this_server_from_no_other_page_are_served() {
    let server = Server::start().await;
    let port = server.port;
    let own = format!("127.0.0.1:{port}");
    // Headers after the request line, and whether a route is reached.
    let cases: Vec<(String, bool)> = vec![
        (format!("Host: {own}"), true),
        (format!("Host: localhost:{port}"), true),
        (format!("Host: LocalHost:{port}"), true),
        (format!("Host: [::1]:{port}"), true),
        ("Host: localhost".to_owned(), true),
        ("Host: 127.0.0.1".to_owned(), true),
        ("Host: [::1]".to_owned(), true),
        (format!("Host: evil.test:{port}"), false),
        (format!("Host: localhost.evil.test:{port}"), false),
        (format!("Host: 192.168.1.1:{port}"), false),
        (format!("Host: 127.0.0.1:{}", port ^ 1), false),
        (format!("Host: ::1:{port}"), false),
        (format!("Host: [::1]x:{port}"), false),
        ("Host: localhost:".to_owned(), false),
        (format!("Host: localhost:+{port}"), false),
        ("Host: ".to_owned(), false),
        (format!("Host: {own}\r\nHost: {own}"), false),
        (format!("X-No-Host: {own}"), false),
        (format!("Host: {own}\r\nOrigin: http://{own}"), true),
        (format!("Host: {own}\r\nOrigin: http://localhost:{port}"), true),
        (
            format!("Host: {own}\r\nOrigin: http://{own}\r\nSec-Fetch-Site: same-origin"),
            true,
        ),
        (format!("Host: {own}\r\nOrigin: https://evil.test"), false),
        (
            format!("Host: {own}\r\nOrigin: http://localhost:{}", port ^ 1),
            false,
        ),
        (format!("Host: {own}\r\nOrigin: http://localhost"), false),
        (format!("Host: {own}\r\nOrigin: https://{own}"), false),
        (format!("Host: {own}\r\nOrigin: null"), false),
        (format!("Host: {own}\r\nOrigin: "), false),
        (
            format!("Host: {own}\r\nOrigin: http://{own}\r\nOrigin: null"),
            false,
        ),
        (format!("Host: {own}\r\nOrigin: http://{own}/"), false),
        (format!("Host: {own}\r\nSec-Fetch-Site: none"), true),
        (format!("Host: {own}\r\nSec-Fetch-Site: cross-site"), false),
        (format!("Host: {own}\r\nSec-Fetch-Site: same-site"), false),
    ];
    // What a served request gets here: no bearer, an unknown route, a wrong content type.
    for (line, served) in [
        ("GET /v1/models", 401),
        ("GET /nowhere", 404),
        ("POST /auth/exchange_user_api_key", 415),
    ] {
        for (headers, reached) in &cases {
            let status = raw(port, &format!("{line} HTTP/1.1\r\n{headers}")).await;
            let expected = if *reached { served } else { 403 };
            // A missing Host is refused by the HTTP server or by the guard.
            let without_host = headers.starts_with("X-") && status == 400;
            assert!(
                status == expected || without_host,
                "{line} with {headers:?}: {status}"
            );
        }
    }
    assert_eq!(
        raw(
            port,
            &format!("GET http://evil.test/v1/models HTTP/1.1\r\nHost: {own}")
        )
        .await,
        403
    );
    assert_eq!(
        raw(
            port,
            &format!("GET http://{own}/v1/models HTTP/1.1\r\nHost: {own}")
        )
        .await,
        401
    );
}

#[tokio::test]
async fn preflights_are_refused_on_every_route() {
    let server = Server::start().await;
    let (port, own) = (server.port, format!("127.0.0.1:{}", server.port));
    for path in ["/v1/models", "/agent.v1.AgentService/RunSSE", "/nowhere", "*"] {
        let head = format!("OPTIONS {path} HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}");
        assert_eq!(raw(port, &head).await, 405, "{path}");
    }
    assert_eq!(raw(port, &format!("TRACE / HTTP/1.1\r\nHost: {own}")).await, 405);
}

#[tokio::test]
async fn only_the_protocols_content_types_are_taken() {
    let server = Server::start().await;
    let mut routes = vec![
        "/agent.v1.AgentService/RunSSE",
        "/aiserver.v1.BidiService/BidiAppend",
        "/auth/exchange_user_api_key",
    ];
    routes.extend(EMPTY_ANSWERS);
    for path in routes {
        for content_type in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "",
        ] {
            let answer = server
                .post(path, content_type)
                .bearer_auth(&server.token)
                .body("{}")
                .send()
                .await
                .unwrap();
            assert_eq!(answer.status(), 415, "{path} as {content_type}");
        }
        assert_eq!(
            server
                .http
                .get(format!("{}{path}", server.base))
                .send()
                .await
                .unwrap()
                .status(),
            405,
            "{path}"
        );
    }
}

// === keys ===

#[tokio::test]
async fn only_the_client_key_is_exchanged() {
    let server = Server::start().await;
    let longer = format!("{CLIENT_KEY}x");
    for key in [
        "",
        "x",
        &CLIENT_KEY[1..],
        &longer,
        &CLIENT_KEY.to_uppercase(),
        &server.token,
    ] {
        let answer = server.exchange(key).await;
        assert_eq!(answer.status(), 401, "{key}");
        let text = answer.text().await.unwrap();
        assert!(!text.contains("CANARY"), "{text}");
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap()["code"],
            "unauthenticated"
        );
    }
    let none = server
        .post("/auth/exchange_user_api_key", "application/json")
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(none.status(), 401);
}

#[tokio::test]
async fn tokens_have_three_parts_and_outlive_a_restart() {
    let first = Server::start().await;
    let tokens = wire::json(first.exchange(CLIENT_KEY).await).await;
    let names: Vec<&String> = tokens.as_object().unwrap().keys().collect();
    assert_eq!(names, ["accessToken", "refreshToken"]);
    let (access, refresh) = (
        tokens["accessToken"].as_str().unwrap(),
        tokens["refreshToken"].as_str().unwrap(),
    );
    assert_ne!(access, refresh);
    for token in [access, refresh] {
        let parts: Vec<&str> = token.split('.').collect();
        assert_eq!(parts.len(), 3);
        for part in &parts[..2] {
            let json = base64::engine::general_purpose::URL_SAFE_NO_PAD
                .decode(part)
                .unwrap();
            assert!(serde_json::from_slice::<Value>(&json).unwrap().is_object());
        }
        assert!(!token.contains("CANARY"));
    }
    let second = Server::start().await;
    assert_eq!(second.token, access);
    let list = second
        .http
        .get(format!("{}/v1/models", second.base))
        .bearer_auth(access);
    assert_eq!(list.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn runs_and_appends_take_exactly_the_access_token() {
    let mut server = Server::start().await;
    let tokens = wire::json(server.exchange(CLIENT_KEY).await).await;
    let refresh = tokens["refreshToken"].as_str().unwrap().to_owned();
    let good = server.token.clone();
    let (head, signature) = good.rsplit_once('.').unwrap();
    let flipped: String = signature.chars().rev().collect();
    for bad in [
        "",
        "a.b.c",
        CLIENT_KEY,
        &refresh,
        &format!("{head}.{flipped}"),
        &format!("{head}."),
    ] {
        server.token = bad.to_owned();
        let append = server.append(&append_request("r", 0, &client_message("x"))).await;
        assert_eq!(append.status(), 401, "{bad}");
        assert_eq!(wire::json(append).await["code"], "unauthenticated");
        let run = server.run_sse("r").await;
        assert_eq!(run.status(), 401, "{bad}");
        assert_eq!(run.headers()["content-type"], "application/connect+proto");
        let frames = all_seen(&run.bytes().await.unwrap());
        assert!(
            matches!(&frames[..], [Seen::End(end)] if end["error"]["code"] == "unauthenticated"),
            "{frames:?}"
        );
    }
    assert!(server.runs.try_recv().is_err());
    server.token = good;
    server.open("r").await;
}

#[tokio::test]
async fn a_bearer_is_one_header_of_one_form() {
    let server = Server::start().await;
    let own = format!("Host: 127.0.0.1:{}", server.port);
    let get = |headers: String| {
        let head = format!("GET /v1/models HTTP/1.1\r\n{own}\r\n{headers}");
        let port = server.port;
        async move { raw(port, &head).await }
    };
    assert_eq!(get(format!("Authorization: bearer {CLIENT_KEY}")).await, 200);
    assert_eq!(get(format!("Authorization: Basic {CLIENT_KEY}")).await, 401);
    assert_eq!(get(format!("Authorization: {CLIENT_KEY}")).await, 401);
    assert_eq!(
        get(format!(
            "Authorization: Bearer {CLIENT_KEY}\r\nAuthorization: Bearer x"
        ))
        .await,
        401
    );
}

// === what the client asks beside a run ===

#[tokio::test]
async fn configured_models_are_listed() {
    let server = Server::start().await;
    for bearer in [CLIENT_KEY, &server.token] {
        let answer = server
            .http
            .get(format!("{}/v1/models", server.base))
            .bearer_auth(bearer)
            .send()
            .await
            .unwrap();
        assert_eq!(answer.headers()["content-type"], "application/json");
        let expected =
            json!({"items": [{"id": "fast", "displayName": "Fast"}, {"id": "slow", "displayName": "slow"}]});
        assert_eq!(wire::json(answer).await, expected);
    }
}

#[tokio::test]
async fn other_questions_get_an_empty_message_in_their_own_type() {
    let server = Server::start().await;
    for path in EMPTY_ANSWERS {
        for (content_type, empty) in [("application/proto", ""), ("application/json", "{}")] {
            let ask = || server.post(path, content_type).body(empty);
            let answer = ask().bearer_auth(&server.token).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{path}");
            assert_eq!(answer.headers()["content-type"], content_type, "{path}");
            assert_eq!(answer.text().await.unwrap(), empty, "{path}");
            assert_eq!(ask().send().await.unwrap().status(), 401, "{path}");
        }
    }
}

#[tokio::test]
async fn an_unknown_route_is_not_found_in_the_callers_type() {
    let server = Server::start().await;
    let path = "/aiserver.v1.Nothing/Here";
    let message = "cairn does not serve /aiserver.v1.Nothing/Here, and no upstream is configured";
    let ask = async |content_type: &str| {
        let answer = server.post(path, content_type).body("{}").send().await.unwrap();
        assert_eq!(answer.status(), 404);
        let got = answer.headers()["content-type"].to_str().unwrap().to_owned();
        (got, answer.bytes().await.unwrap())
    };
    let error = ConnectError::new(ConnectCode::NotFound, message);

    let (content_type, body) = ask("application/json; charset=utf-8").await;
    assert_eq!(content_type, "application/json");
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), error.to_json());

    let (content_type, body) = ask("application/connect+proto").await;
    assert_eq!(content_type, "application/connect+proto");
    assert_eq!(all_seen(&body), [Seen::End(json!({"error": error.to_json()}))]);

    let (content_type, body) = ask("application/proto").await;
    assert_eq!(content_type, "application/proto");
    // Field 1 is the number of "not found", field 2 the text.
    let mut expected = vec![0x08, 5, 0x12, u8::try_from(message.len()).unwrap()];
    expected.extend_from_slice(message.as_bytes());
    assert_eq!(body, expected);

    let (content_type, body) = ask("image/png").await;
    assert_eq!(content_type, "text/plain; charset=utf-8");
    assert_eq!(body, format!("{message}\n"));
}

// === shutdown ===

#[tokio::test]
async fn a_stop_ends_open_streams_and_then_the_server() {
    let mut server = Server::start().await;
    let (response, io) = server.open("r").await;
    let session = tokio::spawn(async move {
        io.shutdown.cancelled().await;
        io.output
            .finish(Err(ConnectError::new(ConnectCode::Canceled, "stopped")));
    });
    server.shutdown.cancel();
    let frames = all_seen(&response.bytes().await.unwrap());
    assert!(
        matches!(&frames[..], [Seen::End(end)] if end["error"]["code"] == "canceled"),
        "{frames:?}"
    );
    session.await.unwrap();
    (&mut server.serving).await.unwrap();
    assert!(TcpStream::connect(("127.0.0.1", server.port)).await.is_err());
}

// === the binary ===

struct Process {
    child: Child,
    base: String,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(data_dir: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cairn"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir)
            .env_clear()
            .envs([
                ("CAIRN_LOG", "trace"),
                ("CAIRN_API", "openai-chat"),
                ("CAIRN_MODEL", "m"),
                ("CAIRN_BASE_URL", "http://127.0.0.1:9/v1?key=sk-CANARY-123"),
                ("CAIRN_API_KEY", "sk-CANARY-123"),
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let base = line
            .strip_prefix("listening on ")
            .unwrap()
            .strip_suffix('\n')
            .unwrap()
            .to_owned();
        assert!(
            base.starts_with("http://127.0.0.1:") && !base.ends_with(":0"),
            "{base}"
        );
        Self { child, base, stdout }
    }

    /// Stops it as a service manager does; what it printed after its first line, and its log.
    fn stop(mut self) -> (String, String) {
        let began = tokio::time::Instant::now();
        let killed = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(killed.success());
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        assert!(self.child.wait().unwrap().success());
        assert!(began.elapsed() < Duration::from_secs(10));
        (stdout, stderr)
    }
}

#[tokio::test]
async fn the_binary_makes_a_key_keeps_it_and_prints_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("deep/data");
    let process = Process::start(&data_dir);
    let key_file = data_dir.join("client_key");
    let key = std::fs::read_to_string(&key_file).unwrap().trim().to_owned();
    assert_eq!(key.len(), 64);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(
            std::fs::metadata(&key_file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let exchange = async |key: &str, base: &str| {
        let request = http
            .post(format!("{base}/auth/exchange_user_api_key"))
            .header("content-type", "application/json")
            .bearer_auth(key)
            .body("{}");
        request.send().await.unwrap()
    };
    let answer = exchange(&key, &process.base).await;
    assert_eq!(answer.status(), 200);
    let tokens = wire::json(answer).await;
    let token = tokens["accessToken"].as_str().unwrap();
    assert_eq!(exchange("sk-CANARY-123", &process.base).await.status(), 401);
    let message = client_message("prompt-CANARY");
    for (path, content_type, body) in [
        // Not a run_request: the stream that is opened next ends with an error at once.
        (
            "/aiserver.v1.BidiService/BidiAppend",
            "application/proto",
            prost::Message::encode_to_vec(&append_request("r", 0, &message)),
        ),
        (
            "/agent.v1.AgentService/RunSSE",
            "application/connect+proto",
            wire::run_sse_body("r").to_vec(),
        ),
        (
            "/aiserver.v1.BidiService/BidiAppend",
            "application/proto",
            b"sk-CANARY-123".to_vec(),
        ),
        ("/nowhere", "application/json", b"sk-CANARY-123".to_vec()),
    ] {
        let request = http
            .post(format!("{}{path}", process.base))
            .header("content-type", content_type);
        request
            .bearer_auth(token)
            .body(body)
            .send()
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap();
    }
    let (stdout, stderr) = process.stop();
    assert_eq!(stdout, "");
    assert!(stderr.contains(&key_file.display().to_string()), "{stderr}");
    for secret in ["CANARY", &key, token] {
        assert!(!stderr.contains(secret), "{stderr}");
    }

    let process = Process::start(&data_dir);
    assert_eq!(exchange(&key, &process.base).await.status(), 200);
    let (_, stderr) = process.stop();
    assert!(!stderr.contains("was made"), "{stderr}");

    let printed = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(["key", "--data-dir"])
        .arg(&data_dir)
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), format!("{key}\n"));
}

#[test]
fn a_bad_configuration_stops_the_start_with_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cairn.toml");
    std::fs::write(&file, "client_key = \"sk-CANARY-123\n").unwrap();
    let failed = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(["serve", "--config"])
        .arg(&file)
        .env_clear()
        .env("CAIRN_LOG", "trace")
        .output()
        .unwrap();
    assert!(!failed.status.success());
    assert_eq!(failed.stdout, b"");
    assert_eq!(
        String::from_utf8(failed.stderr).unwrap(),
        "cairn: client_key: line 1 of the configuration file is not valid TOML; check its quotes and brackets, \
         and that no key is there twice\n"
    );
}
