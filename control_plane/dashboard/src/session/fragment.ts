/** Returns the sign-in token that an address carries, null when it has none. */
export function tokenOf(address: { pathname: string; hash: string }): string | null {
  if (address.pathname !== "/sign-in" || address.hash.length < 2) return null;
  return decoded(address.hash.slice(1));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
