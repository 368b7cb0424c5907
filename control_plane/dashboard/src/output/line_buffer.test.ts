import assert from "node:assert/strict";
import { test } from "node:test";
import { LineBuffer } from "./line_buffer.ts";

const ESC = "\u001b";

/** Returns the rows as text with marks: `>` continues, `!` stderr, `#` note; styles as {…}. */
function rowsOf(buffer: LineBuffer): string[] {
  return Array.from({ length: buffer.rowCount }, (_, index) => {
    const row = buffer.row(index);
    let text = "";
    let at = 0;
    for (const span of row.spans ?? []) {
      text += row.text.slice(at, span.start);
      text += `{${JSON.stringify(buffer.styles.get(span.style).foreground)?.replaceAll('"', "")}}`;
      at = span.start;
    }
    text += row.text.slice(at);
    const mark = row.source === "stdout" ? "" : row.source === "stderr" ? "!" : "#";
    return `${mark}${row.continues ? ">" : ""}${text}`;
  });
}

function shown(...parts: string[]): string[] {
  const buffer = new LineBuffer();
  for (const part of parts) buffer.write("stdout", part);
  return rowsOf(buffer);
}

/** A generator whose sequence a failure can name again. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test("lines are rows, and a last line without an end is one too", () => {
  assert.deepEqual(shown("a\nb\n\nc"), ["a", "b", "", "c"]);
  assert.deepEqual(shown("a\n"), ["a"]);
  assert.deepEqual(shown("\n"), [""]);
  assert.deepEqual(shown(""), []);
});

test("a carriage return before a line break changes nothing", () => {
  assert.deepEqual(shown("a\r\nb\r\n"), ["a", "b"]);
  assert.deepEqual(shown("a\r", "\nb"), ["a", "b"]);
});

test("a progress line is overwritten in place, and what is longer stays", () => {
  assert.deepEqual(shown("10%\r20%\r100%\ndone"), ["100%", "done"]);
  assert.deepEqual(shown("abcdef\rXY"), ["XYcdef"]);
  assert.deepEqual(shown(`abcdef\r${ESC}[Kxy`), ["xy"]);
  assert.deepEqual(shown(`abcdef${ESC}[2K\rxy`), ["xy    "]);
  assert.deepEqual(shown(`abcdef${ESC}[2K${ESC}[Gxy`), ["xy    "]);
  assert.deepEqual(shown(`abcdef${ESC}[3G${ESC}[K!`), ["ab!"]);
  assert.deepEqual(shown(`abcdef${ESC}[3G${ESC}[1K`), ["  cdef"]);
});

test("backspace overwrites, and stops at the beginning of the line", () => {
  assert.deepEqual(shown("ab\b\b\b\bX"), ["Xb"]);
  assert.deepEqual(shown("\b\bX"), ["X"]);
});

test("overwriting keeps characters beyond the basic plane whole", () => {
  assert.deepEqual(shown("😀😀😀\rab"), ["ab😀"]);
  assert.deepEqual(shown("abc\r😀"), ["😀bc"]);
});

test("colours belong to the text that follows them, over lines and chunks", () => {
  assert.deepEqual(shown(`a${ESC}[31mb\nc${ESC}[0md`), [
    "a{{kind:named,index:1}}b",
    "{{kind:named,index:1}}c{null}d",
  ]);
  assert.deepEqual(shown(`${ESC}[3`, "1", "mx"), ["{{kind:named,index:1}}x"]);
});

test("an overwritten line keeps the colour of each of its characters", () => {
  assert.deepEqual(shown(`${ESC}[32mabcd\r${ESC}[31mX`), [
    "{{kind:named,index:1}}X{{kind:named,index:2}}bcd",
  ]);
});

test("the two streams keep their own lines, in the order in which these began", () => {
  const buffer = new LineBuffer();
  buffer.write("stdout", "building ");
  buffer.write("stderr", "warning: ");
  buffer.write("stdout", "done\nnext\n");
  buffer.write("stderr", "old\n");
  assert.deepEqual(rowsOf(buffer), ["building done", "!warning: old", "next"]);
});

test("a colour of one stream does not leak into the other", () => {
  const buffer = new LineBuffer();
  buffer.write("stderr", `${ESC}[31mred`);
  buffer.write("stdout", "plain\n");
  assert.deepEqual(rowsOf(buffer), ["!{{kind:named,index:1}}red", "plain"]);
});

test("a note breaks off the lines that were open", () => {
  const buffer = new LineBuffer();
  buffer.write("stdout", "half");
  buffer.note("120 bytes were not kept");
  buffer.write("stdout", "other half\n");
  assert.deepEqual(rowsOf(buffer), ["half", "#120 bytes were not kept", "other half"]);
});

test("a line of a megabyte becomes rows that go on, and is copied as one line", () => {
  const line = "0123456789abcde😀".repeat(62_500);
  const buffer = new LineBuffer();
  buffer.write("stdout", `${line}\nend\n`);
  const rows = rowsOf(buffer);
  assert.ok(rows.length > 250 && rows.length < 270, `${rows.length} rows`);
  assert.ok(rows.slice(1, -1).every((row) => row.startsWith(">")));
  assert.equal(buffer.allText(), `${line}\nend`);
});

test("a line overwritten without end costs no more than its text", () => {
  const buffer = new LineBuffer();
  buffer.write("stdout", "x".repeat(4000));
  const began = performance.now();
  for (let i = 0; i < 100; i++) buffer.write("stdout", "\ra".repeat(5_000));
  assert.ok(performance.now() - began < 2_000);
  assert.equal(buffer.rowCount, 1);
});

test("more than the limit drops the middle, says so, and keeps both ends", () => {
  const buffer = new LineBuffer({ units: 200_000, headUnits: 20_000 });
  for (let i = 1; i <= 100_000; i++) buffer.write("stdout", `line ${i}\n`);
  const { rows, after } = buffer.dropped;
  assert.ok(rows > 0);
  assert.equal(buffer.row(0).text, "line 1");
  assert.equal(buffer.row(after - 1).text, `line ${after}`);
  assert.match(buffer.row(after).text, /^[\d.,\s]+ lines \([\d.]+ MB\) are left out here/);
  assert.equal(buffer.row(after + 1).text, `line ${after + rows + 1}`);
  assert.equal(buffer.row(buffer.rowCount - 1).text, "line 100000");
  assert.equal(buffer.rowCount + rows, 100_001);
  assert.ok(buffer.rowCount < 40_000);
});

test("many rows are packed and read back as they were", () => {
  const buffer = new LineBuffer();
  for (let i = 0; i < 5_000; i++) {
    buffer.write(i % 7 === 0 ? "stderr" : "stdout", `${ESC}[3${i % 8}m${i}\n`);
  }
  assert.equal(buffer.rowCount, 5_000);
  for (let i = 0; i < 5_000; i++) {
    const row = buffer.row(i);
    assert.equal(row.text, String(i));
    assert.equal(row.source, i % 7 === 0 ? "stderr" : "stdout");
    const style = buffer.styles.get(row.spans?.[0]?.style ?? 0);
    assert.deepEqual(style.foreground, { kind: "named", index: i % 8 });
  }
});

test("a line left open while thousands follow goes on in a new row", () => {
  const buffer = new LineBuffer();
  buffer.write("stderr", "open");
  for (let i = 0; i < 5_000; i++) buffer.write("stdout", `${i}\n`);
  buffer.write("stderr", " end\n");
  assert.equal(buffer.row(0).text, "open");
  const last = buffer.row(buffer.rowCount - 1);
  assert.deepEqual([last.source, last.text, last.continues], ["stderr", " end", true]);
});

test("however the text is cut, the rows are the same", () => {
  const pieces = [
    "plain text",
    "\n",
    "\r\n",
    "\r",
    "\b",
    "\t",
    "😀é",
    "\u0000",
    "\u009b1m",
    "\u009d0;title\u009c",
    "\u202etxt",
    `${ESC}[1;38;5;200mx`,
    `${ESC}[38;2;1;2;3my`,
    `${ESC}[0m`,
    `${ESC}[K`,
    `${ESC}[2K`,
    `${ESC}[1K`,
    `${ESC}[5G`,
    `${ESC}[2J${ESC}[H`,
    `${ESC}[?25l`,
    `${ESC}]8;;https://example.org${ESC}\\link${ESC}]8;;${ESC}\\`,
    `${ESC}]0;title\u0007`,
    `${ESC}P1$r${ESC}\\`,
    `${ESC}_apc`,
    `${ESC}(B`,
    `${ESC}c`,
    `${ESC}[`,
    `${ESC}]52;c;`,
    ESC,
    "y".repeat(5_000),
  ];
  for (let seed = 1; seed <= 300; seed++) {
    const random = seeded(seed);
    const pick = () => pieces[Math.floor(random() * pieces.length)] as string;
    const text = Array.from({ length: 30 }, pick).join("");
    const whole = shown(text);
    const parts: string[] = [];
    for (let at = 0; at < text.length; ) {
      const length = 1 + Math.floor(random() * (random() < 0.5 ? 3 : 400));
      parts.push(text.slice(at, at + length));
      at += length;
    }
    assert.deepEqual(shown(...parts), whole, `seed ${seed}`);
  }
});
