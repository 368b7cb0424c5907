import assert from "node:assert/strict";
import { test } from "node:test";
import { isLight, PLAIN, rendition, Styles } from "./style.ts";

const after = (...parameters: string[]) => parameters.reduce(rendition, PLAIN);

test("nothing, zero and an empty field reset", () => {
  assert.deepEqual(after("1;31", ""), PLAIN);
  assert.deepEqual(after("1;31", "0"), PLAIN);
  assert.deepEqual(after("1;;3"), { ...PLAIN, italic: true });
});

test("marks are set and taken back one by one", () => {
  const all = after("1;2;3;4;7;9");
  assert.deepEqual(all, {
    ...PLAIN,
    bold: true,
    dim: true,
    italic: true,
    underline: true,
    inverse: true,
    strike: true,
  });
  assert.deepEqual(rendition(all, "22;23;24;27;29"), PLAIN);
});

test("the sixteen colours have names", () => {
  assert.deepEqual(after("31").foreground, { kind: "named", index: 1 });
  assert.deepEqual(after("97").foreground, { kind: "named", index: 15 });
  assert.deepEqual(after("44").background, { kind: "named", index: 4 });
  assert.deepEqual(after("100").background, { kind: "named", index: 8 });
  assert.deepEqual(after("31;44", "39;49"), PLAIN);
});

test("256 and true colours are read in every form in use", () => {
  const orange = { kind: "exact", css: "#ff8700" };
  assert.deepEqual(after("38;5;208").foreground, orange);
  assert.deepEqual(after("38:5:208").foreground, orange);
  assert.deepEqual(after("38;2;255;135;0").foreground, orange);
  assert.deepEqual(after("38:2:255:135:0").foreground, orange);
  assert.deepEqual(after("38:2::255:135:0").foreground, orange);
  assert.deepEqual(after("48;5;9").background, { kind: "named", index: 9 });
  assert.deepEqual(after("38;5;232").foreground, { kind: "exact", css: "#080808" });
});

test("what follows an extended colour still counts", () => {
  assert.equal(after("38;5;208;1").bold, true);
  assert.equal(after("38;2;1;2;3;4").underline, true);
  assert.equal(after("58;2;1;2;3;1").bold, true);
});

test("curly underlines are underlines, and 4:0 is none", () => {
  assert.equal(after("4:3").underline, true);
  assert.equal(after("4", "4:0").underline, false);
  assert.equal(after("4:3").italic, false);
});

test("nonsense changes nothing", () => {
  for (const wrong of [
    "999",
    "38;5;256",
    "38;2;1;2",
    "38;5",
    "38",
    "38;9;1",
    "38:2:300:0:0",
    ":::",
    ";",
  ]) {
    assert.deepEqual(after(wrong), PLAIN, wrong);
  }
});

test("hidden text is shown", () => {
  assert.deepEqual(after("8"), PLAIN);
});

test("each style has one number, and nobody can make endless ones", () => {
  const styles = new Styles();
  assert.equal(styles.numberOf(PLAIN), 0);
  const red = styles.numberOf(after("31"));
  assert.equal(styles.numberOf(after("1", "22;31")), red);
  assert.deepEqual(styles.get(red), after("31"));
  for (let i = 0; i < 30_000; i++) {
    styles.numberOf(after(`38;2;${i % 256};${(i >> 8) % 256};${7}`));
  }
  assert.equal(styles.numberOf(after("38;2;1;2;99")), 0);
});

test("text without a colour is black or white, whichever can be read on its ground", () => {
  assert.deepEqual(["#ffffff", "#ffff00", "#00ff00", "#888888"].map(isLight), [
    true,
    true,
    true,
    true,
  ]);
  assert.deepEqual(["#000000", "#0000ff", "#800000", "#555555"].map(isLight), [
    false,
    false,
    false,
    false,
  ]);
});
