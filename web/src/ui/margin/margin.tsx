/** The margin next to the thread: plan, sources, files, and the context gauge. */

import type { ComponentChildren } from "preact";
import { contextOf, currentPlan, planDraft } from "../../thread/select.ts";
import { say } from "../../words/en/thread.ts";
import { DeskContext } from "../turn/desk.ts";
import { type ThreadProps, useDeskOf } from "../turn/thread_view.tsx";
import { countedRound, Gauge } from "./gauge.tsx";
import { Files, firstSources, promisedFiles, Sources } from "./lists.tsx";
import { PlanTracker } from "./plan.tsx";

/** `children` come first, such as the preview of a file. */
export function Margin(props: ThreadProps & { children?: ComponentChildren }) {
  const { thread, context, children } = props;
  const desk = useDeskOf(props);
  const last = thread.turns.at(-1);
  const used = contextOf(thread);
  const first = firstSources(thread);
  const promised = promisedFiles(thread);
  const running = last?.outcome.is === "running";
  const current = currentPlan(thread);
  const planned = running || current?.open === true;
  const ofLast = context.earlier === "none" ? 0 : thread.turns.length;
  const plan = (
    <PlanTracker plans={thread.plans} current={current} draft={planDraft(thread)} running={running} ofLast={ofLast} />
  );
  return (
    <DeskContext.Provider value={desk}>
      <aside class="margin" aria-label={say.thisTurn}>
        {children}
        {/* A finished plan makes room for its results. */}
        {planned && plan}
        <Sources first={first} sources={thread.sources} ofLast={ofLast} />
        <Files files={thread.files} promised={promised} ofLast={ofLast} />
        {!planned && plan}
        {used && <Gauge context={used} round={countedRound(thread)} />}
      </aside>
    </DeskContext.Provider>
  );
}
