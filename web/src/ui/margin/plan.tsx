/** The plans of a thread: the current one step by step, the others as one line each. */

import { Markdown } from "../../markdown/index.ts";
import type { Growing, Plan } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { useDesk } from "../turn/desk.ts";
import { StepMark } from "../turn/mark.tsx";
import { memo } from "../turn/memo.tsx";
import { planProgress } from "../turn/plan_line.tsx";

export const Steps = memo(function Steps({ plan, running }: { plan: Plan; running: boolean }) {
  // An animation highlights the change for a second; a new key restarts it.
  return (
    <ol class={`plan ${plan.current ? "" : "superseded"}`}>
      {plan.steps.map((step, at) => (
        <li
          key={`${at}/${plan.changed === at ? plan.versions : ""}`}
          class={`${step.status === "done" ? "done" : ""} ${step.status === "in_progress" ? "now" : ""} ${
            plan.changed === at && plan.versions > 1 ? "changed" : ""
          }`}
        >
          <StepMark status={step.status} now={running && plan.current} />
          <span dir="auto">{step.text}</span>
        </li>
      ))}
    </ol>
  );
});

/** The plan while it is written. */
function PlanDraft({ draft }: { draft: Growing }) {
  const desk = useDesk();
  return (
    <div class="plan-draft" dir="auto">
      <Markdown text={draft.text} growing={!draft.whole} context={desk.markdown} />
    </div>
  );
}

export const PlanTracker = memo(function PlanTracker(props: {
  plans: readonly Plan[];
  current: Plan | undefined;
  draft: Growing | null;
  running: boolean;
  /** The number of loaded turns if older ones exist, else 0. */
  ofLast: number;
}) {
  const { plans, current, draft, running, ofLast } = props;
  const others = plans.filter((plan) => plan !== current);
  if (plans.length === 0 && !draft) return null;
  return (
    <section data-part="plan" tabIndex={-1}>
      <h2 class="label">
        {say.plan}
        {current && <span>{planProgress(current)}</span>}
      </h2>
      {draft?.text && <PlanDraft draft={draft} />}
      {current && <Steps plan={current} running={running} />}
      {others.length > 0 && (
        <details class="other-plans">
          <summary>
            {say.morePlans(others.length)}
            {say.ofLast(ofLast)}
          </summary>
          {others.map((plan) => (
            <div key={plan.planId} class="other-plan">
              <p class="num">
                <bdi>{plan.steps[0]?.text ?? say.empty}</bdi> <span>{planProgress(plan)}</span>
              </p>
              <Steps plan={plan} running={false} />
            </div>
          ))}
        </details>
      )}
    </section>
  );
});
