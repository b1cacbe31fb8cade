//! The services' own interfaces over loopback: what is sent, what is understood, and every way in which they fail.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn::config::{ImageGenerationConfig, SearchProvider, WebConfig, WebSearchConfig};
use cairn::web::{Found, ImageRequest, ImageSize, WebServiceError, WebServices};
use http_body_util::BodyExt;
use tokio_util::task::AbortOnDropHandle;

/// A request as a service saw it: method and target, the two headers that matter, the body.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    target: String,
    key: Option<String>,
    content_type: Option<String>,
    body: Vec<u8>,
}

fn seen_of(request: &Request) -> Seen {
    let header = |name: &str| {
        let value = request.headers().get(name)?;
        Some(value.to_str().unwrap().to_owned())
    };
    Seen {
        target: format!("{} {}", request.method(), request.uri()),
        key: header("authorization").or_else(|| header("x-subscription-token")),
        content_type: header("content-type"),
        body: Vec::new(),
    }
}

/// A service that answers everything alike.
struct Service {
    base_url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    _task: AbortOnDropHandle<()>,
}

impl Service {
    async fn start(status: u16, answer: impl Into<Vec<u8>>) -> Self {
        let answer: Vec<u8> = answer.into();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/base", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = seen.clone();
        let router = Router::new().fallback(move |request: Request| {
            let record = record.clone();
            let answer = answer.clone();
            async move {
                let seen = seen_of(&request);
                let body = request.into_body().collect().await.unwrap().to_bytes().to_vec();
                record.lock().unwrap().push(Seen { body, ..seen });
                Response::builder()
                    .status(StatusCode::from_u16(status).unwrap())
                    .body(Body::from(answer))
                    .unwrap()
            }
        });
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        }));
        Self {
            base_url,
            seen,
            _task: task,
        }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn search(&self, provider: SearchProvider, key: Option<&str>) -> WebServices {
        let search = WebSearchConfig {
            provider,
            base_url: self.base_url.parse().unwrap(),
            api_key: key.map(Into::into),
        };
        let config = WebConfig {
            search: Some(search),
            images: None,
        };
        WebServices::from_config(&config).unwrap()
    }

    fn images(&self) -> WebServices {
        let images = ImageGenerationConfig {
            base_url: self.base_url.parse().unwrap(),
            model: "painter".into(),
            api_key: Some("picture-key".into()),
        };
        let config = WebConfig {
            search: None,
            images: Some(images),
        };
        WebServices::from_config(&config).unwrap()
    }
}

fn found(title: &str, url: &str, passage: &str) -> Found {
    Found {
        title: title.into(),
        url: url.into(),
        passage: passage.into(),
    }
}

#[tokio::test]
async fn searxng_is_asked_for_json_and_gives_its_best_results() {
    let results: Vec<_> = (0..12)
        .map(|n| serde_json::json!({"title": format!("t{n}"), "url": format!("http://r/{n}"), "content": null, "score": 1.5}))
        .collect();
    let service = Service::start(
        200,
        serde_json::json!({"query": "q", "results": results}).to_string(),
    )
    .await;
    let answer = service
        .search(SearchProvider::Searxng, None)
        .search("a b&c")
        .await
        .unwrap();
    assert_eq!(answer.len(), 10);
    assert_eq!(answer[9], found("t9", "http://r/9", ""));
    let expected = Seen {
        target: "GET /base/search?q=a+b%26c&format=json".into(),
        key: None,
        content_type: None,
        body: Vec::new(),
    };
    assert_eq!(service.seen(), [expected]);
}

#[tokio::test]
async fn brave_is_asked_with_its_key_and_nothing_found_is_no_fault() {
    let page =
        r#"{"type":"search","web":{"results":[{"title":"T","url":"https://r","description":"words"}]}}"#;
    let service = Service::start(200, page).await;
    let web = service.search(SearchProvider::Brave, Some("brave-key"));
    assert_eq!(web.search("x").await, Ok(vec![found("T", "https://r", "words")]));
    let expected = Seen {
        target: "GET /base/web/search?q=x&count=10&text_decorations=false".into(),
        key: Some("brave-key".into()),
        content_type: None,
        body: Vec::new(),
    };
    assert_eq!(service.seen(), [expected]);

    let empty = Service::start(200, r#"{"type":"search","query":{}}"#).await;
    assert_eq!(
        empty.search(SearchProvider::Brave, Some("k")).search("x").await,
        Ok(Vec::new())
    );
}

#[tokio::test]
async fn a_search_that_fails_says_what_to_look_at() {
    let refused = |status, mend| WebServiceError::Refused {
        table: "web_search",
        status,
        mend,
    };
    for (status, mend) in [
        (401, "check its key"),
        (
            403,
            "it does not allow this; check its key, its plan, and that it may answer in JSON",
        ),
        (429, "it asks for fewer requests; try again later"),
        (503, "it has a fault of its own; try again later"),
        (302, "check its base_url"),
    ] {
        let service = Service::start(status, "brave-key in a body").await;
        let answer = service
            .search(SearchProvider::Brave, Some("brave-key"))
            .search("x")
            .await;
        assert_eq!(answer, Err(refused(status, mend)));
        // No repeat.
        assert_eq!(service.seen().len(), 1);
    }
    let page = Service::start(200, "<html>").await;
    let unreadable = WebServiceError::Unreadable {
        table: "web_search",
        expected: "the JSON of a SearXNG search",
    };
    assert_eq!(
        page.search(SearchProvider::Searxng, None).search("x").await,
        Err(unreadable.clone())
    );
    let huge = Service::start(200, vec![b' '; 4 * 1024 * 1024 + 1]).await;
    assert_eq!(
        huge.search(SearchProvider::Searxng, None).search("x").await,
        Err(unreadable)
    );
    let gone = Service::start(200, "").await;
    let web = gone.search(SearchProvider::Searxng, None);
    drop(gone);
    let mut answer = web.search("x").await;
    // The task's listener closes when the runtime has dropped it.
    while answer != Err(WebServiceError::Unreachable { table: "web_search" }) {
        tokio::task::yield_now().await;
        answer = web.search("x").await;
    }
    let none = WebServices::default().search("x").await;
    assert_eq!(none, Err(WebServiceError::NotConfigured { table: "web_search" }));
}

#[tokio::test]
async fn a_picture_is_asked_for_in_json_and_decoded() {
    let answer = serde_json::json!({"data": [{"b64_json": STANDARD.encode([1, 2, 3])}]}).to_string();
    let service = Service::start(200, answer).await;
    let request = ImageRequest {
        description: "a pile".into(),
        size: Some(ImageSize::Portrait),
        references: Vec::new(),
    };
    assert_eq!(service.images().image(&request).await, Ok(vec![1, 2, 3]));
    let seen = service.seen().remove(0);
    assert_eq!(seen.target, "POST /base/images/generations");
    assert_eq!(seen.key.as_deref(), Some("Bearer picture-key"));
    let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({"model": "painter", "prompt": "a pile", "n": 1, "size": "1024x1536"})
    );
}

#[tokio::test]
async fn pictures_to_start_from_go_in_a_form() {
    let answer = serde_json::json!({"data": [{"b64_json": STANDARD.encode([7])}]}).to_string();
    let service = Service::start(200, answer).await;
    let request = ImageRequest {
        description: "a pile".into(),
        size: None,
        references: vec![vec![0xFF, 0xD8, 0xFF, 1].into(), b"\x89PNG--more".to_vec().into()],
    };
    assert_eq!(service.images().image(&request).await, Ok(vec![7]));
    let seen = service.seen().remove(0);
    assert_eq!(seen.target, "POST /base/images/edits");
    let boundary = seen
        .content_type
        .unwrap()
        .strip_prefix("multipart/form-data; boundary=")
        .unwrap()
        .to_owned();
    let mut expected = Vec::new();
    for (head, content) in [
        ("name=\"model\"", &b"painter"[..]),
        ("name=\"prompt\"", b"a pile"),
        ("name=\"n\"", b"1"),
        (
            "name=\"image[]\"; filename=\"0.jpg\"\r\ncontent-type: image/jpeg",
            &[0xFF, 0xD8, 0xFF, 1],
        ),
        (
            "name=\"image[]\"; filename=\"1.png\"\r\ncontent-type: image/png",
            b"\x89PNG--more",
        ),
    ] {
        expected
            .extend(format!("--{boundary}\r\ncontent-disposition: form-data; {head}\r\n\r\n").into_bytes());
        expected.extend(content);
        expected.extend(b"\r\n");
    }
    expected.extend(format!("--{boundary}--\r\n").into_bytes());
    assert_eq!(
        String::from_utf8_lossy(&seen.body),
        String::from_utf8_lossy(&expected)
    );
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn a_picture_at_an_address_is_fetched_without_the_key() {
    let file = Service::start(200, vec![4, 5]).await;
    let answer = serde_json::json!({"data": [{"url": format!("{}/p.png", file.base_url)}]}).to_string();
    let service = Service::start(200, answer).await;
    let request = ImageRequest {
        description: "a pile".into(),
        size: None,
        references: Vec::new(),
    };
    assert_eq!(service.images().image(&request).await, Ok(vec![4, 5]));
    let seen = file.seen().remove(0);
    assert_eq!((seen.target.as_str(), seen.key), ("GET /base/p.png", None));
}
