/** Whether an element has come near the window: what is far away is not read from the server. */
import { type RefObject, useEffect, useState } from "react";

export function useNear(ref: RefObject<Element | null>, marginPx: number): boolean {
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    const element = ref.current;
    if (element === null || isNear) return;
    const observer = new IntersectionObserver(
      (seen) => {
        if (seen.some((one) => one.isIntersecting)) setNear(true);
      },
      { root: element.closest("[data-scroller]"), rootMargin: `${marginPx}px 0px` },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref, marginPx, isNear]);
  return isNear;
}
