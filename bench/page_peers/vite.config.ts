import { defineConfig } from "vite";

/** Pages of others, one for each; `bench/browser_pages.py` copies this folder to where their packages are. */
export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "react" } },
  build: {
    target: "es2023",
    modulePreload: { polyfill: false },
    rolldownOptions: { input: ["streamdown.html", "assistant.html"].map((name) => `${import.meta.dirname}/${name}`) },
  },
});
