import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Attachments, type PendingFile } from "../../src/ui/attachments/attachments.ts";
import { ComposerModel } from "../../src/ui/composer/composer_model.ts";
import { keyOf, lengthOf, offerActs, type Situation, TEXT_MAX_CHARS } from "../../src/ui/composer/rules.ts";
import { ScriptedClock, settle } from "./scripted.ts";

const idle: Situation = {
  text: "go",
  files: 0,
  running: false,
  stopping: false,
  signedOut: false,
  blockedUntil: 0,
  nowMs: 1,
  uploads: true,
};
const running: Situation = { ...idle, running: true };

describe("the actions", () => {
  it("are only Send while nothing runs", () => {
    expect(offerActs(idle)).toEqual({ main: "send", canMain: true, redirect: false, canRedirect: false, stop: "none" });
  });

  it("are three while a turn runs", () => {
    const offer = offerActs(running);
    expect(offer).toEqual({ main: "add", canMain: true, redirect: true, canRedirect: true, stop: "stop" });
  });

  it("are only Stop without a text", () => {
    const offer = offerActs({ ...running, text: "  " });
    expect(offer).toMatchObject({ canMain: false, canRedirect: false, stop: "stop" });
  });

  it("show that a stop was sent", () => {
    expect(offerActs({ ...running, stopping: true }).stop).toBe("stopping");
  });

  it("are disabled while the server accepts no message, and when the user is signed out", () => {
    expect(offerActs({ ...running, blockedUntil: 2 })).toMatchObject({ canMain: false, canRedirect: false });
    expect(offerActs({ ...running, signedOut: true })).toMatchObject({ canMain: false, canRedirect: false });
  });

  it("let a message wait for its files, but not a redirect", () => {
    const waiting = { ...running, files: 1 };
    expect(offerActs(waiting)).toMatchObject({ canMain: true, canRedirect: false });
  });

  it("send files without a text", () => {
    expect(offerActs({ ...idle, text: "", files: 1 }).canMain).toBe(true);
  });

  it("send a long text if files can be uploaded, but never redirect with one", () => {
    const text = "a".repeat(TEXT_MAX_CHARS + 1);
    expect(offerActs({ ...running, text })).toMatchObject({ canMain: true, canRedirect: false });
    expect(offerActs({ ...running, text, uploads: false }).canMain).toBe(false);
  });
});

describe("the length of a text", () => {
  it("is hidden below nine tenths", () => {
    expect(lengthOf("a".repeat(20_000)).shown).toBe(false);
    expect(lengthOf("a".repeat(28_000))).toMatchObject({ shown: true });
  });

  it("counts bytes as they are sent", () => {
    expect(lengthOf("ü".repeat(15_500)).part).toBeGreaterThan(1);
    expect(lengthOf('"'.repeat(15_500)).part).toBeGreaterThan(1);
    expect(lengthOf("u".repeat(15_500)).part).toBeLessThan(1);
  });

  it("never grows when a text becomes shorter", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.nat(5_000), (piece, times) => {
        const text = piece.repeat(Math.min(times, Math.floor(60_000 / (piece.length + 1))));
        expect(lengthOf(text.slice(0, text.length / 2)).part).toBeLessThanOrEqual(lengthOf(`${text}a`).part);
      }),
      { numRuns: 50 },
    );
  });
});

describe("a key in the input", () => {
  const press = { key: "Enter", shiftKey: false, ctrlKey: false, metaKey: false, altKey: false };

  it("sends, breaks the line, or redirects", () => {
    expect(keyOf(press, false)).toBe("main");
    expect(keyOf({ ...press, shiftKey: true }, false)).toBe("newline");
    expect(keyOf({ ...press, ctrlKey: true }, false)).toBe("redirect");
    expect(keyOf({ ...press, metaKey: true }, false)).toBe("redirect");
  });

  it("restores the last message into an empty input only", () => {
    expect(keyOf({ ...press, key: "ArrowUp" }, true)).toBe("last");
    expect(keyOf({ ...press, key: "ArrowUp" }, false)).toBe("none");
  });
});

describe("a draft", () => {
  const clock = new ScriptedClock();

  function written(verdict: "ready" | "refused") {
    const sent: { text: string; files: readonly PendingFile[] }[] = [];
    const attachments = new Attachments({
      clock,
      measure: (file) => file.text(),
      begin: async (request) => ({ upload: `up_${request.filename}`, url: "", fields: {}, expires_in_s: 600 }),
      post: async () => undefined,
      status: async (upload) => ({ state: upload.endsWith(".exe") ? "refused" : verdict, reason: "malware" }),
    });
    const composer = new ComposerModel(attachments, (text, files) => sent.push({ text, files }));
    return { composer, sent };
  }

  it("is sent at once without files, and leaves an empty input", () => {
    const { composer, sent } = written("ready");
    composer.write("go");
    composer.submit();
    expect(sent).toEqual([{ text: "go", files: [] }]);
    expect(composer.draft.value.text).toBe("");
    expect(composer.holds).toBe(false);
  });

  it("waits for its files", async () => {
    const { composer, sent } = written("ready");
    composer.attachments.add([new File(["x"], "a.csv")]);
    composer.write("go");
    composer.submit();
    expect(composer.draft.value.waits).toBe(true);
    expect(sent).toEqual([]);
    await settle();
    expect(sent).toMatchObject([{ text: "go", files: [{ upload: "up_a.csv" }] }]);
    expect(composer.attachments.items).toEqual([]);
  });

  it("stays in the input if a file is refused meanwhile", async () => {
    const { composer, sent } = written("refused");
    composer.attachments.add([new File(["x"], "a.csv")]);
    composer.write("go");
    composer.submit();
    await settle();
    expect(sent).toEqual([]);
    expect(composer.draft.value).toMatchObject({ text: "go", waits: false });
    expect(composer.held.map((file) => file.name)).toEqual(["a.csv"]);
  });

  it("with a refused file says so once, and is sent without it by the next press", async () => {
    const { composer, sent } = written("ready");
    composer.attachments.add([new File(["x"], "a.csv"), new File(["y"], "tool.exe")]);
    await settle();
    composer.write("go");
    expect(composer.held).toEqual([]);
    composer.submit();
    expect(sent).toEqual([]);
    expect(composer.held.map((file) => file.name)).toEqual(["tool.exe"]);
    composer.write("go on");
    composer.submit();
    expect(sent).toMatchObject([{ text: "go on", files: [{ upload: "up_a.csv" }] }]);
    expect(composer.held).toEqual([]);
  });

  it("asks again for a file that was refused later", async () => {
    const { composer, sent } = written("ready");
    composer.attachments.add([new File(["y"], "tool.exe")]);
    await settle();
    composer.write("go");
    composer.submit();
    composer.attachments.add([new File(["z"], "other.exe")]);
    composer.submit();
    await settle();
    expect(sent).toEqual([]);
    expect(composer.held.map((file) => file.name)).toEqual(["tool.exe", "other.exe"]);
  });

  it("with only a refused file is not a message", async () => {
    const { composer, sent } = written("refused");
    composer.attachments.add([new File(["x"], "a.csv")]);
    await settle();
    composer.submit();
    composer.submit();
    expect(sent).toEqual([]);
    expect(composer.held).toHaveLength(1);
  });

  it("can be restored while it waits", () => {
    const { composer } = written("ready");
    composer.attachments.add([new File(["x"], "a.csv")]);
    composer.write("go");
    composer.submit();
    composer.edit();
    expect(composer.draft.value).toMatchObject({ text: "go", waits: false });
  });

  it("that is too long for a text shows why its file was refused", async () => {
    const { composer, sent } = written("refused");
    composer.write("long ".repeat(8_000));
    composer.submit();
    await settle();
    expect(sent).toEqual([]);
    expect(composer.draft.value).toMatchObject({ waits: false, refusal: { code: "malware" } });
    expect(composer.attachments.items).toEqual([]);
  });

  it("is sent as a file with its beginning if it is too long", async () => {
    const { composer, sent } = written("ready");
    composer.write(`${"long ".repeat(8_000)}end`);
    composer.submit();
    await settle();
    expect(sent[0]?.files).toMatchObject([{ name: "message.txt" }]);
    expect(sent[0]?.text.length).toBeLessThan(1_200);
    expect(sent[0]?.text).toContain("message.txt");
  });
});
