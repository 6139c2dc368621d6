/** For any order, loss and repetition of frames: the text is a prefix, and each batch is applied once, in order. */

import fc from "fast-check";
import { expect, it } from "vitest";
import {
  type ClientState,
  type Effect,
  emptyState,
  type Frame,
  foldFrame,
  isBehind,
  laneText,
  parseFrame,
  readExpiry,
  resumeRequest,
} from "../../src/client/index.ts";

const C = "c1";
const LETTERS = ["a", "é", "→", "🙂", "\u2028", "👩‍🚀"];
const BATCHES = 6;

const texts = fc.array(fc.constantFrom(...LETTERS), { minLength: 1, maxLength: 30 });
const cuts = fc.array(fc.integer({ min: 0, max: 60 }), { maxLength: 8 });
const picks = fc.array(fc.nat(), { maxLength: 60 });

function frame(value: object): Frame {
  const read = parseFrame({ conversation: C, ...value });
  if (!read) throw new Error("no frame");
  return read;
}

/** Return the frames of `text`, cut at any characters. */
function deltas(text: string, at: readonly number[]): Frame[] {
  const letters = [...text];
  const ends = [...new Set([0, ...at.map((cut) => cut % letters.length), letters.length])].sort((a, b) => a - b);
  return ends.slice(1).map((end, i) => {
    const off = ends[i] ?? 0;
    return frame({ frame: "delta", claim: 1, lane: "answer.0", off, text: letters.slice(off, end).join("") });
  });
}

function batch(n: number): Frame {
  return frame({ frame: "events", n, prev: n - 1, events: [{ type: "chat.step", route: "", ts: "" }] });
}

it("the text is a prefix of the original, its offset counts characters, and its effects add up to the text", () => {
  fc.assert(
    fc.property(texts, cuts, cuts, picks, (letters, one, other, order) => {
      const text = letters.join("");
      const sent = [...deltas(text, one), ...deltas(text, other)];
      let state = emptyState(C);
      let shown = "";
      const take = (next: Frame) => {
        const [folded, effects] = foldFrame(state, next);
        state = folded;
        for (const effect of effects) {
          if (effect.kind !== "textAppended") continue;
          expect(effect.off).toBe([...shown].length);
          shown += effect.text;
        }
        expect(text.startsWith(laneText(state, "answer.0"))).toBe(true);
        expect(shown).toBe(laneText(state, "answer.0"));
        expect(state.lanes.get("answer.0")?.end ?? 0).toBe([...shown].length);
      };
      for (const pick of order) take(sent[pick % sent.length] as Frame);
      const request = resumeRequest(state) as { stream?: { off: Record<string, number> } };
      const off = request.stream?.off["answer.0"] ?? 0;
      take(frame({ frame: "delta", claim: 1, lane: "answer.0", off, text: [...text].slice(off).join("") }));
      expect(shown).toBe(text);
      expect(isBehind(state)).toBe(false);
    }),
  );
});

it("each batch is applied once, and in the order of the log", () => {
  fc.assert(
    fc.property(picks, (order) => {
      let state: ClientState = emptyState(C);
      const applied: number[] = [];
      const take = (next: Frame) => {
        const [folded, effects]: readonly [ClientState, readonly Effect[]] = foldFrame(state, next);
        state = folded;
        for (const effect of effects) if (effect.kind === "eventsApplied") applied.push(effect.n);
      };
      for (const pick of order) take(batch((pick % BATCHES) + 1));
      expect(applied).toEqual(applied.map((_, i) => i + 1));
      for (let n = state.cursor + 1; n <= BATCHES; n += 1) take(batch(n));
      expect(applied).toEqual([1, 2, 3, 4, 5, 6]);
      expect(isBehind(state)).toBe(false);
    }),
  );
});

it("a fold leaves the previous state unchanged, and shares unchanged lanes", () => {
  const first = foldFrame(
    emptyState(C),
    frame({ frame: "delta", claim: 1, lane: "thinking.0", off: 0, text: "hm" }),
  )[0];
  const second = foldFrame(first, frame({ frame: "delta", claim: 1, lane: "answer.0", off: 0, text: "Hi" }))[0];
  expect([laneText(first, "answer.0"), laneText(second, "answer.0")]).toEqual(["", "Hi"]);
  expect(second.lanes.get("thinking.0")).toBe(first.lanes.get("thinking.0"));
});

it("a frame without news returns the same state object", () => {
  const [state] = foldFrame(emptyState(C), batch(1));
  expect(foldFrame(state, batch(1))[0]).toBe(state);
  expect(foldFrame(state, frame({ frame: "pong", n: 1 }))[0].newest).toBe(1);
});

it("a notice is an effect, and changes nothing", () => {
  const state = emptyState(C);
  const notice = frame({ frame: "notice", event: { type: "chat.attachments", route: "", ts: "" } });
  expect(foldFrame(state, notice)).toEqual([state, [{ kind: "noticeHeard", frame: notice }]]);
  expect(
    foldFrame(state, frame({ frame: "notice", conversation: "c2", event: { type: "t", route: "", ts: "" } })),
  ).toEqual([state, []]);
});

it("the expiry of a token is read if it has one, and left to the server otherwise", () => {
  const claims = { exp: 1_795_256_100, name: "Zoë >?~ 🙂" };
  const bytes = new TextEncoder().encode(JSON.stringify(claims));
  const payload = btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
  expect(readExpiry(`e30.${payload}.sig`)).toBe(1_795_256_100);
  for (const text of ["opaque", "", "a.b.c", "e30.e30.x"]) expect(readExpiry(text)).toBe(Number.POSITIVE_INFINITY);
});
