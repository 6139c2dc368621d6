// @vitest-environment happy-dom
import axe from "axe-core";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { HttpApi, type TurnRounds } from "../../src/api/index.ts";
import Inspector from "../../src/inspect/index.tsx";
import type { Live } from "../../src/inspect/rounds_list.ts";
import { eventually } from "../eventually.ts";
import { load, receiptsOf, roundsOf } from "./load.ts";
import { answering, type Recorded } from "./recorded.ts";

const stage = load("stage");
const reduced = load("reduced");
const turnIds = (data: Recorded) => roundsOf(data).turns.map((turn) => turn.turn_id);

const api = new HttpApi("http://api.test", async () => "a token");
let host: HTMLElement;
let addresses: string[];

beforeEach(() => {
  host = document.createElement("main");
  document.body.append(host);
  addresses = [];
  vi.stubGlobal("innerWidth", 1440);
  (window as unknown as { happyDOM: { setViewport(size: object): void } }).happyDOM.setViewport({
    width: 1440,
    height: 900,
  });
});

afterEach(() => {
  render(null, host);
  host.remove();
  vi.unstubAllGlobals();
});

interface Asked {
  readonly turn: number;
  readonly round: number;
  readonly view?: string;
  readonly to?: string;
  readonly admin?: boolean;
  readonly letters?: boolean;
  readonly progress?: string;
  readonly live?: Live;
  readonly newest?: number;
  readonly refuse?: (what: string) => Response | null;
}

/** Render the inspector at a round (turn and round from 1), until all data is loaded. */
async function open(data: Recorded, asked: Asked): Promise<void> {
  const answer = answering(data, asked.admin);
  vi.stubGlobal("fetch", async (address: string) => asked.refuse?.(String(address)) ?? answer(String(address)));
  await act(() =>
    render(
      <Inspector
        conversation={data.conversation}
        turn={turnIds(data)[asked.turn - 1] ?? "turn_none"}
        iteration={asked.round - 1}
        view={asked.view ?? "request"}
        to={asked.to ?? ""}
        letters={asked.letters ?? true}
        progress={asked.progress ?? ""}
        live={asked.live ?? null}
        newest={asked.newest ?? 0}
        api={api}
        navigate={(address) => addresses.push(address)}
      />,
      host,
    ),
  );
  await settle();
}

/** Return the recording as it was when batch `upto` was the newest one. */
function asOf(data: Recorded, upto: number): Recorded {
  const turns = roundsOf(data).turns.map((turn) => ({
    ...turn,
    closed_n: turn.closed_n > upto ? 0 : turn.closed_n,
    rounds: turn.rounds.filter((round) => round.decided_n <= upto),
  }));
  const log = "log?after=0&limit=50";
  const { batches } = data.answers[log] as { batches: readonly { n: number }[] };
  const page = { batches: batches.filter(({ n }) => n <= upto), next: null };
  return { ...data, answers: { ...data.answers, timeline: { turns }, [log]: page } };
}

async function settle(): Promise<void> {
  await eventually(() => expect(host.textContent).not.toContain("Loading…"));
  await act(async () => undefined);
}

async function click(element: Element | null | undefined): Promise<void> {
  if (!element) throw new Error("there is nothing to click");
  await act(() => (element as HTMLElement).click());
  await settle();
}

function press(key: string, on: EventTarget = document.body): void {
  act(() => {
    on.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  });
}

const all = (selector: string) => [...host.querySelectorAll<HTMLElement>(selector)];
const texts = (selector: string) => all(selector).map((one) => one.textContent ?? "");
const named = (selector: string, text: string) => all(selector).find((one) => one.textContent?.includes(text));

function refusal(status: number, code: string): Response {
  const problem = { title: "No", status, code, detail: "this deployment does not show it", type: "about:blank" };
  return new Response(JSON.stringify(problem), { status, headers: { "Content-Type": "application/problem+json" } });
}

describe("the rounds", () => {
  it("are listed by turn, each with its tokens in words", async () => {
    await open(stage, { turn: 4, round: 3 });
    expect(texts(".asked-for")).toContain("Search for prompt injection and write what you find to a file cache.md");
    const current = host.querySelector(".pick[aria-current]");
    expect(current?.textContent).toContain("turn 4, round 3: ");
    expect(current?.textContent).toContain("10,425 read, 185 written, 210 plain, 327 output (96%)");
  });

  it("are read again when the conversation continues, and stay if that fails", async () => {
    let readings = 0;
    const at = { turn: 1, round: 1 };
    const refuse = (what: string) => {
      if (what.endsWith("/timeline")) readings += 1;
      return null;
    };
    await open(stage, { ...at, progress: "1.0.1", refuse });
    expect(readings).toBe(1);
    await open(stage, { ...at, progress: "1.0.2", refuse });
    expect(readings).toBe(2);
    const down = (what: string) => (what.endsWith("/timeline") ? new Response("", { status: 503 }) : null);
    await open(stage, { ...at, progress: "1.1.2", refuse: down });
    expect(host.querySelectorAll(".col")).toHaveLength(3);
  });

  it("have a row and a growing log while they run, until they are decided", async () => {
    const turn = roundsOf(stage).turns.length;
    const last = roundsOf(stage).turns.at(-1) as TurnRounds;
    const decided = last.rounds.at(-1)?.decided_n ?? 0;
    const live = { turnId: last.turn_id, iteration: last.rounds.length - 1, doing: "round 3 · thinking" };
    const at = { turn, round: last.rounds.length, live };
    await open(asOf(stage, decided - 1), { ...at, newest: decided - 1, progress: "1" });
    expect(texts("li.live .pick[aria-current]")).toEqual([`turn ${turn}, round 3: 3round 3 · thinkingrunning`]);
    expect(host.querySelector(".of-middle")?.textContent).toContain("This round is running.");
    expect(all(".log [data-n]").at(-1)?.dataset.n).toBe(String(decided - 1));
    press("k");
    expect(addresses).toEqual([`/c/${stage.conversation}/timeline/${last.turn_id}/2`]);
    await open(asOf(stage, decided), { ...at, newest: decided, progress: "1" });
    await eventually(() => expect(all(".log [data-n]").at(-1)?.dataset.n).toBe(String(decided)));
    await open(stage, { ...at, newest: decided, progress: "2" });
    await eventually(() => expect(all("li.live")).toEqual([]));
    expect(host.querySelector(".pick[aria-current]")?.textContent).toContain("10,425 read");
  });

  it("show how much of the cache they missed, and why", async () => {
    await open(reduced, { turn: 2, round: 3 });
    expect(texts(".pick .bust")).toEqual(["2.5k of 4.3k read: a block was hidden"]);
    expect(all(".pick .notch").length).toBe(1);
    await click(named(".picks summary", "Tell me a lot."));
    expect(texts(".pick .bust")).toContain("0 of 7.7k read: earlier turns were summarized");
  });

  it("show that they were refused", async () => {
    await open(reduced, { turn: 3, round: 1 });
    expect(host.querySelector(".pick[aria-current]")?.textContent).toContain("refused");
  });

  it("are reached by j and k, and the chat by t, unless the user types or has turned off letters", async () => {
    await open(stage, { turn: 4, round: 1, view: "reply" });
    press("j");
    press("k");
    press("t");
    press("x");
    const [, , third, fourth] = turnIds(stage);
    const base = `/c/${stage.conversation}`;
    expect(addresses).toEqual([
      `${base}/timeline/${fourth}/2?view=reply`,
      `${base}/timeline/${third}/2?view=reply`,
      `${base}/t/${fourth}/r/1`,
    ]);
    const field = document.createElement("input");
    host.append(field);
    press("j", field);
    field.remove();
    await open(stage, { turn: 4, round: 1, letters: false });
    press("j");
    expect(addresses.length).toBe(3);
  });

  it("show a message for a missing round, next to the existing ones", async () => {
    await open(stage, { turn: 9, round: 9 });
    expect(host.textContent).toContain("This round is still running.");
    expect(all(".picks summary").length).toBe(4);
  });
});

describe("the request", () => {
  it("shows the model's input, marks, the parts sent every time, and that its bytes are the sent ones", async () => {
    await open(stage, { turn: 4, round: 3 });
    expect(host.querySelector(".strip")?.textContent).toContain("10,820 tokens in, 96% read");
    expect(texts(".cachemark").map((text) => text.slice(0, 6))).toEqual(["mark 1", "mark 2", "mark 3", "mark 4"]);
    expect(texts(".pill.live")).toEqual(["every time", "every time"]);
    expect(host.querySelector(".proof")?.textContent).toContain("These are the bytes that were sent");
  });

  it("shows that the system part is for admins, and since when it is unchanged", async () => {
    await open(stage, { turn: 4, round: 3 });
    const system = named(".piece", "SYSTEM");
    expect(system?.textContent).toContain("Only administrators can see the system text");
    expect(system?.textContent).toContain("same since turn 1");
  });

  it("folds the system part into its sections for an admin", async () => {
    await open(stage, { turn: 1, round: 1, admin: true });
    expect(texts(".section summary")).toContain("How you answer");
  });

  it("selects the batch of a piece, and the pieces of a batch, also in a folded turn", async () => {
    await open(stage, { turn: 4, round: 3 });
    await click(named(".piece .kind", "USER MESSAGE"));
    const chosen = host.querySelector(".log .chosen");
    expect(chosen?.textContent).toContain("prompt: Search for prompt injection");
    expect(host.querySelector(".behind")?.textContent).toContain(`after ${chosen?.getAttribute("data-n")}`);
    await click(host.querySelector(".log [data-n='11'] button"));
    const opened = named("details.folded[open]", "TURN 2");
    expect(opened?.querySelectorAll(".piece.chosen").length).toBeGreaterThan(1);
    await click(host.querySelector(".log [data-n='11'] button"));
    expect(all(".chosen")).toEqual([]);
  });

  it("shows the original of a hidden block next to the model's input, until Escape", async () => {
    await open(reduced, { turn: 2, round: 3 });
    const piece = named(".piece.gone", "hidden from 1,641");
    await click(piece?.querySelector(".unfold"));
    const [read, original] = [...(piece?.querySelectorAll(".beside section") ?? [])].map((one) => one.textContent);
    expect(read).toContain("seals eat fish, said over and over");
    expect(original).toContain("The seal eats fish and swims in the river all day long.");
    press("Escape", piece?.querySelector("[aria-expanded=true][aria-controls]") ?? document);
    expect(piece?.querySelector(".beside")).toBeNull();
  });
});

describe("the difference", () => {
  it("folds identical parts, and shows added and removed words", async () => {
    await open(stage, { turn: 4, round: 3, view: "diff" });
    expect(host.textContent).toContain("From turn 4, round 2 to turn 4, round 3");
    expect(texts(".folded > summary .place")[0]).toMatch(/^\d+ pieces the same$/);
    expect(texts(".cachemark.differs")[0]).toMatch(
      /^first difference at byte [\d,]+, after [\d,]+ tokens\. The cache ends here\.$/,
    );
    const announce = named("[data-op=changed]", "ANNOUNCE");
    expect(announce?.querySelector("del")?.textContent).toBe("2");
    expect(announce?.querySelector("ins")?.textContent).toBe("3");
  });

  it("of a round that missed its cache selects the first change", async () => {
    await open(reduced, { turn: 2, round: 3, view: "diff" });
    const [selected] = all(".seen [aria-current]");
    expect(selected?.textContent).toContain("TOOL RESULT");
    expect(host.textContent).toContain("2.5k of 4.3k cached tokens were read: a block was hidden.");
  });

  it("uses another round if the user selects one", async () => {
    await open(stage, { turn: 4, round: 3, view: "diff" });
    const select = host.querySelector("select");
    if (select === null) throw new Error("no choice");
    select.value = "0";
    await act(() => {
      select.dispatchEvent(new Event("change", { bubbles: true }));
    });
    const [first, , , fourth] = turnIds(stage);
    expect(addresses).toEqual([`/c/${stage.conversation}/timeline/${fourth}/3?view=diff&to=${first}.1`]);
  });
});

describe("the reply", () => {
  it("has its thinking, its decision as a tree, its usage and the time to its first token", async () => {
    await open(stage, { turn: 4, round: 2, view: "reply" });
    const reply = host.querySelector(".reply")?.textContent;
    expect(reply).toContain("Now I write cache.md.");
    expect(reply).toContain("10,635 in (93% read), 215 out");
    expect(reply).toMatch(/first token after\d+ ms/);
    expect(texts(".tree summary")).toContain("actions [1]");
  });

  it("of a refused decision has its raw text and the notice", async () => {
    await open(reduced, { turn: 3, round: 1, view: "reply" });
    expect(host.querySelector(".reply")?.textContent).toContain("{not json");
    expect(host.querySelector(".reply")?.textContent).toContain("no_json_candidate");
  });

  it("moves in its tree by arrow keys", async () => {
    await open(stage, { turn: 4, round: 2, view: "reply" });
    const [actions, action] = all(".tree summary");
    actions?.focus();
    press("ArrowRight", actions);
    expect(document.activeElement).toBe(action);
    press("ArrowLeft", action);
    expect(action?.parentElement?.hasAttribute("open")).toBe(false);
    press("ArrowLeft", action);
    expect(document.activeElement).toBe(actions);
  });
});

describe("the costs", () => {
  it("are plotted, with a table of the figures from the usage events", async () => {
    await open(stage, { turn: 4, round: 3, view: "costs" });
    expect(all(".plot svg").length).toBe(3);
    const rows = all("tr.turn-row").map((row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent));
    const events = turnIds(stage).map((turn) => stage.usage[turn]);
    const shown = (value: number | undefined) => (value ?? 0).toLocaleString("en");
    expect(rows.map((cells) => [cells[0], cells[2], cells[3], cells[5]])).toEqual(
      events.map((event) => [
        shown(event?.cache_read_tokens),
        shown(event?.input_tokens),
        shown(event?.output_tokens),
        shown(event?.weighted_tokens),
      ]),
    );
  });

  it("list replayed rounds, which are in the sum", async () => {
    const receipts = receiptsOf(stage);
    const { tokens } = receipts;
    const replays = [{ at: "2026-11-25T09:00:00Z", model: "<b>own</b>", tokens, usd: 0.25 }];
    const refuse = (address: string) =>
      address.includes("/receipts") ? Response.json({ ...receipts, replays }) : null;
    await open(stage, { turn: 4, round: 3, view: "costs", refuse });
    const row = all("tbody tr").at(-1);
    expect(row?.querySelector("th")?.textContent).toBe("replayed round (<b>own</b>)");
    expect(row?.querySelector("td:last-child")?.textContent).toBe("0.2500");
  });
});

describe("the log", () => {
  it("shows the model's view, after the newest batch of its request", async () => {
    await open(stage, { turn: 4, round: 3 });
    const saw = host.querySelector(".log .saw");
    expect(saw?.previousElementSibling?.getAttribute("data-n")).toBe("25");
    expect(saw?.nextElementSibling?.getAttribute("aria-current")).toBe("true");
    expect(host.querySelector(".behind")?.textContent).toContain("epoch, claim21, 25");
  });
});

describe("a deployment without the inspector", () => {
  it("says so in a sentence, next to the rounds and their costs", async () => {
    const refuse = (address: string) =>
      /requests|decisions|log\?/.test(address) ? refusal(403, "not_inspectable") : null;
    await open(stage, { turn: 4, round: 3, refuse });
    expect(texts("[role=alert]")).toEqual([
      "This deployment doesn't show you requests, replies or the log. You can see rounds and costs.",
      "This deployment doesn't show you requests, replies or the log. You can see rounds and costs.",
    ]);
    expect(texts(".pick").join("")).toContain("10,820");
    await open(stage, { turn: 4, round: 3, view: "costs", refuse });
    expect(all(".plot").length).toBe(3);
  });

  it("is requested again after a failure", async () => {
    let down = true;
    const refuse = (address: string) => (down && address.includes("requests") ? refusal(503, "dependency") : null);
    await open(stage, { turn: 4, round: 3, refuse });
    down = false;
    await click(host.querySelector("[role=alert] button"));
    expect(all(".cachemark").length).toBe(4);
  });
});

describe("a narrow window", () => {
  it("has the panels as tabs", async () => {
    (window as unknown as { happyDOM: { setViewport(size: object): void } }).happyDOM.setViewport({
      width: 800,
      height: 600,
    });
    await open(stage, { turn: 4, round: 3 });
    expect(texts("[role=tab]")).toEqual(["Rounds", "Round", "Log"]);
    press("ArrowRight", host.querySelector("[role=tab][aria-selected=true]") ?? document);
    await settle();
    expect(host.querySelector("[role=tabpanel] .log")).not.toBeNull();
  });
});

describe.each(["request", "diff", "reply", "costs"])("the view %s", (view) => {
  it("has no serious axe violation", async () => {
    await open(reduced, { turn: 2, round: 3, view });
    // Colors have no size here: they are checked in a browser.
    const found = await axe.run(host, { rules: { "color-contrast": { enabled: false } } });
    const serious = found.violations.filter((one) => one.impact === "serious" || one.impact === "critical");
    expect(serious.map((one) => `${one.id}: ${one.nodes[0]?.html}`)).toEqual([]);
  });
});
