/** The client core is independent: it can be packed unchanged, and runs wherever JavaScript does. */

import { describe, expect, it } from "vitest";

const SOURCES = import.meta.glob<string>("../../src/client/*.ts", { eager: true, query: "?raw", import: "default" });

/** Globals of a browser or Node beyond the language. Time, sockets and random numbers are injected. */
const GLOBALS = [
  ...["window", "document", "navigator", "location", "WebSocket", "fetch", "localStorage", "sessionStorage", "crypto"],
  ...["setTimeout", "setInterval", "requestAnimationFrame", "performance", "Date", "process", "Buffer", "console"],
  ...["TextEncoder", "TextDecoder", "atob", "btoa", "globalThis", "self", "structuredClone", "queueMicrotask"],
];

/** Return a source without its comments and strings. */
function code(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\/|\/\/.*|"[^"\n]*"|`[^`]*`/g, "");
}

describe.each(Object.entries(SOURCES))("%s", (_path, source) => {
  it("imports only modules next to it", () => {
    const imported = [...source.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map(([, from]) => from);
    expect(imported.filter((from) => !/^\.\/[a-z_]+\.ts$/.test(from ?? ""))).toEqual([]);
  });

  it("uses no global of a browser or of Node", () => {
    const used = GLOBALS.filter((name) => new RegExp(`(?<![.\\w#])${name}(?![\\w:])`).test(code(source)));
    expect(used).toEqual([]);
  });
});

it("this test covers every module", () => {
  expect(Object.keys(SOURCES).length).toBeGreaterThan(10);
});
