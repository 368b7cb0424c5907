/** Which rows of an output are drawn, and whether its end is followed. */
import {
  type KeyboardEvent,
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import type { LineBuffer } from "./line_buffer.ts";
import { atRest, offsetAfter, physicalHeight } from "./scroll_map.ts";

export const ROW_PX = 20;
const PADDING_PX = 8;
/** Drawn above and below what is seen: what a fast wheel uncovers before the next frame. */
const SPARE_ROWS = 12;
/** After this long without a scroll event, scrolling has come to rest. */
const REST_MS = 160;
/** A long row may not make the box wider than a browser draws well. */
const COLUMNS_MAX = 4_200;

export interface RowWindow {
  readonly first: number;
  readonly last: number; // exclusive
  /** Where the first row is drawn in the element. */
  readonly top: number;
  readonly physical: number;
  readonly height: number;
  readonly columns: number;
}

interface Rows {
  readonly ref: RefObject<HTMLDivElement | null>;
  readonly onScroll: () => void;
  readonly onKeyDown: (event: KeyboardEvent) => void;
  readonly window: RowWindow;
  /** True while the end is in sight and stays there. */
  readonly follows: boolean;
  readonly followEnd: () => void;
}

export function useRows(lines: LineBuffer, version: number, visibleRows: number): Rows {
  const ref = useRef<HTMLDivElement>(null);
  const place = useRef({ at: 0, offset: 0, dropped: 0, columns: 0 });
  const rest = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [follows, setFollows] = useState(true);
  const [, redraw] = useState(0);

  const count = lines.rowCount;
  const list = count * ROW_PX + 2 * PADDING_PX;
  const height = Math.min(list, visibleRows * ROW_PX + 2 * PADDING_PX);
  const physical = physicalHeight(list);

  // Rows that were dropped above what is read: the reader stays where they are.
  const { rows: dropped, after } = lines.dropped;
  if (dropped !== place.current.dropped) {
    const gone = (dropped - place.current.dropped - (place.current.dropped === 0 ? 1 : 0)) * ROW_PX;
    if (!follows && place.current.at + place.current.offset > after * ROW_PX) {
      place.current.offset -= gone;
    }
    place.current.dropped = dropped;
  }
  if (follows) {
    place.current.at = physical - height;
    place.current.offset = list - physical;
  }
  const { at, offset } = place.current;

  const seen = Math.max(0, Math.floor((at + offset - PADDING_PX) / ROW_PX));
  const first = Math.max(0, seen - SPARE_ROWS);
  const last = Math.min(count, seen + Math.ceil(height / ROW_PX) + 1 + SPARE_ROWS);
  for (let index = first; index < last; index++) {
    const columns = Math.min(COLUMNS_MAX, lines.row(index).text.length + 4);
    if (columns > place.current.columns) place.current.columns = columns;
  }

  // biome-ignore lint/correctness/useExhaustiveDependencies: the version stands for the rows
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return;
    if (Math.abs(element.scrollTop - place.current.at) >= 1) {
      element.scrollTop = place.current.at;
    }
  }, [version, physical, follows, at, offset]);

  const onScroll = useCallback(() => {
    const element = ref.current;
    if (element === null) return;
    const now = element.scrollTop;
    const before = place.current.at;
    if (Math.abs(now - before) < 1) return; // ours
    const size = {
      list: lines.rowCount * ROW_PX + 2 * PADDING_PX,
      viewport: element.clientHeight,
    };
    place.current.offset = offsetAfter(size, place.current.offset, before, now);
    place.current.at = now;
    setFollows(now >= physicalHeight(size.list) - size.viewport - 2);
    redraw((times) => times + 1);
    clearTimeout(rest.current);
    rest.current = setTimeout(() => {
      const settled = atRest(size, place.current.offset, place.current.at);
      place.current.offset += place.current.at - settled;
      place.current.at = settled;
      redraw((times) => times + 1);
    }, REST_MS);
  }, [lines]);
  useEffect(() => () => clearTimeout(rest.current), []);

  const followEnd = useCallback(() => {
    setFollows(true);
    ref.current?.focus({ preventScroll: true });
  }, []);

  /** The browser's own End goes to where the end was when the key was pressed. */
  const onKeyDown = useCallback(
    (event: KeyboardEvent) => {
      if (event.key !== "End" || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      followEnd();
    },
    [followEnd],
  );

  return {
    ref,
    onScroll,
    onKeyDown,
    window: {
      first,
      last,
      top: first * ROW_PX - offset,
      physical,
      height: Math.max(height, ROW_PX + 2 * PADDING_PX),
      columns: place.current.columns,
    },
    follows: follows || list <= height,
    followEnd,
  };
}
