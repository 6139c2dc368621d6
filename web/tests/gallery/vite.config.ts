import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

/** The gallery of states, which is in no build of the page. */
export default defineConfig({
  root: import.meta.dirname,
  plugins: [preact({ devToolsEnabled: false })],
  build: {
    outDir: "../../node_modules/.gallery",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
