//! The tools that ask a configured service of the server, once the person agrees.

use super::*;
use axum::Router;
use axum::extract::Request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn::config::{ImageGenerationConfig, SearchProvider, WebConfig, WebSearchConfig};
use cairn::cursor::proto::agent::{generate_image_result, read_result, read_success, web_search_result};
use tokio_util::task::AbortOnDropHandle;

/// A service that answers everything with this; gives its address and lives as long as the handle.
async fn service(answer: Value) -> (url::Url, AbortOnDropHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/base", listener.local_addr().unwrap());
    let answer = answer.to_string();
    let router = Router::new().fallback(move |_: Request| {
        let answer = answer.clone();
        async move { answer }
    });
    let task = AbortOnDropHandle::new(tokio::spawn(async move {
        axum::serve(listener, router).await.unwrap();
    }));
    (base_url.parse().unwrap(), task)
}

#[tokio::test]
async fn web_search() {
    let found = json!({"results": [{"title": "Cairns", "url": "https://cairns.test/", "content": "Piles of stones."}]});
    let (base_url, _service) = service(found).await;
    let search = WebSearchConfig {
        provider: SearchProvider::Searxng,
        base_url,
        api_key: None,
    };
    let mut bench = Bench::with_web(WebConfig {
        search: Some(search),
        images: None,
    })
    .await;
    let (report, text) = round(&mut bench, "WebSearch", json!({"search_term": "cairns"})).await;
    assert_eq!(
        execs(&report),
        [],
        "the client is asked for nothing but its consent"
    );
    let Tool::WebSearchToolCall(search) = card(&report) else {
        panic!()
    };
    assert_eq!(search.args.unwrap().search_term, "cairns");
    let Some(web_search_result::Result::Success(success)) = search.result.unwrap().result else {
        panic!()
    };
    let shown: Vec<_> = success
        .references
        .iter()
        .map(|found| (&*found.title, &*found.url))
        .collect();
    assert_eq!(shown, [("Cairns", "https://cairns.test/")]);
    assert_eq!(
        text,
        "1 result for \"cairns\". They are excerpts: fetch a page before you rely on it.\n\n1. Cairns\n\
         https://cairns.test/\nPiles of stones."
    );
}

#[tokio::test]
async fn generate_image_reads_what_it_starts_from_and_has_the_client_save_the_picture() {
    let picture = b"\x89PNG--made".to_vec();
    let (base_url, _service) = service(json!({"data": [{"b64_json": STANDARD.encode(&picture)}]})).await;
    let images = ImageGenerationConfig {
        base_url,
        model: "painter".to_owned(),
        api_key: None,
    };
    let mut bench = Bench::with_web(WebConfig {
        search: None,
        images: Some(images),
    })
    .await;
    let [start, target] = ["a.png", "out/p.png"].map(|name| bench.workspace.path().join(name));
    bench.cursor.hooks.exec = Box::new(|exec| match &exec.message {
        Some(Exec::ReadArgs(args)) => {
            let success = pb::ReadSuccess {
                path: args.path.clone(),
                output: Some(read_success::Output::Data(b"\x89PNG--start".to_vec().into())),
                ..Default::default()
            };
            let result = pb::ReadResult {
                result: Some(read_result::Result::Success(success)),
            };
            answer(exec.id, Answer::ReadResult(result))
        }
        _ => ExecAnswer::Run,
    });
    let arguments = json!({"description": "a pile", "file_path": target, "reference_image_paths": [start]});
    let (report, text) = round(&mut bench, "GenerateImage", arguments).await;
    let [Exec::ReadArgs(_), Exec::WriteArgs(write)] = &execs(&report)[..] else {
        panic!("{:?}", report.execs)
    };
    assert_eq!(
        (write.path.as_str(), &write.file_bytes[..]),
        (target.to_str().unwrap(), &picture[..])
    );
    assert_eq!(std::fs::read(&target).unwrap(), picture);
    let Tool::GenerateImageToolCall(image) = card(&report) else {
        panic!()
    };
    let Some(generate_image_result::Result::Success(success)) = image.result.unwrap().result else {
        panic!()
    };
    assert_eq!(success.file_path, target.to_str().unwrap());
    assert_eq!(text, format!("The picture is saved as {}.", target.display()));
}
