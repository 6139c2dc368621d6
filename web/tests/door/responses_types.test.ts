/** Every response of every story, judged by the types of PyPI: at night, since they are installed first. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { effectsOf } from "../thread/recordings.ts";
import { eventsOf, FACTS } from "./response_reader.ts";
import { KILLED, STORIES, turnsOf } from "./stories.ts";

const PACKAGES = ["openresponses-types==2.4.0", "openai==3.57.0"];

/** The accepted findings: a part of the message, and the reason. */
const FINDINGS: Readonly<Record<string, string>> = {
  "error.code": "the code of a turn that fails is ours",
};

interface Finding {
  readonly reading: string;
  readonly type: string;
  readonly message: string;
}

function judge(readings: readonly { name: string; events: readonly object[] }[]): Finding[] {
  const folder = mkdtempSync(join(tmpdir(), "stepline-responses-"));
  try {
    execFileSync("python", ["-m", "pip", "install", "-q", "--target", folder, ...PACKAGES], { stdio: "ignore" });
    const input = readings.map((reading) => `${JSON.stringify(reading)}\n`).join("");
    const script = new URL("../../../tests/support/judge_responses.py", import.meta.url).pathname;
    const env = { ...process.env, PYTHONPATH: folder };
    const found = execFileSync("python", [script], { input, encoding: "utf8", maxBuffer: 2 ** 30, env });
    return found.split("\n").flatMap((line) => (line ? [JSON.parse(line)] : []));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

it.skipIf(process.env.STEPLINE_TIER !== "nightly")(
  "the published types find nothing beside the accepted findings",
  () => {
    const leftOut = [{ code: "unsupported_tool", param: "tools[0]", name: "weather" }] as const;
    const readings = [...STORIES, ...KILLED].flatMap(({ name, frames }) =>
      turnsOf(frames).map((turn) => {
        return { name: `${name}, ${turn}`, events: eventsOf(effectsOf(frames), turn, { ...FACTS, leftOut }) };
      }),
    );
    const found = judge(readings);
    const isKnown = ({ message }: Finding) => Object.keys(FINDINGS).some((part) => message.includes(part));
    expect(found.filter((one) => !isKnown(one))).toEqual([]);
    expect(found.length).toBeGreaterThan(0);
  },
  600_000,
);
