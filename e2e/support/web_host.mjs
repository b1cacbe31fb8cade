// A small web on loopback: pages to fetch, a SearXNG search, an images interface like OpenAI's.
import http from "node:http";

/** The picture that the images interface makes of everything: one pixel, as PNG. */
export const PICTURE = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

const JSON_TYPE = { "content-type": "application/json" };

export class WebHost {
  /** The requests so far: `{method, url, authorization, body}`. */
  requests = [];
  #server;

  static async start() {
    const host = new WebHost();
    host.#server = http.createServer(async (request, response) => {
      const pieces = [];
      for await (const piece of request) pieces.push(piece);
      const { method, url, headers } = request;
      host.requests.push({ method, url, authorization: headers.authorization, body: Buffer.concat(pieces) });
      host.#answer(url, response);
    });
    await new Promise((resolve) => host.#server.listen(0, "127.0.0.1", resolve));
    return host;
  }

  get url() {
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  /** The last request of this path. */
  last(path) {
    return this.requests.findLast((request) => request.url.startsWith(path));
  }

  stop() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #answer(url, response) {
    if (url === "/page") {
      response.writeHead(200, { "content-type": "text/html; charset=utf-8" });
      response.end("<html><head><title>t</title></head><body><script>no()</script><h1>Φάρος</h1><p>A <b>light</b>.</p></body></html>");
    } else if (url === "/circle") {
      response.writeHead(302, { location: "/circle" });
      response.end();
    } else if (url.startsWith("/search?")) {
      response.writeHead(200, JSON_TYPE);
      response.end(JSON.stringify({ results: [{ title: "Lighthouse", url: "https://example.org/l", content: "It shines." }] }));
    } else if (url.startsWith("/v1/images/")) {
      response.writeHead(200, JSON_TYPE);
      response.end(JSON.stringify({ data: [{ b64_json: PICTURE.toString("base64") }] }));
    } else {
      response.writeHead(404, { "content-type": "text/plain" });
      response.end("nothing here");
    }
  }
}
