import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

interface Locked {
  readonly license?: string;
  readonly dev?: boolean;
  readonly link?: boolean;
}

const lock = JSON.parse(readFileSync(new URL("../package-lock.json", import.meta.url), "utf8"));
const packages = Object.entries(lock.packages as Record<string, Locked>);
const shipped = packages.filter(([name, { dev, link }]) => name.startsWith("node_modules/") && !dev && !link);

it("ships five packages, each under a licence that only requires its text", () => {
  expect(shipped.map(([name]) => name.replace("node_modules/", ""))).toEqual([
    "diff",
    "highlight.js",
    "marked",
    "preact",
    "temml",
  ]);
  for (const [name, { license }] of shipped) expect(["MIT", "BSD-3-Clause"], name).toContain(license);
});
