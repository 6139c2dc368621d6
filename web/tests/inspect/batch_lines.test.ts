import { describe, expect, it } from "vitest";
import { batchLines } from "../../src/inspect/batch_lines.ts";
import type { Batch, Entry } from "../../src/inspect/log_book.ts";
import { bookOf, load, NAMES } from "./load.ts";

/** Rounds count from 0 in the terminal, from 1 on the page. */
function fromOne(line: string): string {
  return line.replace(/^round (\d+)/, (_, round: string) => `round ${Number(round) + 1}`);
}

function linesOf(entry: Entry): readonly string[] {
  return batchLines({ n: 1, at: "", entries: [entry], state: {} as Batch["state"] });
}

describe.each(NAMES)("the log of the conversation %s", (name) => {
  const data = load(name);

  it("has the lines that `stepline log` prints", () => {
    const batches = [...bookOf(data).pages.values()].flat();
    expect(batches.length).toBe(Object.keys(data.lines).length);
    for (const batch of batches) {
      const printed = (data.lines[String(batch.n)] ?? []).map((line) => fromOne(line.slice(5).trim()));
      expect(batchLines(batch).map((line) => line.trim())).toEqual(printed);
    }
  });
});

describe("an entry", () => {
  it("names the artifacts and skills that the next round shows in full", () => {
    const entry = {
      kind: "decision",
      iteration: 0,
      action: "call_tool",
      show_artifacts: ["fi:a.md"],
      show_skills: ["lab.charts"],
    };
    expect(linesOf(entry).map((line) => line.trim())).toEqual(["round 1: call_tool", "stages fi:a.md sk:lab.charts"]);
  });

  it.each<[string, Entry, string]>([
    ["a steer", { kind: "steered", n: 7, finalize: 2 }, "steered by 7: 2 rounds left"],
    ["a stop", { kind: "steered", n: 7 }, "steered by 7: stopped"],
    ["a dropped message", { kind: "dropped", n: 3, reason: "stopped" }, "dropped 3: stopped"],
    [
      "a wait",
      { kind: "reopened", iteration: 1, attempt: 0, until: "09:00", code: "Overloaded" },
      "round 2: waits until 09:00 (Overloaded)",
    ],
    [
      "a failed attempt",
      { kind: "reopened", iteration: 0, attempt: 1, usage: { kind: "", input_tokens: 5, cache_read_tokens: 6 } },
      "round 1: attempt 1 failed after 11 tokens",
    ],
    ["a program's start", { kind: "started", call_id: "tc_1" }, "about to run tc_1"],
    ["a task", { kind: "started", call_id: "tc_1", task: { until: "10:00" } }, "runs tc_1 as a task, until 10:00"],
    [
      "a question",
      { kind: "approval_requested", action: { call_id: "tc_1", tool_id: "web.post" }, rule: "always" },
      "parked: may tc_1 web.post run? (always)",
    ],
    [
      "an edited call",
      {
        kind: "approval_answered",
        call_id: "tc_1",
        verdict: "edit",
        action: { call_id: "tc_2", tool_id: "t" },
        text: "not so",
        client: "desk",
      },
      "tc_1 edit by desk, tc_2 t runs instead: not so",
    ],
    ["feedback that was taken back", { kind: "feedback", turn: "turn_1" }, "feedback on turn_1: none"],
    [
      "tools of servers",
      { kind: "listed", tools: 3, until: "x", failed: ["a", "b"] },
      "3 tools of MCP servers listed until x, without a, b",
    ],
    ["a takeover", { kind: "takeover", reason: "lost", takeovers: 1 }, "taken over (lost), 1 so far"],
    ["a kind of a newer release", { kind: "telepathy" }, "telepathy"],
  ])("of %s is one line", (_, entry, line) => {
    expect(linesOf(entry)).toEqual([line]);
  });

  it("names the model and the reason if it was declined", () => {
    const declined = { category: "safety", explanation: "no" };
    const entry = { kind: "decision", iteration: 0, action: "exit", accepted: false, model: "m-1", declined };
    expect(linesOf(entry)).toEqual(["round 1: exit, declined by m-1 (safety no)"]);
  });

  it("shows hidden characters and stays on its line", () => {
    expect(linesOf({ kind: "titled", title: "a\u202eb\nc\u0007" })).toEqual(["title: a\ufffdb c␇"]);
  });
});
