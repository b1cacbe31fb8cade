// Cuts JSON text into the raw text of its members, so that two requests can be compared byte for byte where it matters.

/** Raw text of each member of an object, in order: `[[key, text], …]`. The text must be valid JSON. */
export function members(text) {
  JSON.parse(text);
  const cursor = { text, at: 0 };
  skipSpace(cursor);
  if (text[cursor.at] !== "{") throw new Error("not a JSON object");
  cursor.at += 1;
  const found = [];
  for (;;) {
    skipSpace(cursor);
    if (text[cursor.at] === "}") return found;
    const key = JSON.parse(takeValue(cursor));
    skipSpace(cursor);
    cursor.at += 1; // the colon
    skipSpace(cursor);
    found.push([key, takeValue(cursor)]);
    skipSpace(cursor);
    if (text[cursor.at] === ",") cursor.at += 1;
  }
}

/** Raw text of each element of an array. The text must be valid JSON. */
export function elements(text) {
  JSON.parse(text);
  const cursor = { text, at: 0 };
  skipSpace(cursor);
  if (text[cursor.at] !== "[") throw new Error("not a JSON array");
  cursor.at += 1;
  const found = [];
  for (;;) {
    skipSpace(cursor);
    if (text[cursor.at] === "]") return found;
    found.push(takeValue(cursor));
    skipSpace(cursor);
    if (text[cursor.at] === ",") cursor.at += 1;
  }
}

function skipSpace(cursor) {
  while (" \t\r\n".includes(cursor.text[cursor.at] ?? "x")) cursor.at += 1;
}

function takeValue(cursor) {
  const start = cursor.at;
  const { text } = cursor;
  if (text[start] === '"') {
    skipString(cursor);
  } else if (text[start] === "{" || text[start] === "[") {
    let depth = 0;
    do {
      const character = text[cursor.at];
      if (character === '"') {
        skipString(cursor);
        continue;
      }
      if (character === "{" || character === "[") depth += 1;
      if (character === "}" || character === "]") depth -= 1;
      cursor.at += 1;
    } while (depth > 0);
  } else {
    while (!",]} \t\r\n".includes(text[cursor.at] ?? ",")) cursor.at += 1;
  }
  return text.slice(start, cursor.at);
}

function skipString(cursor) {
  cursor.at += 1;
  while (cursor.text[cursor.at] !== '"') cursor.at += cursor.text[cursor.at] === "\\" ? 2 : 1;
  cursor.at += 1;
}
