/**
 * Reads what a command wrote the way a terminal would, as far as a log can show it.
 *
 * Text, line breaks, `\r`, backspace, erasing in the line and colours have an effect. Everything
 * else a terminal understands (titles, links, clipboard, graphics, modes, cursor addressing) is
 * taken out and does nothing: output is written by strangers, and a page must not obey it.
 *
 * The state survives the borders of chunks, and a broken sequence never swallows much: each kind
 * has a length after which it counts as none, a line break ends it, and what follows is text again.
 */

/** Where what was read goes, in order. */
export interface Screen {
  /** Printable text: no control characters, no line breaks. */
  text(text: string): void;
  newline(): void;
  /** `\r`: the next text overwrites the line from its start. */
  carriageReturn(): void;
  backspace(): void;
  /** CSI K. 0: to the end of the line, 1: to its start, 2: all of it. */
  eraseInLine(part: number): void;
  /** CSI G: to a column, from 1. */
  toColumn(column: number): void;
  /** CSI m, with its parameters as written. */
  rendition(parameters: string): void;
}

type State =
  | "ground"
  | "escape" // after ESC
  | "escape_intermediate" // after ESC and one of SP … /
  | "csi"
  | "string" // OSC, DCS, APC, PM, SOS: up to BEL or ST
  | "string_escape"; // ESC inside of it: ST when a backslash follows

/** No sequence in use is longer; one that is was never meant as one. */
const CSI_MAX = 128;
/** Titles and links are shorter. What is longer (a picture) is shown as the noise that it is. */
const STRING_MAX = 4096;

export class Terminal {
  readonly #screen: Screen;
  #state: State = "ground";
  #parameters = "";
  #isPrivate = false; // CSI with < = > ? or an intermediate: a different sequence, not ours
  #length = 0; // of the sequence so far

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  /** Takes any part of the text, cut anywhere. */
  feed(text: string): void {
    let at = 0;
    while (at < text.length) {
      at = this.#state === "ground" ? this.#ground(text, at) : this.#sequence(text, at);
    }
  }

  /** Hands on the text up to the next control character, and takes that one. */
  #ground(text: string, start: number): number {
    let at = start;
    while (at < text.length && !isSpecial(text.charCodeAt(at))) at++;
    if (at > start) this.#screen.text(text.slice(start, at));
    if (at === text.length) return at;
    this.#control(text.charCodeAt(at));
    return at + 1;
  }

  #control(code: number): void {
    switch (code) {
      case 0x0a:
        this.#screen.newline();
        break;
      case 0x0d:
        this.#screen.carriageReturn();
        break;
      case 0x08:
        this.#screen.backspace();
        break;
      case 0x1b:
        this.#begin("escape");
        break;
      case 0x9b:
        this.#begin("csi");
        break;
      case 0x90: // DCS
      case 0x98: // SOS
      case 0x9d: // OSC
      case 0x9e: // PM
      case 0x9f: // APC
        this.#begin("string");
        break;
      default:
        // Characters that reorder or break the text around them are shown as what they are: odd.
        if (code > 0x9f) this.#screen.text("\u{fffd}");
    }
  }

  #begin(state: State): void {
    this.#state = state;
    this.#parameters = "";
    this.#isPrivate = false;
    this.#length = 0;
  }

  /** Takes one character of a sequence; returns where to go on. */
  #sequence(text: string, at: number): number {
    const code = text.charCodeAt(at);
    // CAN and SUB end a sequence without a trace; a line break ends it and counts.
    if (code === 0x18 || code === 0x1a) {
      this.#state = "ground";
      return at + 1;
    }
    if (code === 0x0a || code === 0x0d) {
      this.#state = "ground";
      return at;
    }
    switch (this.#state) {
      case "escape":
        return this.#escape(code, at);
      case "escape_intermediate":
        if (code >= 0x20 && code <= 0x2f && ++this.#length < CSI_MAX) return at + 1;
        this.#state = "ground";
        return code >= 0x30 && code <= 0x7e ? at + 1 : at;
      case "csi":
        return this.#csi(code, at);
      case "string":
        return this.#string(text, at);
      default:
        // ESC \ ends the string; any other ESC begins a sequence of its own.
        this.#begin("escape");
        if (code !== 0x5c) return at;
        this.#state = "ground";
        return at + 1;
    }
  }

  #escape(code: number, at: number): number {
    if (code === 0x5b) this.#begin("csi");
    else if (code === 0x5d || code === 0x50 || code === 0x58 || code === 0x5e || code === 0x5f) {
      this.#begin("string");
    } else if (code >= 0x20 && code <= 0x2f) this.#begin("escape_intermediate");
    else if (code === 0x1b) this.#begin("escape");
    else {
      this.#state = "ground";
      if (code < 0x30 || code > 0x7e) return at; // not part of a sequence: read it for itself
    }
    return at + 1;
  }

  #csi(code: number, at: number): number {
    if (++this.#length > CSI_MAX) {
      this.#state = "ground";
      return at;
    }
    if (code >= 0x30 && code <= 0x3b) {
      this.#parameters += String.fromCharCode(code);
      return at + 1;
    }
    if (code >= 0x20 && code <= 0x3f) {
      this.#isPrivate = true;
      return at + 1;
    }
    this.#state = "ground";
    if (code < 0x40 || code > 0x7e) return at;
    if (!this.#isPrivate) this.#finish(code);
    return at + 1;
  }

  #finish(final: number): void {
    switch (final) {
      case 0x6d:
        this.#screen.rendition(this.#parameters);
        break;
      case 0x4b:
        this.#screen.eraseInLine(firstOf(this.#parameters, 0));
        break;
      case 0x47:
        this.#screen.toColumn(firstOf(this.#parameters, 1));
        break;
    }
  }

  /** Skips the inside of a string quickly; it may be long. */
  #string(text: string, start: number): number {
    const end = Math.min(text.length, start + STRING_MAX - this.#length);
    for (let at = start; at < end; at++) {
      const code = text.charCodeAt(at);
      if (code === 0x07 || code === 0x9c) {
        this.#state = "ground";
        return at + 1;
      }
      if (code === 0x1b) {
        this.#state = "string_escape";
        return at + 1;
      }
      if (code === 0x0a || code === 0x0d || code === 0x18 || code === 0x1a) return at;
    }
    this.#length += end - start;
    if (this.#length >= STRING_MAX) this.#state = "ground";
    return end;
  }
}

/** True for what is not simply shown: controls, and characters that reorder or break lines. */
function isSpecial(code: number): boolean {
  if (code < 0x20) return code !== 0x09;
  if (code < 0x7f) return false;
  if (code <= 0x9f) return true;
  if (code < 0x2028) return false;
  return (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

function firstOf(parameters: string, absent: number): number {
  const value = Number.parseInt(parameters, 10);
  return Number.isNaN(value) ? absent : value;
}
