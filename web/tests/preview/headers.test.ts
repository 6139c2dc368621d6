import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import headers from "../../headers.json";

const frame = readFileSync(new URL("../../public/frame.html", import.meta.url), "utf8");

function policy(of: Record<string, string>): Map<string, string> {
  const parts = (of["Content-Security-Policy"] ?? "").split(";").map((part) => part.trim());
  return new Map(parts.map((part) => [part.split(" ", 1)[0] ?? "", part.slice(part.indexOf(" ") + 1)]));
}

describe("the headers of the page", () => {
  it("allow nothing inline, no eval, and no Trusted Types policy", () => {
    const page = policy(headers.page);
    expect(page.get("default-src")).toBe("'none'");
    expect(page.get("script-src")).toBe("'self'");
    expect(page.get("style-src")).toBe("'self'");
    expect(page.get("trusted-types")).toBe("'none'");
    expect(page.get("connect-src")).toBe("'self' {http} {socket} {issuer} {files}");
    expect(page.get("frame-ancestors")).toBe("'none'");
  });

  it("have unsafe-inline in one place: the styles of framed HTML", () => {
    const text = JSON.stringify(headers);
    expect(text.match(/unsafe-[a-z-]+/g)).toEqual(["unsafe-inline"]);
    expect(policy(headers.frame).get("style-src")).toBe("'unsafe-inline'");
  });
});

describe("the frame of HTML documents", () => {
  const scripts = [...frame.matchAll(/<script>(.*?)<\/script>/gs)].map((found) => found[1] ?? "");

  it("has one script, and its hash is in the policy", () => {
    expect(frame.match(/<script/g)).toHaveLength(1);
    const hash = createHash("sha256")
      .update(scripts[0] ?? "")
      .digest("base64");
    expect(policy(headers.frame).get("script-src")).toBe(`'sha256-${hash}'`);
  });

  it("keeps its policy, except for header-only parts, if a server sends no headers", () => {
    const written = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(frame)?.[1] ?? "";
    const rules = policy(headers.frame);
    for (const name of ["sandbox", "frame-ancestors"]) rules.delete(name);
    expect(policy({ "Content-Security-Policy": written })).toEqual(rules);
  });

  it("has an opaque origin, no network, and an inner frame without any rights", () => {
    const rules = policy(headers.frame);
    expect(rules.get("sandbox")).toBe("allow-scripts");
    expect(rules.get("default-src")).toBe("'none'");
    expect(rules.get("img-src")).toBe("data: blob:");
    expect(rules.get("frame-ancestors")).toBe("'self'");
    expect(frame).toContain('<iframe sandbox=""');
  });
});

describe("the pages of a bundle", () => {
  it("run their own scripts without an origin or a network", () => {
    const rules = policy(headers.bundle);
    expect(rules.get("sandbox")).toBe("allow-scripts");
    expect(rules.get("connect-src")).toBe("'none'");
    expect(rules.get("form-action")).toBe("'none'");
    expect(rules.get("script-src")).toBe("'self'");
  });
});
