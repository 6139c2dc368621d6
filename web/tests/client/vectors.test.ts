/** The same frames give the same result as in Python. `make docs` writes the files. */

import { describe, expect, it } from "vitest";
import { type ClientError, readFrame } from "../../src/client/index.ts";
import { type FoldVector, playFold, playSession, type SessionVector } from "./play.ts";

const FILES = import.meta.glob<string>("../../../tests/data/client/*.json", {
  eager: true,
  query: "?raw",
  import: "default",
});

function vectors<T>(name: string): T[] {
  const text = FILES[`../../../tests/data/client/${name}.json`];
  if (text === undefined) throw new Error(`no file ${name}.json`);
  return JSON.parse(text);
}

describe("a frame is read as in Python", () => {
  for (const { text, frame, fails } of vectors<{ text: string; frame?: unknown; fails?: string }>("wire")) {
    it(text || "an empty text", () => {
      if (fails === undefined) expect(readFrame(text)).toEqual(frame);
      else expect(() => readFrame(text)).toThrow(expect.objectContaining({ code: fails }) as ClientError);
    });
  }
});

describe("the fold gives the same result as Python's", () => {
  for (const vector of vectors<FoldVector>("rules")) {
    it(vector.name, () => {
      expect(playFold(vector)).toEqual(vector.steps);
    });
  }
});

describe("a session sends and reports the same as Python's, at the same time", () => {
  for (const vector of vectors<SessionVector>("sessions")) {
    it(vector.name, async () => {
      expect(await playSession(vector)).toEqual({ happens: vector.happens, state: vector.state });
    });
  }
});
