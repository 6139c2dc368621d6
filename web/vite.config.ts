import preact from "@preact/preset-vite";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [preact({ devToolsEnabled: false })],
  // Nothing inline, whatever its size: the page's policy allows no inline script or style, and no data: address.
  build: { target: "es2023", assetsInlineLimit: 0, modulePreload: { polyfill: false }, sourcemap: false },
  test: {
    include: ["tests/**/*.test.{ts,tsx}"],
    // One environment for all files of a process: a third of the time.
    isolate: false,
    // These end a test that hangs. A busy machine may take the defaults' five seconds for any test.
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
