// @vitest-environment happy-dom
import { render } from "preact";
import { expect, test } from "vitest";
import { AttachmentList } from "../../src/ui/attachments/attachment_list.tsx";
import type { Attachments } from "../../src/ui/attachments/attachments.ts";
import { readoutText } from "../../src/ui/bar/readout.ts";
import { Store } from "../../src/ui/store/store.ts";
import { call, round, thread, turn } from "../gallery/build.ts";

test("the readout shows hidden characters of a tool's name", () => {
  const acting = round(0, "I call it.", { calls: [call("mail\u202e.send", { state: "running" })], state: "acting" });
  expect(readoutText(thread([turn("Hello", [acting])]), false, 0)).toBe("round 1 · mail‹U+202E›.send");
});

test("a file's name shows its hidden characters everywhere", () => {
  const file = { id: 1, name: "bill\u202egpj.exe", mime: "", sizeBytes: 1, progress: 0.5, upload: "", reasons: [] };
  const items = [{ ...file, state: "uploading", code: "", message: "" }];
  const root = document.createElement("div");
  render(
    <AttachmentList attachments={{ store: new Store({ items, notice: { is: "" } }) } as unknown as Attachments} />,
    root,
  );
  expect(root.innerHTML).toContain("bill‹U+202E›gpj.exe");
  expect(root.innerHTML).not.toContain("\u202e");
});
