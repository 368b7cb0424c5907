/** How people call the command line on the server's computer, as the server has told it. */

const USUAL = "farhand";

/** Return the program's name, or its place in the checkout's folder where it was not installed. */
export function program(): string {
  const told = document.querySelector<HTMLMetaElement>('meta[name="farhand-program"]')?.content;
  // The development server leaves the place of the name as it is.
  return told === undefined || told === "" || told.startsWith("__") ? USUAL : told;
}

/** Tell whether the program is called within the checkout's folder only. */
export function isInCheckout(name: string): boolean {
  return name !== USUAL;
}
