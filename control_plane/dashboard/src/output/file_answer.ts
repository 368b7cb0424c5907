/** What an operation on files writes, as people read it: names and lines, its error, no facts. */
import type { Schemas } from "../api/client.ts";
import type { OutputStream } from "./follow.ts";

export type Operation = NonNullable<Schemas["Command"]["operation"]>;

/** Of a listing's line; what else it says is for programs. */
interface Line {
  readonly path?: string;
  readonly type?: string;
  readonly line?: number;
  readonly text?: string;
  readonly cut?: boolean;
  readonly more?: boolean;
}

export class FileAnswer {
  readonly #operation: Operation;
  #rest = ""; // of a line of standard output that is not whole yet
  #report = "";

  constructor(operation: Operation) {
    this.#operation = operation;
  }

  /** Takes what came of a stream and returns what is shown of it now. */
  take(stream: OutputStream, text: string): string {
    if (stream === "stderr") {
      this.#report += text;
      return "";
    }
    if (this.#operation === "read") return text;
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    return lines.map((line) => shown(this.#operation, line)).join("");
  }

  /** Returns what is said at the end; null: nothing. */
  end(): string | null {
    const report = parsed(this.#report) as {
      error?: { message?: string };
      size?: number;
    } | null;
    if (report?.error !== undefined) return report.error.message ?? "it was refused";
    const writes = this.#operation === "write" || this.#operation === "edit";
    if ((writes || this.#operation === "put") && report?.size !== undefined)
      return `${report.size.toLocaleString()} bytes are there now`;
    return null;
  }
}

function shown(operation: Operation, line: string): string {
  const value = parsed(line) as Line | null;
  if (value === null) return `${line}\n`;
  if (value.path === undefined) return value.more === true ? "… and more\n" : "";
  switch (operation) {
    case "list":
    case "glob":
      return `${value.path}${value.type === "folder" ? "/" : ""}\n`;
    case "search":
      return `${value.path}:${value.line}:${value.text}${value.cut === true ? "…" : ""}\n`;
    default:
      return "";
  }
}

function parsed(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
