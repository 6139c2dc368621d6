/** Responses of a server of doors, cut off and resumed, waited for and polled, end with the same items. */

import { createHash } from "node:crypto";
import { afterEach, expect, it, vi } from "vitest";
import { responseId } from "../../packages/serve/responses/response_id.ts";
import { eventually } from "../eventually.ts";
import { effectsOf } from "../thread/recordings.ts";
import { eventsOf, FACTS, ResponseReader, readResponse, readStream } from "./response_reader.ts";
import { Served } from "./served.ts";
import { cutsOf, SERVED, type ServedTurn } from "./served_turns.ts";

afterEach(() => {
  vi.unstubAllGlobals();
});

/** Return the id that the server gives to the message of a request with this key. */
function messageOf(key: string): string {
  return `m_${createHash("sha256").update(key).digest("hex").slice(0, 32)}`;
}

async function checkTurn({ name, turn, frames, begin, message }: ServedTurn, cut: number, isLeft: boolean) {
  const key = message.id;
  const facts = { ...FACTS, name: { ...FACTS.name, id: messageOf(key) } };
  const id = responseId(facts.name);
  const events = eventsOf(effectsOf(frames), turn, facts);
  const { shown: expected, isInOrder } = readResponse(events);
  const server = await Served.at(frames, begin);
  server.stage.rename(message.id, messageOf(key));
  const left = new AbortController();
  const body = { input: [{ role: "user", content: message.text }], conversation: "c-1", stream: true };
  const headers = { "Idempotency-Key": key };
  const posted = server.post("/v1/responses", body, { headers, signal: left.signal });
  const first = new ResponseReader();
  const cutOff = posted.then((one) => readStream(first, one)).catch(() => false);
  await server.stage.play(cut);
  const count = readResponse(eventsOf(effectsOf(frames.slice(0, cut)), turn, facts)).sequence;
  if (cut > begin) await eventually(() => expect(first.sequence).toBeGreaterThanOrEqual(count));
  if (isLeft) left.abort();
  else await server.replace();
  const wasOver = first.isOver;
  expect(await cutOff, `${name}, cut at ${cut}`).toBe(wasOver);
  const hasBegun = server.stage.asked("send").length > 0 && cut > begin;
  const late = hasBegun
    ? server.fetch(`/v1/responses/${id}?stream=true`)
    : server.post("/v1/responses", body, { headers });
  const isResumed = hasBegun && isInOrder && !wasOver;
  const rest = `?stream=true&starting_after=${first.sequence}`;
  const again = new ResponseReader();
  const readings = [
    readStream(again, await late),
    isResumed && readStream(first, await server.fetch(`/v1/responses/${id}${rest}`)),
  ];
  await server.stage.play();
  await Promise.all(readings);
  return { server, id, expected, again, first: isResumed ? first : null };
}

it("a response that is cut off ends with the same items, resumed, read again and polled", async () => {
  let resumed = 0;
  for (const served of SERVED) {
    for (const [place, cut] of cutsOf(served).entries()) {
      const { server, id, expected, again, first } = await checkTurn(served, cut, place % 2 > 0);
      const when = `${served.name}, cut at ${cut}`;
      expect(again.shown, when).toEqual(expected);
      if (first) expect(first.shown, when).toEqual(expected);
      resumed += first ? 1 : 0;
      const polled = new ResponseReader();
      polled.response = await (await server.fetch(`/v1/responses/${id}`)).json();
      expect(polled.shown, when).toEqual(expected);
      await server.end();
      vi.unstubAllGlobals();
    }
  }
  expect(resumed).toBeGreaterThan(SERVED.length / 2);
}, 600_000);
