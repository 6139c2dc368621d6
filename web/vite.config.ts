import preact from "@preact/preset-vite";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [preact({ devToolsEnabled: false })],
  // Nothing inline, whatever its size: the page's policy allows no inline script or style, and no data: address.
  build: { target: "es2023", assetsInlineLimit: 0, modulePreload: { polyfill: false }, sourcemap: false },
  // One environment for all files of a process: a third of the time.
  test: { include: ["tests/**/*.test.{ts,tsx}"], isolate: false },
});
