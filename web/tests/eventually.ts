import { vi } from "vitest";

/** Wait until `check` no longer throws. A busy machine may take longer than Vitest's default of a second. */
export function eventually(check: () => void): Promise<void> {
  return vi.waitFor(check, { timeout: 60_000, interval: 5 });
}
