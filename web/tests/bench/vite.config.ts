import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

/** Our side of `bench/chat_page.py`, which is in no build of the page. */
export default defineConfig({
  root: import.meta.dirname,
  plugins: [preact({ devToolsEnabled: false })],
  build: {
    outDir: "../../node_modules/.bench",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: { input: ["page.html", "renderer.html"].map((name) => `${import.meta.dirname}/${name}`) },
  },
});
