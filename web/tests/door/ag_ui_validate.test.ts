/** Every run of every story, judged by `ag-ui-validate` of PyPI: at night, since it is installed first. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Event, EventType } from "@ag-ui/client";
import { afterEach, expect, it, vi } from "vitest";
import { SteplineAgent } from "../../packages/ag-ui/index.ts";
import { effectsOf, named } from "../thread/recordings.ts";
import { runOf } from "./readers.ts";
import { KILLED, STORIES, turnsOf } from "./stories.ts";
import { StoryStage } from "./story_stage.ts";

const PACKAGE = "ag-ui-validate==0.4.0";

/** The accepted findings: the rule, and the reason. */
const FINDINGS: Readonly<Record<string, string>> = {
  AGUI902: "a timestamp is optional, and a position in the log orders the events",
};

const JUDGE = `
import json, sys
from ag_ui_validate import create_validator
for line in sys.stdin:
    run = json.loads(line)
    validator = create_validator()
    for event in run["events"]:
        validator.feed(event)
    validator.finalize()
    report = validator.report()
    assert report.event_count == len(run["events"]) and not report.internal_errors
    for finding in report.diagnostics:
        print(json.dumps({"run": run["name"], "rule": finding.rule, "message": finding.message}))
`;

interface Run {
  readonly name: string;
  readonly events: readonly Event[];
}

interface Finding {
  readonly run: string;
  readonly rule: string;
  readonly message: string;
}

function judge(runs: readonly Run[]): Finding[] {
  const folder = mkdtempSync(join(tmpdir(), "stepline-ag-ui-"));
  try {
    execFileSync("python", ["-m", "pip", "install", "-q", "--no-deps", "--target", folder, PACKAGE]);
    writeFileSync(join(folder, "judge.py"), JUDGE);
    const input = runs.map((run) => `${JSON.stringify(run)}\n`).join("");
    const found = execFileSync("python", [join(folder, "judge.py")], { input, encoding: "utf8", maxBuffer: 2 ** 30 });
    return found.split("\n").flatMap((line) => (line ? [JSON.parse(line)] : []));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

afterEach(() => {
  vi.unstubAllGlobals();
});

/** Return the runs of a story that an agent begins, that a page continues, and that answer its interrupt. */
async function runsOf(name: string): Promise<readonly Run[]> {
  const stage = new StoryStage(named(name));
  const runs: { name: string; events: Event[] }[] = [];
  const agent = new SteplineAgent({ url: stage.url, conversation: stage.conversation, token: "a.b.c" });
  agent.subscribe({
    onRunInitialized: () => void runs.push({ name: `${name}, run ${runs.length}`, events: [] }),
    onEvent: ({ event }) => void runs.at(-1)?.events.push(event as Event),
  });
  agent.addMessage({ id: "m1", role: "user", content: "go" });
  const asked = agent.runAgent();
  await stage.playPast("approval.requested");
  await asked;
  await agent.connectAgent();
  const [interrupt] = agent.pendingInterrupts;
  agent.pendingInterrupts = agent.pendingInterrupts.map((one) => ({ ...one, expiresAt: "2100-01-01T00:00:00Z" }));
  const payload = { approved: true };
  const done = agent.runAgent({ resume: [{ interruptId: interrupt?.id ?? "", status: "resolved", payload }] });
  await stage.play();
  await done;
  await agent.connectAgent();
  return runs;
}

it.skipIf(process.env.STEPLINE_TIER !== "nightly")(
  "the published validator finds nothing beside the accepted findings",
  async () => {
    const open = (events: readonly Event[]) => {
      const { type } = events.at(-1) as Event;
      return type !== EventType.RUN_FINISHED && type !== EventType.RUN_ERROR;
    };
    const runs = [...STORIES, ...KILLED].flatMap(({ name, frames }) =>
      turnsOf(frames).map((turn): Run => ({ name: `${name}, ${turn}`, events: runOf(effectsOf(frames), turn) })),
    );
    const answered = await Promise.all(["a call that is approved"].map(runsOf));
    const whole = [...runs, ...answered.flat()].filter(({ events }) => !open(events));
    expect(whole.length).toBeGreaterThan(STORIES.length);
    const found = judge(whole);
    expect(found.filter(({ rule }) => !(rule in FINDINGS))).toEqual([]);
    expect(new Set(found.map(({ rule }) => rule))).toEqual(new Set(Object.keys(FINDINGS)));
  },
  600_000,
);
