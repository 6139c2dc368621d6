/** The reply of a round: the model's thinking, decision and answer, and their cost. */

import type { ComponentChildren } from "preact";
import type { Reply } from "../api/index.ts";
import { words } from "../words/en/inspect.ts";
import { formatMs, formatNumber, formatPercent } from "../words/format.ts";
import { FoldedText } from "./bits.tsx";
import { figuresOf, readShare } from "./figures.ts";
import { oneLine } from "./text.ts";
import { Tree } from "./tree.tsx";

const w = words.reply;

interface ReplyProps {
  readonly reply: Reply;
  /** The name of this reply, if the page shows several. */
  readonly of?: string;
}

export function ReplyPanel({ reply, of = "" }: ReplyProps) {
  const { decision } = reply;
  return (
    <div class="reply">
      <Facts reply={reply} />
      {decision.ended && <p class="remark">{w.ended[decision.ended] ?? decision.ended}</p>}
      {reply.declined && (
        <Part of={of} title={w.declined}>
          <p>{oneLine(`${reply.declined.category} ${reply.declined.explanation}`, 1_000)}</p>
        </Part>
      )}
      {reply.thinking.length > 0 && (
        <Part of={of} title={w.thinking}>
          {reply.thinking.map((thought, at) => (
            <div key={at} class="thought">
              {thought.end_ms > 0 && <p class="num">{w.span(formatMs(thought.begin_ms), formatMs(thought.end_ms))}</p>}
              <FoldedText text={thought.text} />
            </div>
          ))}
        </Part>
      )}
      <Part of={of} title={w.decision}>
        <Tree value={decided(reply)} label={w.decision} />
      </Part>
      {decision.final_answer && (
        <Part of={of} title={w.answer}>
          <FoldedText text={decision.final_answer} />
        </Part>
      )}
      {reply.code.map((program) => (
        <Part key={program.call_id} of={of} title={w.codeOf(program.call_id)}>
          <FoldedText text={program.text} />
        </Part>
      ))}
      {reply.notices.length > 0 && (
        <Part of={of} title={w.notices}>
          <Tree value={reply.notices} label={w.notices} />
        </Part>
      )}
      {reply.raw && (
        <Part of={of} title={w.raw}>
          <p class="remark inline">{decision.interrupted ? w.rawCut : w.rawRefused}</p>
          <FoldedText text={reply.raw} />
        </Part>
      )}
    </div>
  );
}

/** Return the decision without its answer, which is shown separately, and without empty fields. */
function decided(reply: Reply): object {
  const { final_answer: _, ...decision } = reply.decision;
  return Object.fromEntries(Object.entries(decision).filter(([, value]) => value !== "" && !isEmpty(value)));
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

interface PartProps {
  readonly title: string;
  readonly of: string;
  readonly children: ComponentChildren;
}

function Part({ title, of, children }: PartProps) {
  return (
    <section class="part" aria-label={of ? `${title}: ${of}` : title}>
      <h3 class="label">{title}</h3>
      {children}
    </section>
  );
}

function Facts({ reply }: { reply: Reply }) {
  const { decision } = reply;
  const outcome = decision.interrupted ? w.interrupted : decision.accepted ? w.accepted : w.refused;
  const took = Date.parse(reply.ended_at) - Date.parse(reply.started_at);
  const figures = reply.usage && figuresOf(reply.usage);
  const tokens = figures
    ? w.usageOf(formatNumber(figures.input), formatPercent(readShare(figures)), formatNumber(figures.output))
    : words.rounds.notCounted;
  const facts: readonly (readonly [string, string])[] = [
    [w.model, oneLine(reply.model)],
    [w.action, `${decision.action}, ${outcome}`],
    [w.asked, reply.started_at.replace("T", " ").replace("Z", " UTC")],
    [w.first, reply.first_ms === null ? w.unknown : formatMs(reply.first_ms)],
    [w.took, formatMs(took)],
    [w.stop, reply.stop_reason],
    [w.usage, tokens],
  ];
  return (
    <dl class="state">
      {facts.map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name} value`}>{value}</dd>])}
    </dl>
  );
}
