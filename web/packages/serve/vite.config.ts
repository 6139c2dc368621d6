import { defineConfig } from "vite";

/** Files for Node with everything that they import: an installation has no packages of npm. `serve.mjs` loads the others. */
export default defineConfig({
  publicDir: false,
  build: {
    ssr: "packages/serve/main.ts",
    outDir: "dist-serve",
    target: "node22",
    minify: true,
    license: { fileName: "licenses.md" },
    rollupOptions: { output: { entryFileNames: "serve.mjs", chunkFileNames: "[name].mjs" } },
  },
  ssr: { noExternal: true },
});
