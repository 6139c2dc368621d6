import { execFile } from "node:child_process";
import { defineConfig, type Plugin } from "vite";

/** The server of the app: it knows its user, here ada, and gives the page the address of the API and a new token. */
const session: Plugin = {
  name: "session",
  configureServer({ middlewares }) {
    middlewares.use("/session", (_, answer) => {
      execFile("stepline", ["token", "--json", "--user", "ada"], (error, stdout) => {
        answer.statusCode = error ? 503 : 200;
        answer.setHeader("Content-Type", "application/json").end(error ? "{}" : stdout);
      });
    });
  },
};

// Without CORS no other page reads a token.
export default defineConfig({ plugins: [session], server: { port: 5173, strictPort: true, cors: false } });
