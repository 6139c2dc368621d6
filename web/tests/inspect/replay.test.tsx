// @vitest-environment happy-dom
import axe from "axe-core";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { HttpApi, type ReplayView, type Reply, type RequestView, type WantedReplay } from "../../src/api/index.ts";
import Inspector from "../../src/inspect/index.tsx";
import { formatUsd } from "../../src/words/format.ts";
import { eventually } from "../eventually.ts";
import { load, roundsOf } from "./load.ts";
import { answering } from "./recorded.ts";

const stage = load("stage");
const api = new HttpApi("http://api.test", async () => "a token");
const turn = roundsOf(stage).turns[0];
const n = turn?.rounds[0]?.decided_n ?? 0;
const recorded = stage.answers[`decisions/${n}`] as Reply;

let host: HTMLElement;

beforeEach(() => {
  host = document.createElement("main");
  document.body.replaceChildren(host); // without what another file of this worker left
});

afterEach(() => {
  render(null, host);
  host.remove();
  vi.unstubAllGlobals();
});

function json(body: unknown, status = 200): Response {
  const type = status < 400 ? "application/json" : "application/problem+json";
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": type } });
}

function replayOf(id: string, fields: Partial<ReplayView> = {}): ReplayView {
  return {
    replay: id,
    decided_n: n,
    model: "",
    effort: "",
    system: "",
    state: "ended",
    asked_at: recorded.started_at,
    ended_at: recorded.ended_at,
    text: "",
    reply: { ...recorded, decision: { ...recorded.decision, final_answer: `answer of ${id}` } },
    equal: true,
    usd: 0.0123,
    first_ms: 420,
    code: "",
    message: "",
    ...fields,
  };
}

/** The request as an owner who is no admin gets it. */
function concealed(): RequestView {
  const view = stage.admin[`requests/${n}`] as RequestView;
  const parts = view.parts.map((part) =>
    part.role === "system"
      ? { ...part, pieces: part.pieces.map((piece) => ({ ...piece, text: "", hidden: true })) }
      : part,
  );
  return { ...view, parts };
}

/** A server whose replays run for one reading. */
class Server {
  readonly wishes: WantedReplay[] = [];
  items: ReplayView[] = [];
  refusal: Response | null = null;
  readonly #admin: boolean;
  readonly #answer: ReturnType<typeof answering>;

  constructor(admin: boolean) {
    this.#admin = admin;
    this.#answer = answering(stage, admin);
  }

  readonly fetch = async (address: string, init: RequestInit = {}): Promise<Response> => {
    if (!this.#admin && address.endsWith(`/requests/${n}`)) return json(concealed());
    if (!address.includes("/replays")) return this.#answer(address);
    if (init.method !== "POST") {
      const shown = json({ items: this.items, models: ["model-small", "model-large"] });
      this.items = this.items.map((one) =>
        one.state === "running" ? replayOf(one.replay, { ...one, ...ENDED }) : one,
      );
      return shown;
    }
    if (this.refusal) return this.refusal;
    const wish = JSON.parse(String(init.body)) as WantedReplay;
    this.wishes.push(wish);
    const { decided_n: _, ...changes } = wish;
    const id = `${n}-${this.wishes.length}`;
    this.items.push(replayOf(id, { ...changes, state: "running", reply: null, text: "so far" }));
    return json({ replay: id }, 202);
  };
}

const ENDED = { state: "ended", reply: { ...recorded }, text: "" } as const;

async function open(server: Server): Promise<void> {
  vi.stubGlobal("fetch", server.fetch);
  await act(() =>
    render(
      <Inspector
        conversation={stage.conversation}
        turn={turn?.turn_id ?? ""}
        iteration={0}
        view="replay"
        api={api}
        navigate={() => undefined}
      />,
      host,
    ),
  );
  await eventually(() => expect(host.querySelector(".replays")).not.toBeNull());
}

const texts = (selector: string) => [...host.querySelectorAll(selector)].map((one) => one.textContent ?? "");

async function start(): Promise<void> {
  const button = host.querySelector(".wish button[type=submit]") as HTMLButtonElement;
  await eventually(() => expect(button.disabled).toBe(false));
  await act(() => button.click());
}

async function write(text: string): Promise<void> {
  await act(() => {
    const area = host.querySelector("textarea") as HTMLTextAreaElement;
    area.value = text;
    area.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

describe("a replay of a round", () => {
  it("is shown beside the recorded reply, from its first text to its decision", async () => {
    const server = new Server(false);
    await open(server);
    expect(texts(".replay > h3")).toEqual(["Recorded"]);
    await act(() => {
      for (const [at, value] of [
        [0, "model-large"],
        [1, "high"],
      ] as const) {
        const select = host.querySelectorAll<HTMLSelectElement>(".wish select")[at];
        if (!select) throw new Error("no select");
        select.value = value;
        select.dispatchEvent(new Event("change", { bubbles: true }));
      }
    });
    await start();
    await eventually(() => expect(host.textContent).toContain("so far"));
    expect(server.wishes).toEqual([{ decided_n: n, model: "model-large", effort: "high", system: "" }]);
    await eventually(() => expect(host.textContent).toContain("1 replay, kept for an hour"));
    expect(texts(".replay > h3")).toEqual(["Recorded", "1: model-large · effort high"]);
    const [, column] = host.querySelectorAll(".replay");
    expect(column?.textContent).toContain(`cost ${formatUsd(0.0123)}`);
    expect(column?.textContent).toContain("420 ms");
  });

  it("has the instructions of an admin, and shows what they change", async () => {
    const server = new Server(true);
    await open(server);
    const area = host.querySelector("textarea") as HTMLTextAreaElement;
    expect(area.value.length).toBeGreaterThan(1_000);
    await start();
    await eventually(() => expect(server.wishes).toHaveLength(1));
    expect(server.wishes[0]?.system).toBe("");
    await write(`${area.value}\nAnswer in verse.`);
    expect(host.querySelector(".changes ins")?.textContent).toContain("Answer in verse.");
    await start();
    await eventually(() => expect(server.wishes).toHaveLength(2));
    expect(server.wishes[1]?.system?.endsWith("Answer in verse.")).toBe(true);
  });

  it("replaces hidden instructions without showing a difference", async () => {
    const server = new Server(false);
    await open(server);
    expect((host.querySelector("textarea") as HTMLTextAreaElement).value).toBe("");
    await write("Answer in verse.");
    expect(host.querySelector(".changes")).toBeNull();
    await act(() => {
      host
        .querySelector("textarea")
        ?.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true, cancelable: true }));
    });
    await eventually(() => expect(server.wishes[0]?.system).toBe("Answer in verse."));
  });

  it("that failed, or was refused, says why", async () => {
    const server = new Server(false);
    server.items = [replayOf("1-1", { state: "failed", reply: null, code: "replay_lost", message: "Lost." })];
    await open(server);
    expect(host.textContent).toContain("The replay didn't finish in time. (replay_lost)");
    server.refusal = json({ title: "No", status: 429, code: "limit_tokens", detail: "x", type: "about:blank" }, 429);
    await start();
    await eventually(() => expect(texts("[role=alert]")).toEqual(["Your token budget is used up."]));
  });

  it("has no problem for screen readers", async () => {
    const server = new Server(true);
    server.items = [replayOf("1-1"), replayOf("1-2", { equal: false, usd: null })];
    await open(server);
    const found = await axe.run(host, { rules: { "color-contrast": { enabled: false }, region: { enabled: false } } });
    expect(found.violations.map((one) => `${one.id}: ${one.nodes[0]?.html}`)).toEqual([]);
  });
});
