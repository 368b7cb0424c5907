/** The nonce of this response: the page's CSP allows no style element without it. */

export function styleNonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
}
