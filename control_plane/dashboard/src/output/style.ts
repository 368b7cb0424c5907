/**
 * How a piece of output looks: what "select graphic rendition" (CSI … m) can say, and nothing else.
 *
 * Hidden text (8) is shown: nothing that a command wrote is kept from the reader.
 *
 * Styles are few and text is much, so each distinct style exists once and text refers to its number.
 */

export type Colour =
  | { readonly kind: "named"; readonly index: number } // 0–15, drawn in the page's own palette
  | { readonly kind: "exact"; readonly css: string }; // #rrggbb made from checked numbers

export interface Style {
  readonly foreground: Colour | null;
  readonly background: Colour | null;
  readonly bold: boolean;
  readonly dim: boolean;
  readonly italic: boolean;
  readonly underline: boolean;
  readonly strike: boolean;
  readonly inverse: boolean;
}

export const PLAIN: Style = {
  foreground: null,
  background: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
};

/** Returns the style after one CSI … m. `parameters` is what stood between CSI and m. */
export function rendition(style: Style, parameters: string): Style {
  const fields = parameters.split(";");
  let next = style;
  for (let i = 0; i < fields.length; i++) {
    const field = fields[i] as string;
    if (field.includes(":")) {
      next = grouped(next, field.split(":").map(numberIn));
      continue;
    }
    const code = numberIn(field);
    if (code === 38 || code === 48 || code === 58) {
      // The older form, whose parts are fields of their own.
      const parts = fields.slice(i + 1, i + 5).map(numberIn);
      next = coloured(next, code, parts);
      if (parts[0] !== 5 && parts[0] !== 2) break; // how many fields it takes is not known
      i += parts[0] === 5 ? 2 : 4;
    } else {
      next = simple(next, code);
    }
  }
  return next;
}

/** One field with parts: `4:3` (a curly underline), `38:5:n`, `38:2:r:g:b`, `38:2:space:r:g:b`. */
function grouped(style: Style, parts: readonly number[]): Style {
  const [code, ...rest] = parts;
  if (code === 4) return { ...style, underline: rest[0] !== 0 };
  if (code !== 38 && code !== 48) return style;
  return coloured(style, code, rest[0] === 2 && rest.length > 4 ? [2, ...rest.slice(2)] : rest);
}

function numberIn(field: string): number {
  return field === "" ? 0 : Number.parseInt(field, 10);
}

function simple(style: Style, code: number): Style {
  if (code === 0) return PLAIN;
  if (code >= 30 && code <= 37) return { ...style, foreground: named(code - 30) };
  if (code >= 40 && code <= 47) return { ...style, background: named(code - 40) };
  if (code >= 90 && code <= 97) return { ...style, foreground: named(code - 82) };
  if (code >= 100 && code <= 107) return { ...style, background: named(code - 92) };
  const change = SIMPLE[code];
  return change === undefined ? style : { ...style, ...change };
}

const SIMPLE: Readonly<Record<number, Partial<Style>>> = {
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  7: { inverse: true },
  9: { strike: true },
  21: { underline: true }, // double
  22: { bold: false, dim: false },
  23: { italic: false },
  24: { underline: false },
  27: { inverse: false },
  29: { strike: false },
  39: { foreground: null },
  49: { background: null },
};

/** `parts`: 5 and an index, or 2 and red, green, blue. What is neither changes nothing. */
function coloured(style: Style, code: number, parts: readonly number[]): Style {
  const [form, first, second, third] = parts;
  let colour: Colour | null = null;
  if (form === 5 && isByte(first)) colour = indexed(first);
  if (form === 2 && isByte(first) && isByte(second) && isByte(third)) {
    colour = exact(first, second, third);
  }
  if (colour === null || code === 58) return style; // 58: an underline's own colour, not drawn
  return code === 38 ? { ...style, foreground: colour } : { ...style, background: colour };
}

function isByte(value: number | undefined): value is number {
  return value !== undefined && Number.isInteger(value) && value >= 0 && value <= 255;
}

function named(index: number): Colour {
  return { kind: "named", index };
}

/** One of xterm's 256: the 16 names, a cube of 6 × 6 × 6, then 24 greys. */
function indexed(index: number): Colour {
  if (index < 16) return named(index);
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return exact(grey, grey, grey);
  }
  const level = (step: number) => (step === 0 ? 0 : 55 + step * 40);
  const cube = index - 16;
  return exact(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

/** The sixteen names as most terminals draw them, for a ground that is not the page's own. */
export const NAMED: readonly string[] = [
  "#000000",
  "#cd3131",
  "#0dbc79",
  "#e5e510",
  "#2472c8",
  "#bc3fbc",
  "#11a8cd",
  "#e5e5e5",
  "#666666",
  "#f14c4c",
  "#23d18b",
  "#f5f543",
  "#3b8eea",
  "#d670d6",
  "#29b8db",
  "#ffffff",
];

/** Tells whether black is easier to read on `#rrggbb` than white. */
export function isLight(css: string): boolean {
  const channel = (at: number) => (Number.parseInt(css.slice(at, at + 2), 16) / 255) ** 2.2;
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5) > 0.179;
}

function exact(red: number, green: number, blue: number): Colour {
  const hex = ((red << 16) | (green << 8) | blue).toString(16).padStart(6, "0");
  return { kind: "exact", css: `#${hex}` };
}

/** Gives each distinct style one number; 0 is plain. */
export class Styles {
  readonly #all: Style[] = [PLAIN];
  readonly #numbers = new Map<string, number>([[nameOf(PLAIN), 0]]);

  numberOf(style: Style): number {
    const name = nameOf(style);
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    // True colour can name millions; output that does is drawn plain from here on.
    if (this.#all.length >= STYLES_MAX) return 0;
    this.#all.push(style);
    this.#numbers.set(name, this.#all.length - 1);
    return this.#all.length - 1;
  }

  get(number: number): Style {
    return this.#all[number] ?? PLAIN;
  }
}

const STYLES_MAX = 20_000;

function nameOf(style: Style): string {
  const colour = (one: Colour | null) =>
    one === null ? "" : one.kind === "named" ? String(one.index) : one.css;
  const marks = [style.bold, style.dim, style.italic, style.underline, style.strike, style.inverse];
  const bits = marks.map((is) => (is ? "1" : "0")).join("");
  return `${colour(style.foreground)}|${colour(style.background)}|${bits}`;
}
