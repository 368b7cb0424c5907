/** Tells whether an address means the computer that reads it, so that no other can use it. */
export function isLoopback(url: string): boolean {
  try {
    const host = new URL(url).hostname;
    return host === "localhost" || host.endsWith(".localhost") || host === "[::1]" || isV4(host);
  } catch {
    return false;
  }
}

function isV4(host: string): boolean {
  return /^127\.\d+\.\d+\.\d+$/.test(host);
}
