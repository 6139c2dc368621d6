/** A turn comes to the same for every MCP client: one that saw it, one that was cut off, one that asks for a task later. */

import { isCallToolResult } from "@modelcontextprotocol/client";
import { isDetailedTaskV2 } from "@modelcontextprotocol/ext-tasks/core/v2";
import { afterEach, expect, it, vi } from "vitest";
import { turnResult } from "../../packages/serve/mcp/tool_result.ts";
import { MCP, type TurnOutcome } from "../../packages/serve/mcp/turn_outcome.ts";
import { effectsOf } from "../thread/recordings.ts";
import { modern } from "./mcp_client.ts";
import { Served } from "./served.ts";
import { cutsOf, SERVED } from "./served_turns.ts";
import { distinct, KILLED, render, STORIES, turnsOf } from "./stories.ts";

afterEach(() => {
  vi.unstubAllGlobals();
});

it.each([...STORIES, ...KILLED])("$name: every cut comes to the same", ({ frames }) => {
  for (const turn of turnsOf(frames)) {
    const whole = render(MCP, effectsOf(frames), turn).at(-1) as TurnOutcome;
    expect(isCallToolResult(turnResult("c-1", whole))).toBe(true);
    for (const [outcomes, cut] of distinct(frames, (effects) => render(MCP, effects, turn))) {
      expect(outcomes.at(-1), `${turn}, ${cut}`).toEqual(whole);
    }
  }
});

it("a task is the same at every server, from its message to its result", async () => {
  for (const { name, frames, begin, turn, message } of SERVED) {
    const whole = render(MCP, effectsOf(frames), turn).at(-1) as TurnOutcome;
    for (const cut of [...cutsOf({ name, frames, begin, turn, message }), frames.length]) {
      if (cut <= begin) continue; // the message is not in the log
      const server = await Served.at(frames, cut);
      const task = await modern(server, "tasks/get", { taskId: `c-1.${message.id}` });
      const place = `${name}, after ${cut}`;
      expect(isDetailedTaskV2(task), `${place}: ${JSON.stringify(task)}`).toBe(true);
      if (cut < frames.length) expect(["working", "completed"], place).toContain(task.status);
      else if (whole.reason === "stop") expect(task.status, place).toBe("cancelled");
      else expect(task, place).toMatchObject({ status: "completed", result: turnResult("c-1", whole) });
      await server.end();
      vi.unstubAllGlobals();
    }
  }
}, 600_000);
