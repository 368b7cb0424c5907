/**
 * The rows of a command's output: both streams in the order in which they began each line.
 *
 * Ten megabytes are a million and a half lines. As objects they would cost a hundred bytes each, so
 * all but the newest are packed in blocks: one string and the borders of its rows.
 */
import { OpenLine, type Span } from "./open_line.ts";
import { PLAIN, rendition, Styles } from "./style.ts";
import { type Screen, Terminal } from "./terminal.ts";

export type Source = "stdout" | "stderr" | "note";

export interface Row {
  readonly source: Source;
  readonly text: string;
  /** Where its styles change; null for plain text. */
  readonly spans: readonly Span[] | null;
  /** True when the row goes on with the line of the row before it. */
  readonly continues: boolean;
}

export interface LineBufferLimits {
  /** UTF-16 units kept; more drops blocks after the head. 16 Mi are 16 MB for most output. */
  readonly units: number;
  /** Of those, how many from the beginning are kept whatever comes. */
  readonly headUnits: number;
}

const LIMITS: LineBufferLimits = { units: 16 * 1024 * 1024, headUnits: 1024 * 1024 };
const BLOCK_ROWS = 512;
/** Unpacked rows before a block is packed: those that may still be on the screen or change. */
const RECENT_ROWS = 2 * BLOCK_ROWS;

export class LineBuffer {
  readonly styles = new Styles();
  readonly #limits: LineBufferLimits;
  readonly #blocks: Block[] = [];
  readonly #writers: Record<"stdout" | "stderr", Writer>;
  #recent: RecentRow[] = [];
  #units = 0; // in blocks
  #headBlocks = -1; // -1: nothing was dropped yet
  #droppedRows = 0;
  #droppedUnits = 0;
  #version = 0;

  constructor(limits: LineBufferLimits = LIMITS) {
    this.#limits = limits;
    this.#writers = { stdout: new Writer(this, "stdout"), stderr: new Writer(this, "stderr") };
  }

  /** UTF-16 units that are kept, about. */
  get units(): number {
    return this.#units;
  }

  /** Changes with every change of the rows. */
  get version(): number {
    return this.#version;
  }

  /** Rows to show, the one that says what was dropped included. */
  get rowCount(): number {
    return this.#blocks.length * BLOCK_ROWS + this.#recent.length + (this.#isCut ? 1 : 0);
  }

  /** How many rows are not kept any more, and after which row they were. */
  get dropped(): { readonly rows: number; readonly after: number } {
    return { rows: this.#droppedRows, after: Math.max(0, this.#headBlocks) * BLOCK_ROWS };
  }

  /** Takes a part of a stream's text, cut anywhere. */
  write(source: "stdout" | "stderr", text: string): void {
    if (text === "") return;
    this.#writers[source].write(text);
    this.#pack();
    this.#version++;
  }

  /** Adds a row of our own. What follows begins new rows: something is missing here. */
  note(text: string): void {
    this.#writers.stdout.breakOff();
    this.#writers.stderr.breakOff();
    this.#recent.push({ source: "note", text, spans: null, continues: false, open: null });
    this.#version++;
  }

  row(index: number): Row {
    let at = index;
    if (this.#isCut) {
      const cut = this.#headBlocks * BLOCK_ROWS;
      if (index === cut) return this.#cutRow();
      if (index > cut) at -= 1;
    }
    const block = this.#blocks[Math.floor(at / BLOCK_ROWS)];
    if (block !== undefined) return block.row(at % BLOCK_ROWS);
    const recent = this.#recent[at - this.#blocks.length * BLOCK_ROWS];
    return recent === undefined ? NOTHING : shownRow(recent);
  }

  /** Returns everything that is kept as text, without colours. */
  allText(): string {
    const parts: string[] = [];
    const count = this.rowCount;
    for (let index = 0; index < count; index++) {
      const row = this.row(index);
      if (index > 0 && !row.continues) parts.push("\n");
      parts.push(row.text);
    }
    return parts.join("");
  }

  /** For the writers: begins a row that is still being written. */
  begin(source: Source, continues: boolean, open: OpenLine): RecentRow {
    const row: RecentRow = { source, text: "", spans: null, continues, open };
    this.#recent.push(row);
    // Within one large write as well, or a minute of output would be unpacked at once.
    if (this.#recent.length > RECENT_ROWS + BLOCK_ROWS) this.#pack();
    return row;
  }

  get #isCut(): boolean {
    return this.#droppedRows > 0;
  }

  #pack(): void {
    while (this.#recent.length > RECENT_ROWS) {
      const rows = this.#recent.slice(0, BLOCK_ROWS);
      // A line left open this long ago is not waited for; its stream goes on in a new row.
      this.#writers.stdout.leave(rows);
      this.#writers.stderr.leave(rows);
      this.#recent = this.#recent.slice(BLOCK_ROWS);
      const block = new Block(rows.map(shownRow));
      this.#blocks.push(block);
      this.#units += block.units;
      while (this.#units > this.#limits.units && this.#drop()) {
        // one block at a time, until the rest is within the limit
      }
    }
  }

  #drop(): boolean {
    if (this.#headBlocks < 0) {
      let units = 0;
      const first = this.#blocks.findIndex((block) => {
        units += block.units;
        return units > this.#limits.headUnits;
      });
      if (first < 0) return false;
      this.#headBlocks = first;
    }
    const [block] = this.#blocks.splice(this.#headBlocks, 1);
    if (block === undefined) return false;
    this.#units -= block.units;
    this.#droppedUnits += block.units;
    this.#droppedRows += BLOCK_ROWS;
    return true;
  }

  #cutRow(): Row {
    const lines = this.#droppedRows.toLocaleString();
    const size = (this.#droppedUnits / 1e6).toFixed(1);
    return {
      source: "note",
      text: `${lines} lines (${size} MB) are left out here: the page keeps the beginning and the end`,
      spans: null,
      continues: false,
    };
  }
}

interface RecentRow {
  readonly source: Source;
  text: string;
  spans: readonly Span[] | null;
  readonly continues: boolean;
  /** What is still being written; then `text` and `spans` hold nothing yet. */
  open: OpenLine | null;
}

const NOTHING: Row = { source: "note", text: "", spans: null, continues: false };

function shownRow(row: RecentRow): Row {
  return row.open === null ? row : { ...row, ...row.open.shown() };
}

/** One stream on its way into the buffer. */
class Writer implements Screen {
  readonly #buffer: LineBuffer;
  readonly #source: "stdout" | "stderr";
  readonly #terminal = new Terminal(this);
  #row: RecentRow | null = null;
  #continues = false; // the next row goes on with the line of the last one
  #style = PLAIN;
  #styleNumber = 0;

  constructor(buffer: LineBuffer, source: "stdout" | "stderr") {
    this.#buffer = buffer;
    this.#source = source;
  }

  write(text: string): void {
    this.#terminal.feed(text);
  }

  /** Finishes the line if it is among these rows: they are packed. */
  leave(rows: readonly RecentRow[]): void {
    if (this.#row === null || !rows.includes(this.#row)) return;
    this.#finish();
    this.#continues = true;
  }

  breakOff(): void {
    this.#finish();
    this.#continues = false;
  }

  text(text: string): void {
    let rest = text;
    for (;;) {
      const taken = this.#open().write(rest, this.#styleNumber);
      if (taken === rest.length) return;
      rest = rest.slice(taken);
      this.#finish();
      this.#continues = true;
    }
  }

  newline(): void {
    this.#open();
    this.#finish();
    this.#continues = false;
  }

  carriageReturn(): void {
    this.#row?.open?.carriageReturn();
  }

  backspace(): void {
    this.#row?.open?.backspace();
  }

  eraseInLine(part: number): void {
    this.#row?.open?.erase(part);
  }

  toColumn(column: number): void {
    if (column > 1) this.#open().toColumn(column);
    else this.carriageReturn();
  }

  rendition(parameters: string): void {
    this.#style = rendition(this.#style, parameters);
    this.#styleNumber = this.#buffer.styles.numberOf(this.#style);
  }

  #open(): OpenLine {
    if (this.#row?.open == null) {
      const open = new OpenLine();
      this.#row = this.#buffer.begin(this.#source, this.#continues, open);
      return open;
    }
    return this.#row.open;
  }

  #finish(): void {
    if (this.#row?.open != null) {
      const { text, spans } = this.#row.open.shown();
      this.#row.text = text;
      this.#row.spans = spans;
      this.#row.open = null;
    }
    this.#row = null;
  }
}

/** Rows that do not change any more, packed. */
class Block {
  readonly units: number;
  readonly #text: string;
  readonly #ends: Uint32Array;
  readonly #marks: Uint8Array; // 1 or 2: stderr or note; 4: continues
  readonly #spans: ReadonlyMap<number, readonly Span[]>;

  constructor(rows: readonly Row[]) {
    this.#text = rows.map((row) => row.text).join("");
    this.#ends = new Uint32Array(rows.length);
    this.#marks = new Uint8Array(rows.length);
    const spans = new Map<number, readonly Span[]>();
    let end = 0;
    rows.forEach((row, index) => {
      end += row.text.length;
      this.#ends[index] = end;
      this.#marks[index] = SOURCES.indexOf(row.source) + (row.continues ? CONTINUES : 0);
      if (row.spans !== null) spans.set(index, row.spans);
    });
    this.#spans = spans;
    this.units = end + rows.length;
  }

  row(index: number): Row {
    const marks = this.#marks[index] ?? 0;
    return {
      source: SOURCES[marks & ~CONTINUES] ?? "stdout",
      text: this.#text.slice(index === 0 ? 0 : this.#ends[index - 1], this.#ends[index]),
      spans: this.#spans.get(index) ?? null,
      continues: (marks & CONTINUES) !== 0,
    };
  }
}

const SOURCES: readonly Source[] = ["stdout", "stderr", "note"];
const CONTINUES = 4;
