/** The page of a signed-out user. */

import { shell } from "../../words/en/shell.ts";
import { wordsOf } from "../../words/index.ts";
import { Mark } from "./icons.tsx";

interface LandingProps {
  readonly is: "signed-out" | "unreachable" | "failed";
  readonly code?: string;
  readonly onSignIn: () => void;
}

const { login: words } = shell;

export function Landing({ is, code = "", onSignIn }: LandingProps) {
  const said = { "signed-out": words.signedOut, unreachable: words.noConfig, failed: words.failed }[is];
  return (
    <main class="landing">
      <Mark size={40} />
      <h1>{shell.name}</h1>
      <p role={is === "signed-out" ? undefined : "alert"}>{said}</p>
      {code && <p class="aside">{wordsOf(code)}</p>}
      <button type="button" class="act main" onClick={onSignIn}>
        {is === "unreachable" ? words.again : words.signIn}
      </button>
    </main>
  );
}
