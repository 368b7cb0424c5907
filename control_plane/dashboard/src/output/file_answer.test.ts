import assert from "node:assert/strict";
import { test } from "node:test";
import { FileAnswer } from "./file_answer.ts";

const json = (...values: object[]): string =>
  values.map((value) => `${JSON.stringify(value)}\n`).join("");

test("a listing is names, also when its lines come in pieces", () => {
  const answer = new FileAnswer("list");
  const text = json(
    { path: "src", type: "folder" },
    { path: "a.ts", type: "file" },
    { more: true },
  );
  const half = Math.floor(text.length / 2);
  const seen = answer.take("stdout", text.slice(0, half)) + answer.take("stdout", text.slice(half));
  assert.equal(seen, "src/\na.ts\n… and more\n");
  assert.equal(answer.take("stderr", json({})), "");
  assert.equal(answer.end(), null);
});

test("matches say where they are", () => {
  const answer = new FileAnswer("search");
  const found = json({ path: "a", line: 3, text: "import", cut: true }, { more: false });
  assert.equal(answer.take("stdout", found), "a:3:import…\n");
});

test("a file is itself and its facts are not shown", () => {
  const answer = new FileAnswer("read");
  assert.equal(answer.take("stdout", '{"path": "x"}\n'), '{"path": "x"}\n');
  answer.take("stderr", json({ size: 14, sha256: "ab" }));
  assert.equal(answer.end(), null);
});

test("an error is the machine's words", () => {
  const answer = new FileAnswer("read");
  answer.take("stderr", json({ error: { code: "not_found", message: "cannot read x: …" } }));
  assert.equal(answer.end(), "cannot read x: …");
});

test("a write says what is there now, and a broken report says nothing", () => {
  const answer = new FileAnswer("write");
  answer.take("stderr", '{"size": 12');
  assert.equal(answer.end(), null);
  answer.take("stderr", "34}\n");
  assert.equal(answer.end(), `${(1234).toLocaleString()} bytes are there now`);
});

test("what is no line of a listing is shown as it is", () => {
  assert.equal(new FileAnswer("list").take("stdout", "broken\n"), "broken\n");
});
