import { describe, expect, it, test } from "vitest";
import { type Branch, branchPoints, isOwn, messagesAgain, pointsByMessage } from "../../src/thread/branches.ts";
import type { Thread, Turn } from "../../src/thread/thread.ts";
import { done, message, thread } from "../gallery/build.ts";

let clock = 0;

function branch(conversation: string, origin = "", n = 0, lastActivityAt = 0): Branch {
  clock += 1;
  return { conversation, origin, n, title: "Herons", begunAt: clock, lastActivityAt };
}

/** The ways at each point, that of the conversation in brackets. */
function ways(branches: readonly Branch[], conversation: string): string[] {
  return branchPoints(branches, conversation).map(({ after, ways: all, at }) => {
    const names = all.map((way, i) => (i === at ? `[${way.join(" ")}]` : way.join(" ")));
    return `${after}: ${names.join(" | ")}`;
  });
}

describe("the branches of a conversation", () => {
  it("part at no point if there is one", () => {
    expect(ways([branch("a")], "a")).toEqual([]);
    expect(ways([], "a")).toEqual([]);
  });

  it("are numbered at their point with the origin first, then by age, in each of them alike", () => {
    const all = [branch("a"), branch("z", "a", 7), branch("b", "a", 7)];
    expect(ways(all, "a")).toEqual(["7: [a] | z | b"]);
    expect(ways(all, "z")).toEqual(["7: a | [z] | b"]);
    expect(ways(all, "b")).toEqual(["7: a | z | [b]"]);
  });

  it("part at the same point if one begins after the first batch of another", () => {
    const all = [branch("a"), branch("b", "a", 7), branch("c", "b", 8), branch("d", "c", 9)];
    expect(ways(all, "d")).toEqual(["7: a | b | c | [d]"]);
    expect(ways(all, "a")).toEqual(["7: [a] | b | c | d"]);
  });

  it("are found along the whole history, with every branch on the way that it goes", () => {
    const all = [branch("a", "", 0, 5), branch("b", "a", 7, 3), branch("c", "b", 20, 9), branch("d", "a", 3, 1)];
    expect(ways(all, "c")).toEqual(["3: [c a b] | d", "7: a | [c b]", "20: b | [c]"]);
    expect(ways(all, "a")).toEqual(["3: [c a b] | d", "7: [a] | c b"]);
    expect(ways(all, "d")).toEqual(["3: c a b | [d]"]);
  });

  it("have a point before the first message", () => {
    expect(ways([branch("a"), branch("b", "a", 0), branch("c", "b", 1)], "c")).toEqual(["0: a | b | [c]"]);
  });

  it("are shown without a member that the bounded list does not have", () => {
    expect(ways([branch("a"), branch("c", "missing", 20)], "c")).toEqual([]);
    expect(ways([branch("a"), branch("c", "missing", 20), branch("d", "missing", 20)], "c")).toEqual(["20: [c] | d"]);
  });
});

describe("a point", () => {
  const [first, second] = [message("One", { n: 1 }), message("Two", { n: 9 })];
  const turns = [asTurn(first, 1, 7), asTurn(second, 9, 15)];
  const of = (after: number) => ({ after, ways: [["a"], ["b"]], at: 0 });
  const placed = (shown: Thread, after: number) => [...pointsByMessage([of(after)], shown).keys()];

  it("is placed at the first message after it, with batches between or without", () => {
    expect(placed(thread(turns), 8)).toEqual([second.messageId]);
    expect(placed(thread(turns), 7)).toEqual([second.messageId]);
    expect(placed(thread(turns), 0)).toEqual([first.messageId]);
  });

  it("is placed at a message that arrived in a turn", () => {
    const added = { ...message("And?", { n: 5, kind: "followup", state: { is: "waiting" } }), after: 1 };
    expect(placed(thread([{ ...asTurn(first, 1, 7), messages: [added] }]), 4)).toEqual([added.messageId]);
  });

  it("is placed at the end of a branch that has no message yet", () => {
    expect(placed(thread(turns), 15)).toEqual([""]);
  });

  it("is placed nowhere while its page is not loaded", () => {
    const later = { ...thread([asTurn(second, 9, 15)]), turnsBefore: 1 };
    expect(placed(later, 4)).toEqual([]);
    expect(placed(later, 20)).toEqual([""]);
  });
});

test("the messages of a turn are sent again without redirects and those that were handed back", () => {
  const prompt = message("Go");
  const added = { ...message("More", { kind: "followup", state: { is: "read", iteration: 1 } }), after: 1 };
  const steer = { ...message("No", { kind: "steer" }), after: 1 };
  const dropped = { ...message("Late", { kind: "followup", state: { is: "dropped", reason: "stopped" } }), after: 1 };
  const turned: Turn = { ...asTurn(prompt, 1, 7), messages: [added, steer, dropped] };
  expect(messagesAgain(turned)).toEqual([prompt, added]);
  const foreign = { ...turned, prompts: [prompt, message("", { kind: "alert", source: "booking" })] };
  expect(messagesAgain(foreign)).toEqual([]);
});

test("a message can be edited if the user wrote it and the log has it", () => {
  expect(isOwn(message("Go"))).toBe(true);
  expect(isOwn(message("Go", { n: 0 }))).toBe(false);
  expect(isOwn(message("Go", { source: "booking" }))).toBe(false);
  expect(isOwn(message("", { kind: "form" }))).toBe(false);
});

function asTurn(prompt: ReturnType<typeof message>, openedN: number, closedN: number): Turn {
  return { ...done("", [], ""), prompts: [prompt], promptNs: [prompt.n], openedN, closedN };
}
