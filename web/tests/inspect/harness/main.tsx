/**
 * The inspector alone, over recorded answers, in the frame of the mock-up, for manual checks: `?data=stage|reduced`.
 */

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { HttpApi, type Rounds } from "../../../src/api/index.ts";
import Inspector from "../../../src/inspect/index.tsx";
import "../../../src/ui/tokens.css";
// The page has these, too: a name clash is visible here.
import "../../../src/ui/app/shell.css";
import "../../../src/ui/turn/turn.css";
import "../../setup.ts";
import { answering, parseRecorded } from "../recorded.ts";

const asked = new URLSearchParams(location.search);
const file = await fetch(`../data/${asked.get("data") ?? "stage"}.jsonl`);
const data = parseRecorded(await file.text());
const answer = answering(data, asked.has("admin"));
window.fetch = (input, init) => answer(String(input), init);
const first = (data.answers.timeline as Rounds).turns.at(-1) ?? { turn_id: "" };
const api = new HttpApi("http://api.test", async () => "a token");

function Page() {
  const [address, setAddress] = useState(asked.get("at") ?? "");
  useEffect(() => {
    document.documentElement.dataset.address = address;
  }, [address]);
  const [, turn = "", round = "1"] = /timeline\/([^/]+)\/(\d+)/.exec(address) ?? ["", first.turn_id, "1"];
  const query = new URLSearchParams(address.split("?")[1] ?? "");
  return (
    <div class="app slim">
      <nav class="side slim" aria-label="Conversations" />
      <main class="desk bare">
        <header class="bar">
          <h1>Search for prompt caching</h1>
        </header>
        <Inspector
          conversation={data.conversation}
          turn={turn}
          iteration={Number(round) - 1}
          view={query.get("view") ?? "request"}
          to={query.get("to") ?? ""}
          api={api}
          navigate={setAddress}
        />
      </main>
    </div>
  );
}

render(<Page />, document.getElementById("page") as HTMLElement);
