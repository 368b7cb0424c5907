/** One row of output: text and spans, never markup. */
import { type CSSProperties, memo, type ReactNode } from "react";
import type { Row } from "./line_buffer.ts";
import classes from "./OutputRow.module.css";
import { type Colour, isLight, NAMED, type Style, type Styles } from "./style.ts";

interface OutputRowProps {
  row: Row;
  styles: Styles;
}

export const OutputRow = memo(
  function OutputRow({ row, styles }: OutputRowProps) {
    return (
      <div
        className={classes["row"]}
        data-source={row.source}
        data-continues={row.continues || undefined}
        dir="ltr"
      >
        {row.spans === null ? row.text : pieces(row, styles)}
      </div>
    );
  },
  (before, after) =>
    before.styles === after.styles &&
    before.row.text === after.row.text &&
    before.row.source === after.row.source &&
    before.row.continues === after.row.continues &&
    before.row.spans === after.row.spans,
);

function pieces(row: Row, styles: Styles): ReactNode[] {
  const spans = row.spans ?? [];
  const out: ReactNode[] = [row.text.slice(0, spans[0]?.start)];
  spans.forEach((span, at) => {
    const text = row.text.slice(span.start, spans[at + 1]?.start);
    if (text === "") return;
    if (span.style === 0) out.push(text);
    else {
      out.push(
        <span key={span.start} {...look(styles.get(span.style))}>
          {text}
        </span>,
      );
    }
  });
  return out;
}

function look(style: Style): { className: string; style?: CSSProperties } {
  const names: (string | undefined)[] = [];
  const css: Record<string, string> = {};
  const foreground = style.inverse ? style.background : style.foreground;
  const background = style.inverse ? style.foreground : style.background;
  if (background?.kind === "exact") {
    // A ground of its own: what stands on it is drawn as the command meant it.
    css["--fh-ground"] = background.css;
    css["--fh-ink"] = exactInk(foreground, background.css);
    names.push(classes["ground"], classes["ink"]);
  } else {
    if (background !== null) {
      css["--fh-ground"] = `var(--fh-ansi-${background.index})`;
      names.push(classes["tint"]);
    } else if (style.inverse) names.push(classes["inverseGround"]);
    if (foreground !== null) {
      css["--fh-ink"] =
        foreground.kind === "named" ? `var(--fh-ansi-${foreground.index})` : foreground.css;
      names.push(classes["ink"]);
      if (foreground.kind === "exact") names.push(classes["readable"]);
    } else if (style.inverse && background === null) names.push(classes["inverseInk"]);
  }
  if (style.bold) names.push(classes["bold"]);
  if (style.dim) names.push(classes["dim"]);
  if (style.italic) names.push(classes["italic"]);
  if (style.underline) names.push(classes["underline"]);
  if (style.strike) names.push(classes["strike"]);
  return { className: names.filter(Boolean).join(" "), style: css };
}

function exactInk(foreground: Colour | null, ground: string): string {
  if (foreground === null) return isLight(ground) ? "#000000" : "#ffffff";
  return foreground.kind === "exact" ? foreground.css : (NAMED[foreground.index] ?? "#ffffff");
}
