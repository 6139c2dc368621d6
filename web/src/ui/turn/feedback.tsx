/** The user's rating of an answer: up or down, then an optional line. The same rating again removes it. */

import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Feedback as Rating } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { wordsOf } from "../../words/index.ts";
import type { Reaction } from "../acts.ts";
import { useDesk } from "./desk.ts";
import { onEscape, useFocus } from "./form.ts";
import { Icon } from "./mark.tsx";
import { memo } from "./memo.tsx";

const lineChars = 1000;

interface Given {
  readonly reaction: Reaction | null;
  readonly text: string;
}

type Sending =
  | { readonly is: "none" }
  | { readonly is: "sending"; readonly given: Given }
  | { readonly is: "taken"; readonly given: Given }
  /** The server has not ended the turn yet: the rating is stored, and sent then. */
  | { readonly is: "early"; readonly given: Given }
  | { readonly is: "refused"; readonly code: string };

/** Send the rating, and show the result. */
function useRating(turnId: string): [Sending, (given: Given) => void, () => void] {
  const desk = useDesk();
  const [state, setState] = useState<Sending>({ is: "none" });
  const newest = useRef<Given | null>(null);
  const send = (given: Given) => {
    newest.current = given;
    // Of two ratings the later one is shown, whichever is answered first.
    const show = (next: Sending) => newest.current === given && setState(next);
    show({ is: "sending", given });
    const onKept = () => show({ is: "early", given });
    void desk.acts
      .rate(turnId, given.reaction, given.text, onKept)
      .then((code) => show(code === "" ? { is: "taken", given } : { is: "refused", code }));
  };
  return [state, send, () => setState({ is: "none" })];
}

function said(state: Sending): string {
  if (state.is === "sending") return say.feedbackSending;
  if (state.is === "early") return say.feedbackOpen;
  if (state.is === "taken") return state.given.reaction === null ? say.feedbackGone : say.feedbackSent;
  return state.is === "refused" ? wordsOf(state.code) : "";
}

function Line(props: { reaction: Reaction; text: string; send: (text: string) => void; close: () => void }) {
  const [text, setText] = useState(props.text);
  const id = useId();
  const field = useFocus<HTMLInputElement>();
  const left = lineChars - text.length;
  const submit = (event: Event) => {
    event.preventDefault();
    props.send(text.trim());
  };
  return (
    <form class="why-line" onSubmit={submit} onKeyDown={onEscape(props.close)}>
      <label for={id} class="vh">
        {props.reaction === "ok" ? say.whyGood : say.why}
      </label>
      <input
        id={id}
        ref={field}
        type="text"
        dir="auto"
        maxLength={lineChars}
        autocomplete="off"
        placeholder={props.reaction === "ok" ? say.whyGood : say.why}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      {left <= 100 && <span class="num">{say.lineLeft(left)}</span>}
      <button type="submit" class="act">
        {say.send}
      </button>
    </form>
  );
}

export const Feedback = memo(function Feedback({ turnId, given }: { turnId: string; given: readonly Rating[] }) {
  const [state, send, settle] = useRating(turnId);
  const [asking, setAsking] = useState(false);
  const own = given.find((feedback) => feedback.origin === "user");
  const machine = given.find((feedback) => feedback.origin === "machine" && feedback.reaction);
  const pending = state.is === "sending" || state.is === "taken" || state.is === "early" ? state.given : null;
  const reaction = pending ? pending.reaction : (own?.reaction ?? null);
  // The sent rating is shown until the log has another one, for instance from another device.
  useEffect(() => {
    if (state.is === "taken" && (own?.reaction || null) !== state.given.reaction) settle();
  }, [own]);
  const press = (pressed: Reaction) => {
    const back = reaction === pressed;
    setAsking(!back);
    send({ reaction: back ? null : pressed, text: "" });
  };
  return (
    <>
      {(["ok", "not_ok"] as const).map((kind) => (
        <button
          key={kind}
          type="button"
          class="tool"
          aria-label={kind === "ok" ? say.good : say.bad}
          aria-pressed={reaction === kind}
          onClick={() => press(kind)}
        >
          <Icon of={kind === "ok" ? "up" : "down"} />
        </button>
      ))}
      {machine && (
        <span class="pill" title={machine.text}>
          {say.feedbackBy(machine.origin)}: {machine.reaction === "ok" ? say.good : say.bad}
        </span>
      )}
      <span class={`feedback-said ${state.is === "refused" ? "bad" : ""}`} aria-live="polite">
        {said(state)}
      </span>
      {asking && (reaction === "ok" || reaction === "not_ok") && (
        <Line
          key={reaction}
          reaction={reaction}
          text={own?.text ?? ""}
          send={(text) => {
            setAsking(false);
            send({ reaction, text });
          }}
          close={() => setAsking(false)}
        />
      )}
      {!asking && own?.text && reaction === own.reaction && <q class="feedback-text">{own.text}</q>}
    </>
  );
});
