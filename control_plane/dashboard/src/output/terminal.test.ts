import assert from "node:assert/strict";
import { test } from "node:test";
import { type Screen, Terminal } from "./terminal.ts";

const ESC = "\u001b";
const BEL = "\u0007";
const ST = `${ESC}\\`;

/** Returns what has an effect: text as it is, everything else in angle brackets. */
function effects(...chunks: string[]): string {
  let out = "";
  const screen: Screen = {
    text: (text) => {
      out += text;
    },
    newline: () => {
      out += "<nl>";
    },
    carriageReturn: () => {
      out += "<cr>";
    },
    backspace: () => {
      out += "<bs>";
    },
    eraseInLine: (part) => {
      out += `<K${part}>`;
    },
    toColumn: (column) => {
      out += `<G${column}>`;
    },
    rendition: (parameters) => {
      out += `<m${parameters}>`;
    },
  };
  const terminal = new Terminal(screen);
  for (const chunk of chunks) terminal.feed(chunk);
  return out;
}

test("a link shows its text and nothing of its address", () => {
  assert.equal(effects(`${ESC}]8;;https://evil.example${ST}click${ESC}]8;;${ST}!`), "click!");
  assert.equal(effects(`${ESC}]8;;javascript:alert(1)${BEL}click${ESC}]8;;${BEL}!`), "click!");
});

test("titles, clipboard, notifications, pictures and device strings do nothing", () => {
  for (const inside of [
    "0;title",
    "2;title",
    "52;c;ZXZpbA==",
    "9;hello",
    "1337;File=:AAAA",
    "4;1;?",
  ]) {
    assert.equal(effects(`a${ESC}]${inside}${BEL}b${ESC}]${inside}${ST}c`), "abc");
  }
  for (const kind of ["P", "X", "^", "_"]) {
    assert.equal(effects(`a${ESC}${kind}$qm;sixel#0~~${ST}b`), "ab");
  }
});

test("their eight-bit forms do nothing either", () => {
  for (const kind of ["\u0090", "\u0098", "\u009d", "\u009e", "\u009f"]) {
    assert.equal(effects(`a${kind}0;title\u009cb${kind}x${BEL}c`), "abc");
  }
  assert.equal(effects("a\u009b31mb\u0084\u0085\u008d\u009cc"), "a<m31>bc");
});

test("of the other control sequences only those within the line have an effect", () => {
  const none = [
    "2J",
    "H",
    "10;10H",
    "5A",
    "?25l",
    "?1049h",
    "6n",
    "c",
    ">c",
    "!p",
    "4h",
    "1;5r",
    "0 q",
  ];
  for (const sequence of none) assert.equal(effects(`a${ESC}[${sequence}b`), "ab", sequence);
  assert.equal(effects(`${ESC}[K${ESC}[1K${ESC}[7G${ESC}[G`), "<K0><K1><G7><G1>");
  assert.equal(effects(`${ESC}[?2K${ESC}[>4m${ESC}[<1m`), "", "private forms are other sequences");
});

test("two-character and character-set sequences do nothing", () => {
  assert.equal(effects(`a${ESC}cb${ESC}7${ESC}8${ESC}Mc${ESC}(Bd${ESC}#8e${ESC}=f`), "abcdef");
});

test("control characters do nothing, NUL included", () => {
  assert.equal(effects("a\0b\u0001\u0005\u000e\u000f\u007fc\u000b\u000cd\te"), "abcd\te");
});

test("characters that reorder or break text are shown as replacements", () => {
  assert.equal(effects("a\u202eb\u2066c\u2028d\u2029e"), "a\ufffdb\ufffdc\ufffdd\ufffde");
  assert.equal(effects("שלום ‏عربي é 😀"), "שלום ‏عربي é 😀");
});

test("a line break ends whatever is unfinished", () => {
  for (const broken of [
    "[31",
    "]0;title",
    "P1;2|",
    "_x",
    "^x",
    "X",
    "(",
    "",
    "]8;;http://a\u001b",
  ]) {
    assert.equal(effects(`a${ESC}${broken}\nb`), "a<nl>b", JSON.stringify(broken));
  }
});

test("an unfinished sequence swallows little, and the rest is text again", () => {
  const text = "x".repeat(20_000);
  for (const broken of ["]0;", "P", "_", "^", "X"]) {
    const shown = effects(`${ESC}${broken}${text}`);
    assert.ok(shown.length >= text.length - 4_200, `${broken}: ${shown.length}`);
  }
  assert.ok(effects(`${ESC}[${"1;".repeat(10_000)}m`).length > 19_000);
  assert.ok(effects(`${ESC}${"!".repeat(10_000)}`).length > 9_000);
});

test("CAN and SUB end a sequence without a trace", () => {
  assert.equal(effects(`a${ESC}]0;t\u0018b${ESC}[3\u001ac`), "abc");
});

test("a sequence inside a string ends the string and counts", () => {
  assert.equal(effects(`${ESC}]0;title${ESC}[31mred`), "<m31>red");
});

test("a character that cannot belong to a sequence is text", () => {
  assert.equal(effects(`${ESC}[3é${ESC}é${ESC}(é`), "ééé");
});

test("cut at every place, the effects are the same", () => {
  const text =
    `a${ESC}[1;31mb${ESC}]8;;http://x${ST}c${ESC}]0;t${BEL}d${ESC}Pq${ST}e${ESC}(Bf\r\ng` +
    `${ESC}[2Kh\u009b4mi\u0090x\u009cj${ESC}[?25lk${ESC}_z${ESC}[0ml`;
  const whole = effects(text);
  for (let cut = 1; cut < text.length; cut++) {
    assert.equal(effects(text.slice(0, cut), text.slice(cut)), whole, `cut at ${cut}`);
  }
  assert.equal(effects(...text), whole);
});
