/**
 * Measures a file before its upload.
 *
 * The browser computes the hash off the page's main thread. Our own worker would need a Trusted Types policy, and the
 * page has none.
 */

export async function measureFile(file: File): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
