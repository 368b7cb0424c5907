/** Work in slices: what the browser needs to draw and to hear a key is never held up for long. */

/** Half of a frame at 60 Hz: the other half is for drawing. */
const SLICE_MS = 8;

let sliceBegan = 0;

/** Returns something to wait for when the slice is used up, else nothing. */
export function breathe(): Promise<void> | undefined {
  const now = performance.now();
  if (now - sliceBegan > 10 * SLICE_MS) {
    sliceBegan = now; // nothing was done in between
    return undefined;
  }
  if (now - sliceBegan < SLICE_MS) return undefined;
  return nextTask().then(() => {
    sliceBegan = performance.now();
  });
}

function nextTask(): Promise<void> {
  const scheduler = (globalThis as { scheduler?: { yield?: () => Promise<void> } }).scheduler;
  if (scheduler?.yield !== undefined) return scheduler.yield();
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(null);
  });
}
