import { defineConfig } from "vite";

/** One file for Node, with everything that it imports: an installation has no packages of npm. */
export default defineConfig({
  publicDir: false,
  build: {
    ssr: "packages/serve/main.ts",
    outDir: "dist-serve",
    target: "node22",
    minify: true,
    rollupOptions: { output: { entryFileNames: "serve.js" } },
  },
  ssr: { noExternal: true },
});
