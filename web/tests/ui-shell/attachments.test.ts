import { beforeEach, describe, expect, it } from "vitest";
import { ApiError, type UploadRequest, type UploadStatus } from "../../src/api/index.ts";
import { Attachments, MAX_BYTES, type Ports, refusedOf } from "../../src/ui/attachments/attachments.ts";
import { ScriptedClock, settle } from "./scripted.ts";

let clock: ScriptedClock;
let verdicts: Map<string, UploadStatus[]>;
let begun: string[];
let asked: UploadRequest[];
let posts: { name: string; progress: (part: number) => void; done: () => void; fail: (error: Error) => void }[];
let refusals: ApiError[];

function ports(): Ports {
  return {
    clock,
    measure: (file) => file.text(),
    begin: async (request) => {
      begun.push(request.filename);
      asked.push(request);
      const refusal = refusals.shift();
      if (refusal) throw refusal;
      return { upload: `up_${request.filename}`, url: "https://bucket", fields: {}, expires_in_s: 600 };
    },
    post: (_grant, file, _signal, progress) =>
      new Promise((resolve, reject) => {
        posts.push({ name: file.name, progress, done: resolve, fail: reject });
      }),
    status: async (upload) => verdicts.get(upload)?.shift() ?? { state: "checking" },
  };
}

function file(name: string, text = name, size?: number): File {
  const made = new File([text], name);
  if (size !== undefined) Object.defineProperty(made, "size", { value: size });
  return made;
}

const states = (attachments: Attachments) => attachments.items.map((item) => item.state);

/** Let a posted upload get its verdict. */
async function judge(at: number, verdict: UploadStatus): Promise<void> {
  const post = posts[at];
  verdicts.set(`up_${post?.name}`, [{ state: "waiting" }, { state: "checking" }, verdict]);
  post?.done();
  for (let look = 0; look < 4; look += 1) {
    await settle();
    clock.pass(2_000);
  }
  await settle();
}

beforeEach(() => {
  clock = new ScriptedClock();
  verdicts = new Map();
  [begun, asked, posts, refusals] = [[], [], [], []];
});

describe("a file", () => {
  it("is hashed, uploaded, checked, and then ready", async () => {
    const attachments = new Attachments(ports());
    attachments.add([file("a.csv")]);
    expect(states(attachments)).toEqual(["hashing"]);
    await settle();
    expect(states(attachments)).toEqual(["uploading"]);
    posts[0]?.progress(0.5);
    expect(attachments.items[0]?.progress).toBe(0.5);
    posts[0]?.done();
    await settle();
    expect(states(attachments)).toEqual(["checking"]);
    await judge(0, { state: "ready" });
    expect(attachments.items[0]).toMatchObject({ state: "ready", upload: "up_a.csv" });
  });

  it.each(["", "video/mp2t", "application/vnd.ms-excel"])(
    "is named without the type %j that a browser guesses",
    async (type) => {
      const attachments = new Attachments(ports());
      attachments.add([new File(["let a;"], "index.ts", { type })]);
      await settle();
      expect(asked).toEqual([{ filename: "index.ts", size_bytes: 6, sha256: "let a;" }]);
    },
  );

  it("is refused with the reasons of the verdict, and the others continue", async () => {
    const attachments = new Attachments(ports());
    attachments.add([file("a.docx"), file("b.csv")]);
    await settle();
    const refused = { state: "refused", reason: "preflight_rejected", reasons: ["ooxml_macros"] } as const;
    await judge(0, refused);
    expect(attachments.items[0]).toMatchObject({ state: "refused", reasons: ["ooxml_macros"] });
    await judge(1, { state: "ready" });
    expect(states(attachments)).toEqual(["refused", "ready"]);
    expect(refusedOf(attachments.items)).toHaveLength(1);
  });

  it("expires if it was not posted in time, and can be retried", async () => {
    const attachments = new Attachments(ports());
    attachments.add([file("a.csv")]);
    await settle();
    await judge(0, { state: "refused", reason: "upload_expired" });
    expect(states(attachments)).toEqual(["expired"]);
    attachments.retry(attachments.items[0]?.id ?? 0);
    await settle();
    expect(states(attachments)).toEqual(["uploading"]);
    await judge(1, { state: "ready" });
    expect(states(attachments)).toEqual(["ready"]);
  });

  it("is refused with the code of the API if it gets no slot", async () => {
    refusals.push(new ApiError({ status: 400, code: "type_not_allowed", detail: "no" }));
    const attachments = new Attachments(ports());
    attachments.add([file("a.exe")]);
    await settle();
    expect(attachments.items[0]).toMatchObject({ state: "refused", code: "type_not_allowed" });
  });

  it("is not uploaded if it is too large", async () => {
    const attachments = new Attachments(ports());
    attachments.add([file("a.csv", "a", MAX_BYTES + 1)]);
    await settle();
    expect(attachments.items[0]).toMatchObject({ state: "refused", code: "size_limit" });
    expect(begun).toEqual([]);
  });

  it("stays removed whatever happens to its upload", async () => {
    const attachments = new Attachments(ports());
    attachments.add([file("a.csv")]);
    await settle();
    attachments.remove(attachments.items[0]?.id ?? 0);
    posts[0]?.done();
    await settle();
    expect(attachments.items).toEqual([]);
  });
});

describe("several files", () => {
  it("upload four at a time", async () => {
    const attachments = new Attachments(ports());
    attachments.add(["a", "b", "c", "d", "e"].map((name) => file(name)));
    await settle();
    expect(states(attachments)).toEqual(["uploading", "uploading", "uploading", "uploading", "queued"]);
    await judge(0, { state: "ready" });
    expect(states(attachments)).toEqual(["ready", "uploading", "uploading", "uploading", "uploading"]);
  });

  it("with the same content upload once", async () => {
    const attachments = new Attachments(ports());
    attachments.add([file("a.csv", "same"), file("b.csv", "same")]);
    await settle();
    expect(attachments.items.map((item) => item.name)).toEqual(["a.csv"]);
    expect(begun).toEqual(["a.csv"]);
    expect(attachments.store.value.notice).toEqual({ is: "same", name: "b.csv", as: "a.csv" });
  });

  it("are at most twenty", () => {
    const attachments = new Attachments(ports());
    attachments.add(Array.from({ length: 22 }, (_, at) => file(`${at}`)));
    expect(attachments.items).toHaveLength(20);
    expect(attachments.store.value.notice).toEqual({ is: "too_many", left: 2 });
  });
});
