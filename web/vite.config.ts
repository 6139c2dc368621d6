import preact from "@preact/preset-vite";
import { defineConfig } from "vitest/config";

/**
 * The end of marked's single file connects the lexer to everything that makes HTML of its tokens: a third of it, which
 * the page does not use.
 */
const MARKED_END = /var \w+=new \w+;function \w+\(\w+,\w+\)\{return \w+\.parse\(.*export\{.*?(\w+) as Lexer,.*$/s;

const lexerAlone = {
  name: "lexer-alone",
  transform(code: string, id: string) {
    if (!id.endsWith("/marked.esm.js")) return null;
    if (!MARKED_END.test(code)) throw new Error("the end of marked's file has changed");
    return { code: code.replace(MARKED_END, "export{$1 as Lexer};"), map: null };
  },
};

export default defineConfig({
  plugins: [preact({ devToolsEnabled: false }), lexerAlone],
  // Inline nothing, whatever its size: the page's policy allows no inline script or style, and no data: address.
  build: {
    target: "es2023",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    license: { fileName: "assets/licenses.md" },
  },
  test: {
    include: ["tests/**/*.test.{ts,tsx}"],
    setupFiles: ["tests/setup.ts"],
    // One environment for all files of a process: tests take a third of the time.
    isolate: false,
    // These limits end a test that hangs. On a busy machine, any test may exceed the default of five seconds.
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
