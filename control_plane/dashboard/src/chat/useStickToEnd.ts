/** Keeps the end of a scrolling column in sight while the reader is there, and only then. */
import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

/** This close to the end counts as being there. */
const NEAR_PX = 40;

interface StickToEnd {
  readonly scroller: RefObject<HTMLElement | null>;
  readonly content: RefObject<HTMLDivElement | null>;
  readonly onScroll: () => void;
  readonly isAtEnd: boolean;
  readonly goToEnd: () => void;
}

/** `oldestKey` changes when older content was put before what is shown: that must not move it. */
export function useStickToEnd(oldestKey: string | undefined): StickToEnd {
  const scroller = useRef<HTMLElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const sticks = useRef(true);
  const last = useRef({ top: 0, height: 0, oldestKey });
  const [isAtEnd, setAtEnd] = useState(true);

  const toEnd = useCallback(() => {
    const element = scroller.current;
    if (element === null) return;
    element.scrollTop = element.scrollHeight;
    last.current.top = element.scrollTop;
  }, []);

  const onScroll = useCallback(() => {
    const element = scroller.current;
    if (element === null) return;
    const { scrollTop, scrollHeight, clientHeight } = element;
    const isNear = scrollHeight - clientHeight - scrollTop <= NEAR_PX;
    // Growing content moves nothing up: only a reader does.
    if (isNear) sticks.current = true;
    else if (scrollTop < last.current.top) sticks.current = false;
    last.current.top = scrollTop;
    last.current.height = scrollHeight;
    setAtEnd(isNear || sticks.current);
  }, []);

  useEffect(() => {
    const element = scroller.current;
    if (element === null || content.current === null) return;
    const observer = new ResizeObserver(() => {
      if (sticks.current) toEnd();
      last.current.height = element.scrollHeight;
    });
    observer.observe(content.current);
    observer.observe(element);
    return () => observer.disconnect();
  }, [toEnd]);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const before = last.current;
    if (before.oldestKey !== oldestKey && before.oldestKey !== undefined && !sticks.current) {
      // Browsers keep the place by themselves, but not at the very top, and Safari never.
      const isKept = CSS.supports("overflow-anchor", "auto") && before.top > 0;
      if (!isKept) element.scrollTop = before.top + element.scrollHeight - before.height;
    }
    last.current = { top: element.scrollTop, height: element.scrollHeight, oldestKey };
  }, [oldestKey]);

  const goToEnd = useCallback(() => {
    sticks.current = true;
    setAtEnd(true);
    toEnd();
  }, [toEnd]);

  return { scroller, content, onScroll, isAtEnd, goToEnd };
}
