import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

interface Locked {
  readonly license?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

const lock = JSON.parse(readFileSync(new URL("../package-lock.json", import.meta.url), "utf8"));
const packages = lock.packages as Readonly<Record<string, Locked>>;

/** Return the packages that a package depends on, and theirs. The doors' packages are no part of the page. */
function below(name: string): [name: string, found: Locked][] {
  return Object.keys(packages[name]?.dependencies ?? {}).flatMap((one) => {
    const found = `node_modules/${one}`;
    return [[found, packages[found] ?? {}] as [string, Locked], ...below(found)];
  });
}

const shipped = below("");

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
