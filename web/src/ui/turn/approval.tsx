/** The approval request of a call: its action, its parameters, and the three answers, all by keyboard. */

import { useId, useState } from "preact/hooks";
import { visible } from "../../markdown/index.ts";
import type { Approval as Asked, Call } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { formatDay, formatIn, formatTime } from "../../words/format.ts";
import { wordsOf } from "../../words/index.ts";
import type { Acts } from "../acts.ts";
import { COMMAND } from "../keys/command.ts";
import { Params } from "./call.tsx";
import { useNow } from "./desk.ts";
import { onEscape, useFocus } from "./form.ts";
import { Mark } from "./mark.tsx";
import { ProgramText } from "./program.tsx";

const denialChars = 1000;

/** The parameters in a JSON text, or the reason why it is invalid. */
export function parseParams(text: string): { params: Readonly<Record<string, unknown>> } | { why: string } {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      return { params: value as Record<string, unknown> };
    }
    return { why: say.notObject };
  } catch (error) {
    return { why: say.badJson((error as Error).message) };
  }
}

function Denial({ deny, close }: { deny: (text: string) => void; close: () => void }) {
  const [text, setText] = useState("");
  const field = useFocus<HTMLTextAreaElement>();
  const id = useId();
  const submit = (event: Event) => {
    event.preventDefault();
    deny(text.trim());
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey) submit(event);
  };
  return (
    <form class="ask-form" onSubmit={submit} onKeyDown={onEscape(close)}>
      <label for={id}>{say.denyWords}</label>
      <textarea
        id={id}
        ref={field}
        rows={2}
        dir="auto"
        maxLength={denialChars}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <div class="ask-acts">
        <button type="submit" class="act bad">
          {text.trim() ? say.denyWith : say.deny} <kbd>⏎</kbd>
        </button>
        <button type="button" class="act" onClick={close}>
          {say.cancel}
        </button>
      </div>
    </form>
  );
}

function Editing(props: {
  params: Readonly<Record<string, unknown>>;
  edit: (params: Readonly<Record<string, unknown>>) => void;
  close: () => void;
}) {
  const [text, setText] = useState(() => JSON.stringify(props.params, null, 2));
  const field = useFocus<HTMLTextAreaElement>();
  const id = useId();
  const parsed = parseParams(text);
  const submit = (event: Event) => {
    event.preventDefault();
    if ("params" in parsed) props.edit(parsed.params);
    else field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.stopPropagation();
      submit(event);
    }
  };
  return (
    <form class="ask-form" onSubmit={submit} onKeyDown={onEscape(props.close)}>
      <label for={id}>{say.editParams}</label>
      <textarea
        id={id}
        ref={field}
        class="json-text"
        dir="ltr"
        spellcheck={false}
        rows={Math.min(Math.max(text.split("\n").length, 3), 16)}
        value={text}
        aria-invalid={"why" in parsed}
        aria-describedby={`${id}-why`}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <p class="why bad" id={`${id}-why`} role="alert">
        {"why" in parsed ? parsed.why : ""}
      </p>
      <div class="ask-acts">
        <button type="submit" class="act main" aria-disabled={"why" in parsed}>
          {say.runEdited} <kbd>{COMMAND}⏎</kbd>
        </button>
        <button type="button" class="act" onClick={props.close}>
          {say.cancel}
        </button>
      </div>
    </form>
  );
}

function Until({ until, now }: { until: number; now: number }) {
  if (now >= until) return <p class="aside">{say.untilGone}</p>;
  return <p class="aside">{say.until(formatDay(until), formatTime(until), formatIn(until - now))}</p>;
}

type Form = "none" | "deny" | "edit";

/** The three answers. `answer` sends one; while it is pending, no button is shown. */
function Answers(props: { call: Call; approval: Asked; acts: Acts; late: boolean }) {
  const { call, approval, acts } = props;
  const [form, setForm] = useState<Form>("none");
  const [sent, setSent] = useState(false);
  const [refusal, setRefusal] = useState("");
  const send = (answer: Promise<string>) => {
    setForm("none");
    setSent(true);
    setRefusal("");
    void answer.then((code) => {
      setRefusal(code);
      // Accepted: the log provides the next state.
      if (code) setSent(false);
    });
  };
  const close = () => setForm("none");
  if (sent) return <p class="aside">{say.answering}</p>;
  return (
    <>
      {refusal && (
        <p class="why bad" role="alert">
          {wordsOf(refusal)} <code dir="ltr">{refusal}</code>
        </p>
      )}
      {form === "deny" && <Denial deny={(text) => send(acts.deny(call.callId, text))} close={close} />}
      {form === "edit" && (
        <Editing params={approval.params} edit={(params) => send(acts.edit(call.callId, params))} close={close} />
      )}
      {form === "none" && (
        <div class="ask-acts">
          <button type="button" class="act main" disabled={props.late} onClick={() => send(acts.approve(call.callId))}>
            {say.approve}
          </button>
          <button type="button" class="act" disabled={props.late} onClick={() => setForm("deny")}>
            {say.deny}…
          </button>
          {approval.editable && (
            <button type="button" class="act" disabled={props.late} onClick={() => setForm("edit")}>
              {say.edit}…
            </button>
          )}
        </div>
      )}
    </>
  );
}

function Request({ call, approval, acts }: { call: Call; approval: Asked; acts: Acts }) {
  const now = useNow(approval.until !== null);
  const id = useId();
  const late = approval.until !== null && now >= approval.until;
  return (
    <section class="card ask" data-call={call.callId} aria-labelledby={id}>
      <header>
        <Mark shape="hand" tone="ask" word={say.verdict.asked} />
        <h3 id={id}>{say.asks(visible(call.toolId))}</h3>
        <span class="pill ask">{say.waitsForYou}</span>
      </header>
      <div class="inner">
        {approval.code ? (
          <ProgramText code={approval.code} params={approval.params} />
        ) : (
          <Params params={approval.params} />
        )}
        {Object.keys(approval.params).length === 0 && !approval.code && <p class="aside">{say.noParams}</p>}
        <div>
          <p class="aside">{say.asksWhy[approval.rule]}</p>
          {approval.until !== null && <Until until={approval.until} now={now} />}
          {!approval.editable && approval.code && <p class="aside">{say.notEditable}</p>}
        </div>
        <Answers call={call} approval={approval} acts={acts} late={late} />
      </div>
    </section>
  );
}

const verdictMarks = {
  approved: ["done", "ok"],
  edited: ["done", "ok"],
  denied: ["failed", "bad"],
  expired: ["skipped", ""],
  withdrawn: ["skipped", ""],
  stopped: ["skipped", ""],
} as const;

/** A request that a stop or a redirect has settled: its call needs no further text. */
export function isCancelled({ state }: Asked): boolean {
  return state === "withdrawn" || state === "stopped";
}

function Verdict({ call, approval }: { call: Call; approval: Asked & { state: keyof typeof verdictMarks } }) {
  const [shape, tone] = verdictMarks[approval.state];
  const words = say.verdict[approval.state];
  return (
    <div class="verdict">
      <p>
        <Mark shape={shape} tone={tone} word={say.approval} />
        {isCancelled(approval) && (
          <code class="tid" dir="ltr">
            {visible(call.toolId)}
          </code>
        )}{" "}
        {words}
        {approval.client && say.answeredBy(visible(approval.client))}
      </p>
      {approval.text && (
        <p class="aside">
          {say.deniedWith} <q dir="auto">{approval.text}</q>
        </p>
      )}
    </div>
  );
}

export function Approval({ call, approval, acts }: { call: Call; approval: Asked; acts: Acts }) {
  const { state } = approval;
  if (state === "asked") return <Request call={call} approval={approval} acts={acts} />;
  return <Verdict call={call} approval={{ ...approval, state }} />;
}
