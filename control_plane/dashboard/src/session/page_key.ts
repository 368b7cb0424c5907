/**
 * The page key: the half of a session that other pages of the same host cannot send.
 *
 * The cookie goes with every request to this host, whatever its port; the key lies in the storage
 * of this origin. A change of the storage is told to all other tabs by the browser itself.
 */

const NAME = "farhand.page_key";

/** Returns the key of this browser's session, null while it has none. */
export function readPageKey(): string | null {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null; // storage is switched off: signing in says so
  }
}

/** Keeps the key (null: forgets it); false when the browser does not let us. */
export function keepPageKey(key: string | null): boolean {
  try {
    if (key === null) localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, key);
    return true;
  } catch {
    return false;
  }
}

/** Calls back when another tab signed in or out; returns how to stop. */
export function onOtherTab(changed: (key: string | null) => void): () => void {
  const heard = (event: StorageEvent) => {
    if (event.key === NAME) changed(event.newValue);
    if (event.key === null) changed(null); // the whole storage was cleared
  };
  addEventListener("storage", heard);
  return () => removeEventListener("storage", heard);
}
