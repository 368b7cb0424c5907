/** The line that a stream is writing: text at its end mostly, and overwritten after `\r`. */

/** From `start` (in UTF-16 units) on, the text has this style. */
export interface Span {
  readonly start: number;
  readonly style: number;
}

/** A longer line goes on in the next row: browsers lay out rows of a million characters slowly. */
export const ROW_MAX = 4096;

interface Cell {
  character: string;
  style: number;
}

const BLANK: Cell = { character: " ", style: 0 };

/**
 * While text is only appended it stays one string. The first overwriting turns it into cells of one
 * code point each, so that a progress line written a million times costs no more than its text.
 */
export class OpenLine {
  #text = "";
  #spans: Span[] = [];
  #style = 0; // of the end of #text
  #cells: Cell[] | null = null;
  #column = 0; // in cells
  #isReturned = false; // a `\r` that no text has followed: nearly always one of `\r\n`

  get isEmpty(): boolean {
    return this.#cells === null ? this.#text === "" : this.#cells.length === 0;
  }

  /** Writes as much of `text`, which is printable, as fits; returns how many UTF-16 units that was. */
  write(text: string, style: number): number {
    if (this.#isReturned) {
      this.#toCells();
      this.#column = 0;
      this.#isReturned = false;
    }
    return this.#cells === null
      ? this.#append(text, style)
      : this.#overwrite(this.#cells, text, style);
  }

  #append(text: string, style: number): number {
    let taken = Math.min(text.length, ROW_MAX - this.#text.length);
    // Half a character would be none.
    if (taken < text.length && isHighSurrogate(text.charCodeAt(taken - 1))) taken--;
    if (taken <= 0) return 0;
    if (style !== this.#style) {
      this.#spans.push({ start: this.#text.length, style });
      this.#style = style;
    }
    this.#text += taken === text.length ? text : text.slice(0, taken);
    return taken;
  }

  #overwrite(cells: Cell[], text: string, style: number): number {
    let taken = 0;
    for (const character of text) {
      if (this.#column >= ROW_MAX) break;
      cells[this.#column++] = { character, style };
      taken += character.length;
    }
    return taken;
  }

  carriageReturn(): void {
    if (!this.isEmpty) this.#isReturned = true;
  }

  backspace(): void {
    this.#place();
    this.#column = Math.max(0, this.#column - 1);
  }

  toColumn(column: number): void {
    if (column <= 1) {
      this.carriageReturn();
      return;
    }
    const cells = this.#place();
    this.#column = Math.min(column, ROW_MAX) - 1;
    while (cells.length < this.#column) cells.push(BLANK);
  }

  erase(part: number): void {
    if (this.#isReturned && (part === 0 || part === 2)) {
      this.#clear(); // `\r` and erase: how most progress lines begin anew
      return;
    }
    if (part === 0 && this.#cells === null) return; // already at the end
    const cells = this.#place();
    if (part === 0) cells.length = Math.min(cells.length, this.#column);
    if (part === 2) cells.length = 0;
    if (part === 1) cells.splice(0, this.#column);
    if (part === 1 || part === 2) cells.unshift(...Array<Cell>(this.#column).fill(BLANK));
  }

  /** Returns what the line shows now; `spans` is null for plain text. */
  shown(): { text: string; spans: readonly Span[] | null } {
    if (this.#cells === null) {
      return { text: this.#text, spans: this.#spans.length === 0 ? null : [...this.#spans] };
    }
    let text = "";
    let style = 0;
    const spans: Span[] = [];
    for (const cell of this.#cells) {
      if (cell.style !== style) {
        style = cell.style;
        spans.push({ start: text.length, style });
      }
      text += cell.character;
    }
    return { text, spans: spans.length === 0 ? null : spans };
  }

  /** Goes to cells with the cursor where it is. */
  #place(): Cell[] {
    const cells = this.#toCells();
    if (this.#isReturned) {
      this.#column = 0;
      this.#isReturned = false;
    }
    return cells;
  }

  #toCells(): Cell[] {
    if (this.#cells !== null) return this.#cells;
    const cells: Cell[] = [];
    let unit = 0;
    let span = 0;
    let style = 0;
    for (const character of this.#text) {
      for (let next = this.#spans[span]; next !== undefined && next.start <= unit; ) {
        style = next.style;
        next = this.#spans[++span];
      }
      cells.push({ character, style });
      unit += character.length;
    }
    this.#cells = cells;
    this.#column = cells.length;
    this.#text = "";
    this.#spans = [];
    return cells;
  }

  #clear(): void {
    this.#text = "";
    this.#spans = [];
    this.#style = 0;
    this.#cells = null;
    this.#column = 0;
    this.#isReturned = false;
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
