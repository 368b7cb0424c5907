/**
 * Where a reader is in a list that may be taller than a browser can make an element.
 *
 * A million and a half lines are 30 million pixels; Firefox ends at 17.8 million, Chromium at 33.5.
 * So the element is at most PHYSICAL_MAX tall and an offset says where its part of the list lies:
 * `list = physical + offset`. Small movements keep the offset, so they are exact to the pixel; a
 * jump (dragging the bar, Home, End) means a part of the whole; and when scrolling has come to rest
 * the bar is put where it belongs, without anything to see.
 */

export const PHYSICAL_MAX = 8_000_000;

export interface Extent {
  /** Height of the whole list, in pixels. */
  readonly list: number;
  readonly viewport: number;
}

export function physicalHeight(list: number): number {
  return Math.min(list, PHYSICAL_MAX);
}

/** Returns the offset after the reader has scrolled from `from` to `to` (physical). */
export function offsetAfter(extent: Extent, offset: number, from: number, to: number): number {
  const physical = physicalHeight(extent.list);
  if (physical === extent.list) return 0;
  const last = physical - extent.viewport;
  if (to <= 0) return 0;
  if (to >= last - 1) return extent.list - physical;
  if (Math.abs(to - from) <= 2 * extent.viewport) return offset;
  return Math.round((to / last) * (extent.list - extent.viewport)) - to;
}

/** Returns the physical position that shows the same place with the bar where it belongs. */
export function atRest(extent: Extent, offset: number, at: number): number {
  const physical = physicalHeight(extent.list);
  if (physical === extent.list) return at;
  const part = (at + offset) / (extent.list - extent.viewport);
  return Math.round(Math.min(1, Math.max(0, part)) * (physical - extent.viewport));
}
