/**
 * Measure a file before its upload.
 *
 * The browser computes the hash beside the page's own thread. A worker of ours would need a policy of Trusted Types, of
 * which the page has none.
 */

export async function measureFile(file: File): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
