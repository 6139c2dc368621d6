import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { conversationOf, formatRoute, nameConversation, parseRoute, type Route } from "../../src/ui/route.ts";

const TURN = "turn_20261125T090000_ab12cd";

function parse(address: string): Route | null {
  const [path = "", query = ""] = address.split("?");
  return parseRoute(path, query);
}

describe("an address", () => {
  it.each([
    "/",
    "/c/chat-one",
    `/c/chat-one/t/${TURN}`,
    `/c/chat-one/t/${TURN}/r/3`,
    `/c/chat-one/t/${TURN}/r/3/tc/tc_0123456789ab`,
    `/c/chat-one/t/${TURN}/tc/tc_0123456789ab`,
    `/c/chat-one/f/fi%3A${TURN}.files/sales%20of%20%C3%BCs.csv`,
    `/c/chat-one/timeline/${TURN}/2`,
    `/c/chat-one/timeline/${TURN}/2?view=diff&to=${TURN}.1`,
    "/search?q=prompt+caching",
    "/bundle/docs",
    "/callback",
    "/signed-out",
  ])("%s parses to a route with the same address", (address) => {
    const route = parse(address);
    expect(route && formatRoute(route)).toBe(address);
  });

  it.each([
    "/nowhere",
    "/c",
    "/c/-one",
    "/c/chat one",
    `/c/chat-one/t/turn`,
    `/c/chat-one/t/${TURN}/r/0`,
    `/c/chat-one/timeline/${TURN}`,
    "/c/chat-one/x",
    "/search/more",
    "/%E0%A4%A",
  ])("%s is an unknown address", (address) => {
    expect(parse(address)).toBeNull();
  });

  it("counts rounds from 1 where events count from 0", () => {
    expect(parse(`/c/a/t/${TURN}/r/1`)).toMatchObject({ place: { iteration: 0 } });
    expect(parse(`/c/a/timeline/${TURN}/3`)).toMatchObject({ iteration: 2 });
  });

  it("keeps any path of a file", () => {
    const name = fc.string({ minLength: 1, unit: "grapheme" }).filter((text) => !/^[/.]+$|\/\/|^\/|\/$/.test(text));
    fc.assert(
      fc.property(name, (file) => {
        const route: Route = { is: "thread", conversation: "a", place: null, file };
        expect(parse(formatRoute(route).replaceAll("?", "%3F"))).toEqual(route);
      }),
    );
  });

  it("keeps any words of a search", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), (query) => {
        const [path = "", asked = ""] = formatRoute({ is: "search", query }).split("?");
        expect(parseRoute(path, asked)).toEqual({ is: "search", query });
      }),
    );
  });
});

it("the search shows no conversation", () => {
  expect(conversationOf({ is: "search", query: "x" })).toBe("");
});

it("a new conversation is named chat- and 20 random characters", () => {
  const names = new Set(Array.from({ length: 50 }, () => nameConversation((bytes) => crypto.getRandomValues(bytes))));
  expect(names.size).toBe(50);
  for (const name of names) expect(name).toMatch(/^chat-[a-z0-9]{20}$/);
});
