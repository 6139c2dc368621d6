/** The whole page, signed in with a stub, and connected to a scripted server. */

import { render } from "preact";
import { ApiError, type HttpApi } from "../../src/api/index.ts";
import type { AuthSession, PageConfig } from "../../src/auth/index.ts";
import "../../src/ui/app/shell.css";
import { App } from "../../src/ui/app/app.tsx";
import { openSettings } from "../../src/ui/settings/settings.ts";
import { browserClock } from "../../src/ui/store/clock.ts";
import { Page } from "../../src/ui/store/page.ts";
import { offer } from "./measure.ts";
import { ScriptedServer } from "./server.ts";

const CONVERSATION = "chat-bench";
const server = new ScriptedServer(CONVERSATION);
const missing = new ApiError({ status: 404, code: "not_found", detail: "" });
const api = {
  listAll: async () => ({ items: [], next: "" }),
  readEvents: async () => ({ events: [], first_n: 0, more: false }),
  markRead: async () => undefined,
  beginUpload: () => Promise.reject(missing),
  getUpload: () => Promise.reject(missing),
} as unknown as HttpApi;
const user = { name: "ada", subject: "ada", role: "user" };
const address = { path: `/c/${CONVERSATION}`, query: "" };

let planned: (() => void)[] = [];

function draw(): void {
  const due = planned;
  planned = [];
  for (const run of due) run();
}

const page = new Page(
  {
    config: { stage: "local", inspect: "owner", uploads: true } as unknown as PageConfig,
    auth: { user, onExpired: () => undefined } as unknown as AuthSession,
    api,
    settings: openSettings(null),
    services: {
      api,
      dial: server.dial,
      credential: { expiresAtS: () => Number.POSITIVE_INFINITY, ticket: async () => "t" },
      clock: browserClock,
      frame(run) {
        planned.push(run);
        requestAnimationFrame(draw);
      },
      timezone: "",
      measure: async () => "",
      post: async () => undefined,
    },
    history: { address: () => address, push: () => undefined, replace: () => undefined, back: () => undefined },
    random: (bytes) => crypto.getRandomValues(bytes),
    signIn: () => Promise.resolve(),
    debug: false,
  },
  "",
);

render(<App page={page} />, document.getElementById("page") as HTMLElement);
offer({
  begin: (prompt) => server.open(prompt),
  push: (piece) => server.write(piece),
  end: () => server.close(),
  draw,
  drawsAtOnce: false,
});
