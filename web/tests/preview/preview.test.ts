// @vitest-environment happy-dom
import { h, render } from "preact";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { FileLink } from "../../src/api/index.ts";
import { DraftPreview, FilePreview } from "../../src/preview/index.ts";
import { kindOf } from "../../src/preview/kind.ts";
import { loadPicture } from "../../src/preview/load.ts";
import type { FileRow } from "../../src/thread/thread.ts";
import { eventually } from "../eventually.ts";
import { contextOf } from "../markdown/drawing.ts";

const PATH = "fi:turn_1.outputs/file";
const roots: HTMLElement[] = [];

afterEach(() => {
  for (const root of roots.splice(0)) render(null, root);
  vi.unstubAllGlobals();
});

function fileOf(filename: string, mime: string, sizeBytes = 100): FileRow {
  return { path: PATH, filename, mime, sizeBytes, sha256: "0", callId: "", turnId: "turn_1", times: 1 };
}

/** Show a file with these bytes. */
async function show(file: FileRow, bytes: string | null, said: Partial<FileLink> = {}) {
  const fetched = vi.fn(async () => (bytes === null ? new Response("", { status: 403 }) : new Response(bytes)));
  vi.stubGlobal("fetch", fetched);
  const open = vi.fn(async () => ({
    url: "https://files.example/x",
    expires_in_s: 60,
    mime: file.mime,
    size_bytes: file.sizeBytes,
    sha256: "0",
    ...said,
  }));
  const onClose = vi.fn();
  const root = document.createElement("div");
  roots.push(root);
  render(h(FilePreview, { file, open, onClose, context: contextOf() }), root);
  await eventually(() => expect(root.textContent).not.toContain("Loading"));
  return { root, open, fetched, onClose };
}

describe("a file that is being written", () => {
  const draft = { lane: "canvas.0", name: "outputs/a.md", format: "markdown", canvas: true, callId: "" };

  function write(text: string, name = draft.name, whole = false): HTMLElement {
    const root = roots.at(-1) ?? document.createElement("div");
    if (roots.length === 0) roots.push(root);
    const growing = { text, whole, aborted: "" };
    const onClose = () => undefined;
    render(h(DraftPreview, { draft: { ...draft, name, text: growing }, onClose, context: contextOf() }), root);
    return root;
  }

  it("is rendered as it grows", () => {
    expect(write("# Tit").querySelector("h3")?.textContent).toBe("Tit");
    const root = write("# Title\n\nText");
    expect(root.querySelector("h3")?.textContent).toBe("Title");
    expect(root.textContent).toContain("being written");
    expect(write("# Title\n\nText", draft.name, true).textContent).not.toContain("being written");
  });

  it("is shown as its source if it cannot be rendered before its end", () => {
    const root = write("<script>alert(1)</script>", "outputs/a.html");
    expect(root.querySelector("script, iframe")).toBeNull();
    expect(root.querySelector("pre")?.textContent).toContain("<script>alert(1)</script>");
  });
});

describe("a file's preview", () => {
  it("of a text shows its lines", async () => {
    const { root, open } = await show(fileOf("a.py", "text/x-python"), "import os\nprint(1)");
    expect(Array.from(root.querySelectorAll("pre > span"), (line) => line.textContent)).toEqual([
      "import os",
      "print(1)",
    ]);
    expect(open).toHaveBeenCalledWith(PATH, "preview");
  });

  it("of Markdown shows its elements, and its source on request", async () => {
    const { root } = await show(fileOf("a.md", "text/markdown"), "# Title\n\n<script>x</script>");
    expect(root.querySelector("h3")?.textContent).toBe("Title");
    expect(root.querySelector("script")).toBeNull();
    const source = Array.from(root.querySelectorAll("button")).find((button) => button.textContent === "Source");
    source?.click();
    await eventually(() => expect(root.querySelector("pre")?.textContent).toContain("# Title"));
  });

  it("of a table shows 200 rows, and all on request", async () => {
    const rows = Array.from({ length: 1_500 }, (_, i) => `${i},<b>${i}</b>,=1+1`).join("\n");
    const { root } = await show(fileOf("a.csv", "text/csv"), `n,html,formula\n${rows}`);
    expect(root.querySelectorAll("tbody tr")).toHaveLength(200);
    expect(root.querySelector("b")).toBeNull();
    const all = Array.from(root.querySelectorAll("button")).find(
      (button) => button.textContent === "Show all 1,500 rows",
    );
    all?.click();
    await eventually(() => expect(root.querySelectorAll("tbody tr")).toHaveLength(1_500));
  });

  it("of a picture is an image of a blob", async () => {
    const { root } = await show(fileOf("a\u202egnp.svg", "image/svg+xml"), "<svg onload=alert(1)></svg>");
    const image = root.querySelector("img");
    expect(image?.src).toMatch(/^blob:/);
    expect(image?.alt).toBe("a‹U+202E›gnp.svg");
    expect(root.querySelector("svg")).toBeNull();
  });

  it("of a file that the thread does not list uses the type of its link", async () => {
    const { root } = await show({ ...fileOf("roof.png", ""), sizeBytes: 0 }, "bytes", {
      mime: "image/png",
      size_bytes: 2048,
    });
    expect(root.querySelector("img")?.src).toMatch(/^blob:/);
    expect(root.querySelector(".num")?.textContent).toBe("2 KB");
  });

  it("of a PDF opens the browser's own viewer in a tab, with a separate link", async () => {
    const { root, open, fetched } = await show(fileOf("a.pdf", "application/pdf"), "x");
    const opened = vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(function (
      this: HTMLAnchorElement,
    ) {
      expect([this.href, this.target, this.rel]).toEqual(["https://files.example/x", "_blank", "noopener noreferrer"]);
    });
    const button = Array.from(root.querySelectorAll("button")).find(
      (one) => one.textContent === "Open the PDF in a new tab",
    );
    button?.click();
    await eventually(() => expect(opened).toHaveBeenCalledOnce());
    expect(open).toHaveBeenLastCalledWith(PATH, "preview");
    expect(fetched).not.toHaveBeenCalled();
    expect(root.querySelector("iframe, embed, object")).toBeNull();
  });

  it("of HTML is a frame without rights", async () => {
    const { root } = await show(fileOf("a.html", "text/html"), "<script>x</script>");
    const frame = root.querySelector("iframe");
    expect(frame?.getAttribute("src")).toBe("/frame.html");
    expect(frame?.getAttribute("sandbox")).toBe("allow-scripts");
    expect(frame?.getAttribute("srcdoc")).toBeNull();
    expect(root.querySelector("script")).toBeNull();
  });

  it.each([
    ["a.zip", "application/zip", 100, "no preview"],
    ["a.txt", "text/plain", 50_000_000, "Too large"],
    ["a.png", "image/png", 50_000_000, "Too large"],
    ["a.exe", "application/octet-stream", 100, "no preview"],
  ])("of %s is not fetched", async (name, mime, size, words) => {
    const { root, fetched, open } = await show(fileOf(name, mime, size), "x");
    expect(root.textContent).toContain(words);
    expect(fetched).not.toHaveBeenCalled();
    expect(open).not.toHaveBeenCalled();
  });

  it("that fails says so and can be retried", async () => {
    const { root, fetched } = await show(fileOf("a.txt", "text/plain"), null);
    expect(root.querySelector('[role="alert"]')?.textContent).toContain("could not be loaded");
    vi.stubGlobal("fetch", async () => new Response("now"));
    root.querySelector<HTMLButtonElement>(".again")?.click();
    await eventually(() => expect(root.querySelector("pre")?.textContent).toBe("now"));
    expect(fetched).toHaveBeenCalledTimes(1);
  });

  it("sends no cookie and follows no redirect", async () => {
    const { fetched } = await show(fileOf("a.txt", "text/plain"), "x");
    expect(fetched).toHaveBeenCalledWith(
      "https://files.example/x",
      expect.objectContaining({ credentials: "omit", redirect: "error" }),
    );
  });

  it("is closed by its button", async () => {
    const { root, onClose } = await show(fileOf("a.txt", "text/plain"), "x");
    Array.from(root.querySelectorAll("button"))
      .find((button) => button.textContent === "Close")
      ?.click();
    expect(onClose).toHaveBeenCalledOnce();
  });
});

describe("a picture within a thread", () => {
  const load = async (link: Partial<FileLink>, status = 200) => {
    const fetched = vi.fn(async () => new Response("bytes", { status }));
    vi.stubGlobal("fetch", fetched);
    const given = {
      url: "https://files.example/x",
      expires_in_s: 60,
      mime: "image/png",
      size_bytes: 9,
      sha256: "0",
      ...link,
    };
    const url = await loadPicture(async () => given, PATH, new AbortController().signal);
    return { url, fetches: fetched.mock.calls.length };
  };

  it("is a blob with an accepted picture type", async () => {
    const { url } = await load({ mime: "image/svg+xml" });
    expect(url).toMatch(/^blob:/);
    URL.revokeObjectURL(url);
  });

  it.each([
    ["too large", { size_bytes: 50_000_000 }],
    ["no picture", { mime: "text/html" }],
  ])("that is %s is not fetched", async (_, link) => {
    expect(await load(link)).toEqual({ url: "", fetches: 0 });
  });

  it("is omitted if it is not available", async () => {
    expect((await load({}, 403)).url).toBe("");
    expect(await loadPicture(() => Promise.reject(new Error("not_found")), PATH, new AbortController().signal)).toBe(
      "",
    );
  });
});

describe("the kind of a file", () => {
  it.each([
    ["text/plain; charset=utf-8", "a.md", "markdown"],
    ["text/plain", "a.html", "html"],
    ["text/html", "a.txt", "html"],
    ["image/png", "a.html", "image"],
    ["application/octet-stream", "a.json", "text"],
    ["", "README", "unknown"],
    ["image/tiff", "a.tiff", "unknown"],
    ["application/msword", "a.md", "unknown"],
    ["__proto__", "constructor", "unknown"],
  ])("%s, %s is %s", (mime, name, is) => {
    expect(kindOf(mime, name).is).toBe(is);
  });
});
