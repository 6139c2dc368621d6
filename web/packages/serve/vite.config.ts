import { defineConfig } from "vite";

/** Files for Node with everything that they import: an installation has no packages of npm. `serve.js` loads the others. */
export default defineConfig({
  publicDir: false,
  build: {
    ssr: "packages/serve/main.ts",
    outDir: "dist-serve",
    target: "node22",
    minify: true,
    rollupOptions: { output: { entryFileNames: "serve.js", chunkFileNames: "[name].js" } },
  },
  ssr: { noExternal: true },
});
