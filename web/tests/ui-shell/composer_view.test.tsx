// @vitest-environment happy-dom
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Composer } from "../../src/ui/composer/composer.tsx";
import { Conversation, type Services } from "../../src/ui/store/conversation.ts";
import { ending, opening, ScriptedClock, ScriptedSocket } from "./scripted.ts";

let root: HTMLElement;
let socket: ScriptedSocket;
let conversation: Conversation;

function services(): Services {
  const nothing = () => Promise.reject(new Error("nothing there"));
  return {
    clock: new ScriptedClock(Date.now()),
    dial: socket.dial,
    credential: { expiresAtS: () => Number.POSITIVE_INFINITY, ticket: async () => "t" },
    timezone: "",
    frame: (run) => run(),
    api: { readEvents: nothing, beginUpload: nothing, getUpload: nothing },
    measure: nothing,
    post: nothing,
    unreadN: () => 0,
    said: () => undefined,
    usageChanged: () => undefined,
    gone: () => undefined,
    onFeed: () => undefined,
  };
}

function draw(signedOut = false): void {
  act(() => render(<Composer conversation={conversation} uploads signedOut={signedOut} />, root));
}

const buttons = () =>
  [...root.querySelectorAll("button")]
    .filter((button) => button.textContent)
    .map((button) => [button.firstChild?.textContent || button.childNodes[1]?.textContent, button.disabled]);

function press(key: string, more: KeyboardEventInit = {}): void {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });
  act(() => void root.querySelector("textarea")?.dispatchEvent(event));
}

function write(text: string): void {
  act(() => conversation.composer.write(text));
}

beforeEach(() => {
  root = document.createElement("div");
  document.body.append(root);
  socket = new ScriptedSocket();
  conversation = new Conversation("chat-one", services(), true);
  conversation.show();
  socket.accept();
});

afterEach(() => {
  act(() => render(null, root));
  root.remove();
});

describe("the composer", () => {
  it("offers Send once it has a text", () => {
    draw();
    expect(buttons()).toEqual([["Send", true]]);
    write("go");
    expect(buttons()).toEqual([["Send", false]]);
  });

  it("sends on Enter, and is empty afterwards", () => {
    draw();
    write("go");
    press("Enter");
    expect(socket.asked("send")).toMatchObject([{ text: "go" }]);
    expect(root.querySelector("textarea")?.value).toBe("");
  });

  it("offers three actions while a turn runs, and one after it", () => {
    draw();
    act(() => socket.say(opening("m1", "go")));
    write("more");
    expect(buttons()).toEqual([
      ["Stop", false],
      ["Redirect", false],
      ["Add", false],
    ]);
    act(() => socket.say(ending(2, "Done.")));
    expect(buttons()).toEqual([["Send", false]]);
  });

  it("redirects on Ctrl Enter, and stops by its button", () => {
    draw();
    act(() => socket.say(opening("m1", "go")));
    write("shorter");
    press("Enter", { ctrlKey: true });
    expect(socket.asked("event")).toMatchObject([{ kind: "steer", payload: { text: "shorter" } }]);
    act(() => root.querySelector<HTMLButtonElement>("button.stop")?.click());
    expect(socket.asked("event").at(-1)).toMatchObject({ kind: "stop" });
    expect(root.querySelector("button.stop")?.textContent).toContain("Stopping…");
  });

  it("restores the last message into an empty input", () => {
    draw();
    write("go");
    press("Enter");
    press("ArrowUp");
    expect(root.querySelector("textarea")?.value).toBe("go");
  });

  it("shows how long the server accepts no message", () => {
    draw();
    write("go");
    press("Enter");
    const messageId = String(socket.asked("send")[0]?.message_id);
    const refusal = { frame: "error", code: "rate_limited", message: "", message_id: messageId };
    act(() => socket.say({ ...refusal, conversation: "chat-one", retry_after_s: 40, retryable: true }));
    write("again");
    expect(root.querySelector(".hint")?.textContent).toMatch(/^try again in (39|40) s$/);
    expect(buttons()).toEqual([["Send", true]]);
  });

  it("shows the remaining length of a long message", () => {
    draw();
    write("a".repeat(29_000));
    expect(root.querySelector(".hint")?.textContent).toMatch(/left$/);
    write("a".repeat(40_000));
    expect(root.querySelector(".hint")?.textContent).toMatch(/over the limit: will be sent as message.txt$/);
  });

  it("shows next to Send why a file was refused, and sends without it on the next press", () => {
    draw();
    const large = new File([], "film.mov");
    Object.defineProperty(large, "size", { value: 30_000_000 });
    act(() => conversation.composer.attachments.add([large]));
    write("go");
    expect(buttons()).toEqual([["Send", false]]);
    press("Enter");
    expect(root.querySelector(".hint:last-child")?.textContent).toMatch(
      /^film\.mov can't be attached: .+ Press Send again to send without it\.$/,
    );
    expect(socket.asked("send")).toEqual([]);
    press("Enter");
    expect(socket.asked("send")).toMatchObject([{ text: "go" }]);
    expect(root.querySelectorAll("li.upload")).toHaveLength(0);
  });

  it("keeps the draft, and sends nothing, when the user is signed out", () => {
    draw(true);
    write("go");
    press("Enter");
    expect(socket.asked("send")).toEqual([]);
    expect(root.querySelector("textarea")?.value).toBe("go");
  });
});
