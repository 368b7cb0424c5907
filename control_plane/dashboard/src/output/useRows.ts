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
import { ReaderHand } from "./reader_hand.ts";
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

/** What is known between draws. */
interface Place {
  /** The element's scrollTop as last set or heard of. */
  known: number;
  /** Where the bar is to be put. */
  target: number | null;
  offset: number;
  /** Height of the list as drawn. */
  list: number;
  dropped: number;
  columns: number;
}

/** Call it in a component that is drawn again when the rows change. */
export function useRows(lines: LineBuffer, visibleRows: number): Rows {
  const ref = useRef<HTMLDivElement>(null);
  const place = useRef<Place>({
    known: 0,
    target: null,
    offset: 0,
    list: 0,
    dropped: 0,
    columns: 0,
  }).current;
  const hand = useRef(new ReaderHand()).current;
  const rest = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [follows, setFollows] = useState(true);
  const [, redraw] = useState(0);

  const count = lines.rowCount;
  const list = count * ROW_PX + 2 * PADDING_PX;
  const height = Math.min(list, visibleRows * ROW_PX + 2 * PADDING_PX);
  const physical = physicalHeight(list);

  // Rows that were dropped above what is read: the reader stays where they are.
  const { rows: dropped, after } = lines.dropped;
  if (dropped !== place.dropped) {
    // The row that says so came in their place.
    const gone = (dropped - place.dropped - (place.dropped === 0 ? 1 : 0)) * ROW_PX;
    if (!follows && place.known + place.offset > after * ROW_PX) place.offset -= gone;
    place.dropped = dropped;
  }

  // The box gets its height with this draw: what it had before may have been a row.
  const at = follows ? physical - height : (place.target ?? place.known);
  const offset = follows ? list - physical : place.offset;
  const seen = Math.max(0, Math.floor((at + offset - PADDING_PX) / ROW_PX));
  const first = Math.max(0, Math.min(seen, count) - SPARE_ROWS);
  const last = Math.min(count, seen + Math.ceil(height / ROW_PX) + 1 + SPARE_ROWS);
  for (let index = first; index < last; index++) {
    const columns = Math.min(COLUMNS_MAX, lines.row(index).text.length + 4);
    if (columns > place.columns) place.columns = columns;
  }

  /** Takes in where the reader has scrolled to. */
  const moved = useCallback(() => {
    const element = ref.current;
    if (element === null) return;
    const now = element.scrollTop;
    if (Math.abs(now - place.known) < 1) return; // ours
    const extent = { list: place.list, viewport: element.clientHeight };
    place.offset = offsetAfter(extent, place.offset, place.known, now);
    place.known = now;
    place.target = null;
    const isAtEnd = now >= physicalHeight(extent.list) - extent.viewport - 2;
    // Not by a reader's hand: the next draw puts the end in sight again.
    const isReader = hand.scrolls(performance.now());
    setFollows((did) => isAtEnd || (did && !isReader));
    redraw((times) => times + 1);
    clearTimeout(rest.current);
    rest.current = setTimeout(() => {
      const settled = atRest(extent, place.offset, place.known);
      if (settled === place.known) return;
      place.offset += place.known - settled;
      place.target = settled;
      redraw((times) => times + 1);
    }, REST_MS);
  }, [place, hand]);
  useEffect(() => () => clearTimeout(rest.current), []);

  useEffect(() => {
    const element = ref.current;
    if (element === null) return;
    const acted = () => hand.acted(performance.now());
    const took = () => hand.took();
    const pointerMoved = (event: PointerEvent) => hand.moved(performance.now(), event.buttons);
    const listening = new AbortController();
    const options = { passive: true, signal: listening.signal };
    element.addEventListener("wheel", acted, options);
    element.addEventListener("touchmove", acted, options);
    element.addEventListener("keydown", acted, options);
    element.addEventListener("pointerdown", took, options);
    window.addEventListener("pointerup", pointerMoved, options);
    window.addEventListener("pointermove", pointerMoved, options);
    return () => listening.abort();
  }, [hand]);

  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return;
    if (list > place.list) hand.grew(performance.now());
    place.list = list;
    // The reader may have scrolled between the event and now: then the end is not forced on them.
    if (element.scrollTop < place.known - 1) {
      moved();
      return;
    }
    if (follows) {
      place.offset = list - physical;
      element.scrollTop = physical;
    } else if (place.target !== null) {
      element.scrollTop = place.target;
      place.target = null;
    }
    place.known = element.scrollTop;
  });

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
    onScroll: moved,
    onKeyDown,
    window: {
      first,
      last,
      top: first * ROW_PX - offset,
      physical,
      height: Math.max(height, ROW_PX + 2 * PADDING_PX),
      columns: place.columns,
    },
    follows: follows || list <= height,
    followEnd,
  };
}
