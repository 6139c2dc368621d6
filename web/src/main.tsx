/** Start the page: sign in, then render. */

import { render } from "preact";
import { HttpApi, postForm } from "./api/index.ts";
import { AuthError, type AuthSession, type Kept, loadConfig, type PageConfig, SignIn } from "./auth/index.ts";
import "./ui/app/shell.css";
import { credentialOf, dialBrowser } from "./api/dial.ts";
import { App } from "./ui/app/app.tsx";
import { Landing } from "./ui/app/landing.tsx";
import { loadCodes } from "./ui/app/load_later.ts";
import { loadOnce } from "./ui/app/use_module.ts";
import { measureFile } from "./ui/attachments/measure.ts";
import { applyTheme, openSettings } from "./ui/settings/settings.ts";
import { browserClock, browserFrame } from "./ui/store/clock.ts";
import { Page } from "./ui/store/page.ts";
import { shell } from "./words/en/shell.ts";

const root = document.getElementById("page") as HTMLElement;
const settings = openSettings(storage());

applyTheme(document.documentElement, settings.value.theme);
void loadOnce(loadCodes);
void start();

async function start(): Promise<void> {
  if (location.pathname === "/signed-out") {
    render(<Landing is="signed-out" onSignIn={() => void leave("/")} />, root);
    return;
  }
  if (location.pathname !== "/callback") {
    await leave(location.pathname + location.search, true);
    return;
  }
  try {
    const config = await loadConfig();
    const { session, returnRoute, drafts } = await SignIn.finish();
    history.replaceState(null, "", returnRoute);
    open(config, session, drafts);
  } catch (error) {
    await recover(error);
  }
}

/** Go to the issuer: without a page, if its own session may still exist. */
async function leave(returnRoute: string, silently = false, kept?: Kept): Promise<void> {
  try {
    const config = await loadConfig();
    await (silently ? SignIn.resume(config, returnRoute) : SignIn.signIn(config, returnRoute, kept));
  } catch {
    render(<Landing is="unreachable" onSignIn={() => location.reload()} />, root);
  }
}

/** Continue after a failed sign-in: no user is signed in, or the address is an old one. */
async function recover(error: unknown): Promise<void> {
  if (!(error instanceof AuthError)) throw error;
  const again = () => leave(error.returnRoute, false, error.kept);
  if (error.code === "login_required") await again();
  else if (error.code === "stale_callback") location.replace("/");
  else {
    await loadCodes();
    render(<Landing is="failed" code={error.code} onSignIn={() => void again()} />, root);
  }
}

function open(config: PageConfig, auth: AuthSession, drafts: Kept["drafts"]): void {
  const api = new HttpApi(
    config.http_url,
    () => auth.token(),
    () => auth.expire(),
  );
  const page = new Page(
    {
      config,
      auth,
      api,
      settings,
      services: {
        api,
        dial: dialBrowser(api, config.socket_url),
        credential: credentialOf(api, () => auth.expiresAtS()),
        clock: browserClock,
        frame: browserFrame,
        timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        measure: measureFile,
        post: (grant, file, signal, progress) => postForm(grant, file, { signal, progress }),
      },
      history: {
        address: () => ({ path: location.pathname, query: location.search }),
        push: (address) => history.pushState(null, "", address),
        replace: (address) => history.replaceState(null, "", address),
        back: () => history.back(),
      },
      random: (bytes) => crypto.getRandomValues(bytes),
      signIn: (returnRoute, kept) => SignIn.signIn(config, returnRoute, kept),
      debug: new URLSearchParams(location.search).has("debug"),
    },
    shell.notice.unknownRoute,
  );
  page.restore(drafts);
  watchBrowser(page);
  render(<App page={page} />, root);
}

function watchBrowser(page: Page): void {
  addEventListener("popstate", () => page.follow());
  addEventListener("online", () => page.wake());
  addEventListener("pageshow", () => page.wake());
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") page.wake();
  });
  // If a file of the thread cannot be loaded, the rest of the page must still work.
  for (const kind of ["dragover", "drop"] as const) {
    addEventListener(kind, (event) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    });
  }
  addEventListener("beforeunload", (event) => {
    if (page.holds) event.preventDefault();
  });
}

function storage(): Storage | null {
  try {
    return localStorage;
  } catch {
    return null;
  }
}
