import { vi } from "vitest";

/** Wait until `check` no longer throws. A busy machine may take longer than the second that Vitest would wait. */
export function eventually(check: () => void): Promise<void> {
  return vi.waitFor(check, { timeout: 60_000 });
}
