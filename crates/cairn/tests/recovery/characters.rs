//! Words of many bytes that come a byte at a time, over each API: shown, written and kept as they were said.

use serde_json::json;

use super::support::strict_chat::Reply;
use super::support::wire_bench::{Bench, Database, over_each_api};

/// How an endpoint frames its stream.
#[derive(Clone, Copy, Debug)]
enum Framing {
    Plain,
    CarriageReturns,
    ByteOrderMark,
}

impl Framing {
    fn of(self, reply: Reply) -> Reply {
        let framed = reply.with_body(|body| match self {
            Self::Plain => body.to_owned(),
            Self::CarriageReturns => body.replace('\n', "\r\n"),
            Self::ByteOrderMark => format!("\u{feff}{body}"),
        });
        framed.split_every(1)
    }
}

#[tokio::test]
async fn characters_that_come_a_byte_at_a_time_stay_whole() {
    let content = "一行 \u{1f600}\r\nπ \"q\" \\ 終 \u{1f469}\u{200d}\u{1f4bb}\n";
    let framings = [Framing::Plain, Framing::CarriageReturns, Framing::ByteOrderMark];
    for (api, framing) in over_each_api(framings) {
        let mut bench = Bench::over(api).await;
        // Escaped in the arguments, which are escaped once more on their way.
        let arguments = json!({"path": "文.txt", "contents": content}).to_string();
        let arguments = arguments.replace('\u{1f600}', "\\ud83d\\ude00");
        let call = ("call_1", "Write", arguments.as_str());
        let first = bench
            .endpoint
            .said(Some("想 \u{1f914}…"), "写 \u{1f30d}", &[call]);
        bench.endpoint.reply(framing.of(first));
        let second = bench.endpoint.said(Some("好 \u{1f917}"), "完 \u{1f389}", &[]);
        bench.endpoint.reply(framing.of(second));
        let report = bench.cursor.send("写吧 \u{1f58b}").await.success();
        assert_eq!(bench.read("文.txt"), content, "{api:?} {framing:?}");
        assert_eq!(
            (report.thinking.as_str(), report.text.as_str()),
            ("想 \u{1f914}…好 \u{1f917}", "写 \u{1f30d}完 \u{1f389}"),
            "{api:?} {framing:?}"
        );

        // A server that has nothing but the client's checkpoint goes on with the same bytes.
        let mut bench = bench.restart(Database::Lost).await;
        bench.endpoint.reply(bench.endpoint.said(Some("嗯"), "是", &[]));
        bench.cursor.send("好吗?").await.success();
        bench.added();
        let body = bench.bodies().pop().unwrap();
        let body = std::str::from_utf8(&body).unwrap();
        for words in ["写 \u{1f30d}", "完 \u{1f389}", "写吧 \u{1f58b}", "终"] {
            let is_there = body.contains(words);
            assert_eq!(is_there, words != "终", "{words} {api:?} {framing:?}");
        }
        bench.assert_clean();
    }
}
