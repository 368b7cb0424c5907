/** Tells whether an address means the computer that reads it, so that no other can use it. */
export function isLoopback(url: string): boolean {
  try {
    const host = new URL(url).hostname;
    return host === "localhost" || host.endsWith(".localhost") || host === "[::1]" || isV4(host);
  } catch {
    return false;
  }
}

/**
 * Tells what other computers lack at an address: to reach it, or that nobody on the way can read.
 * Null: nothing.
 */
export function addressLacks(url: string): "reach" | "encryption" | null {
  if (isLoopback(url)) return "reach";
  return url.startsWith("http://") ? "encryption" : null;
}

function isV4(host: string): boolean {
  return /^127\.\d+\.\d+\.\d+$/.test(host);
}
